"""Findings of the first pass over a trace, kept in the cache: results are the same with them and without."""

import json
from pathlib import Path

import pytest
import servsim
from servsim import simulation
from servsim.hashes import file_hash

TRACE = Path(servsim.__file__).with_name("data") / "quickstart.svt"


def _results() -> str:
    timed = simulation.simulate(TRACE, "foglia-2004-4p", transactions=2, warmup=1)
    counted = simulation.simulate(TRACE, "foglia-2004-4p", engine="functional", transactions=2)
    return json.dumps([timed, counted], sort_keys=True)


def test_results_are_the_same_with_findings_that_are_kept_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_folder = tmp_path / "a-file"
    no_folder.write_text("no cache can be here")
    monkeypatch.setenv("SERVSIM_CACHE", str(no_folder))
    without = _results()
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    making = _results()
    kept = list((tmp_path / "cache" / "first-pass").iterdir())
    hexadecimal = file_hash(TRACE).replace(":", "")
    assert [file.name for file in kept] == [f"{hexadecimal}.found"]
    assert without == making == _results()


def test_a_small_trace_leaves_nothing_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "one.txt"
    text.write_text("0 L 1000\n")
    simulation.simulate(text, "foglia-2004-4p", engine="functional")
    assert not (tmp_path / "cache").exists()
