"""What a setting means: every key and group is explained, from sources that a reader can find."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from servsim import _core
from servsim.machines.settings import setting_keys

SERVSIM = Path(sys.executable).with_name("servsim")


def _explain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "explain", *words], capture_output=True, text=True, check=False)


def test_a_group_explains_all_of_its_settings() -> None:
    done = _explain("cache", "--json")
    assert done.returncode == 0, done.stderr
    keys = [setting["key"] for setting in json.loads(done.stdout)["settings"]]
    assert keys == [key for key in setting_keys() if key.startswith("cache.")]
    assert len(keys) > 3


def test_a_key_explains_itself_alone() -> None:
    done = _explain("processors")
    assert done.stdout.startswith("processors\n  meaning: ") and done.stdout.count("meaning: ") == 1


def test_a_word_that_settings_take_explains_them_as_the_field_writes_it() -> None:
    assert _explain("MESI").stdout == _explain("protocol.name").stdout
    assert [line for line in _explain("LRU").stdout.splitlines() if line.endswith(".replacement")] == [
        "cache.replacement",
        "l2.replacement",
        "l3.replacement",
    ]


def test_a_misspelt_key_gets_a_suggestion() -> None:
    done = _explain("cache.sise")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `cache.size`?" in done.stderr


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("foglia", "`foglia-2004-4p` or `foglia-2004-8p`?"),
        ("passive", "`misses.passive_sharing` or "),
        ("misses.cld", "`misses.cold`?"),
        ("nonsense", "docs/reference/figures.md every figure"),
    ],
)
def test_what_a_word_may_mean_is_told_of_settings_figures_and_machines(name: str, meant: str) -> None:
    done = _explain(name)
    assert (done.returncode, done.stdout) == (2, "")
    assert meant in done.stderr


def test_no_source_is_a_number_that_only_its_writers_know() -> None:
    for key in setting_keys():
        assert not re.search(r"\b[DA]\d+\b", _core.explain(key)), _core.explain(key)


def test_a_machine_explains_what_it_sets(tmp_path: Path) -> None:
    shown = _explain("brock-2001-4x4").stdout
    assert re.search(r"^cache\.size +16 KiB +2 MiB *$", shown, re.MULTILINE)
    assert "disk.read_time" not in shown  # the default, though the description may print it in another unit
    own = tmp_path / "own.toml"
    own.write_text('cache.size = "4 MiB"\n')
    assert re.search(r"^cache\.size +4 MiB +2 MiB *$", _explain(str(own)).stdout, re.MULTILINE)
    settings = {one["key"]: one for one in json.loads(_explain(str(own), "--json").stdout)["settings"]}
    assert set(setting_keys()) <= settings.keys()
    assert settings["cache.size"] == {"key": "cache.size", "value": "4 MiB", "default": "2 MiB"}


def test_a_misspelt_machine_gets_a_suggestion() -> None:
    done = _explain("foglia-2004-4q")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'foglia-2004-4p'?" in done.stderr
