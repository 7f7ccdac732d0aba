"""What a setting means: every key and group is explained, from sources that a reader can find."""

import json
import re
import subprocess
import sys
from pathlib import Path

from servsim import _core

SERVSIM = Path(sys.executable).with_name("servsim")


def _explain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "explain", *words], capture_output=True, text=True, check=False)


def test_a_group_explains_all_of_its_settings() -> None:
    done = _explain("cache", "--json")
    assert done.returncode == 0, done.stderr
    keys = [setting["key"] for setting in json.loads(done.stdout)["settings"]]
    assert keys == [key for key in _core.setting_keys() if key.startswith("cache.")]
    assert len(keys) > 3


def test_a_key_explains_itself_alone() -> None:
    done = _explain("processors")
    assert done.stdout.startswith("processors\n  meaning: ") and done.stdout.count("meaning: ") == 1


def test_a_misspelt_key_gets_a_suggestion() -> None:
    done = _explain("cache.sise")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `cache.size`?" in done.stderr


def test_no_source_is_a_number_that_only_its_writers_know() -> None:
    for key in _core.setting_keys():
        assert not re.search(r"\b[DA]\d+\b", _core.explain(key)), _core.explain(key)
