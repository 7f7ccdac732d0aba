"""Ctrl-C in comparisons and studies: what had ended is kept and shown, and the exit code is 130.

In a process that goes on, such as a notebook, work that was given up ends, too.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from servsim import cli
from servsim.comparison import designs
from servsim.errors import Interrupted
from servsim.model import Closed, Network, Station, solve
from servsim.reproduce import alameldeen_2003, report
from servsim.reproduce.rows import Part, Row, made_until_interrupted
from waiting import wait_for

MACHINES = ("-m", "foglia-2004-4p", "-m", "foglia-2004-4p:cache.size=64 KiB", "-m", "foglia-2004-8p")


def _document(count: int, seed: int) -> dict[str, Any]:
    document = layout_result("m", replications=count)
    for number, replication in enumerate(document["replications"]):
        replication |= {"seed": seed + number, "cycles_per_transaction": 1e6 * (1 + 0.01 * (number % 3))}
        replication["coherence"] = {"total": {"user": 0, "kernel": 0}}
    return document


def _run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: list[int | None], *options: str
) -> tuple[int, dict[str, int]]:
    """Compare machines of which the last in ``ended`` is interrupted after so many of 6 runs; return code and kept."""
    trace = tmp_path / "t.txt"
    trace.write_text("0 L 1000\n")
    calls = iter(ended)

    def simulate(*_: object, **given: Any) -> dict[str, Any]:
        done = next(calls)
        if done is None:
            return _document(given["replications"], given["seed"])
        if done == 0:
            raise KeyboardInterrupt
        raise Interrupted(_document(done, given["seed"]))

    monkeypatch.setattr(designs, "simulate_captures", simulate)
    kept = tmp_path / "kept"
    count = () if "--precision" in options else ("--replications", "6")
    words = ["servsim", "compare", str(trace), *MACHINES, *count, "--keep", str(kept), *options]
    monkeypatch.setattr(sys, "argv", words)
    code = cli.run()
    files = kept.iterdir() if kept.is_dir() else []
    return code, {file.stem: len(json.loads(file.read_text())["replications"]) for file in files}


def test_an_interrupted_comparison_keeps_and_compares_what_had_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, kept = _run(monkeypatch, tmp_path, [None, 3], "--json")
    assert (code, sorted(kept.values())) == (130, [3, 6])
    told = capsys.readouterr()
    assert [design["n"] for design in json.loads(told.out)["designs"]] == [6, 3]
    assert "replications that had ended: 6 of foglia-2004-4p, 3 of foglia-2004-4p, cache.size=64 KiB" in told.err


def test_one_design_is_kept_and_compared_with_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, kept = _run(monkeypatch, tmp_path, [None, 0])
    assert (code, list(kept.values())) == (130, [6])
    assert capsys.readouterr().out == ""


def test_nothing_is_kept_of_a_comparison_in_which_nothing_had_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert _run(monkeypatch, tmp_path, [0]) == (130, {})


def test_a_second_stage_that_is_interrupted_adds_to_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, kept = _run(monkeypatch, tmp_path, [None, None, None, 2], "--precision", "0.001")
    assert (code, sorted(kept.values())) == (130, [10, 10, 12])


def _row(name: str) -> Row:
    return Row(name, "claim", "hard", True, (Part("what", "1", "1", True),))


def _interrupted() -> list[Row]:
    raise KeyboardInterrupt


def test_rows_made_before_an_interruption_are_kept() -> None:
    assert made_until_interrupted([lambda: [_row("A")], lambda: [_row("B")]]) == ([_row("A"), _row("B")], False)
    assert made_until_interrupted([lambda: [_row("A")], _interrupted]) == ([_row("A")], True)
    with pytest.raises(KeyboardInterrupt):
        made_until_interrupted([_interrupted, lambda: [_row("B")]])


def test_an_interrupted_study_shows_the_rows_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alameldeen_2003, "_a5", lambda _: (_row("A5"), ["a remark"]))
    monkeypatch.setattr(alameldeen_2003, "_a6", lambda _: _interrupted())
    monkeypatch.setattr(sys, "argv", ["servsim", "reproduce", "alameldeen-2003"])
    assert cli.run() == 130
    told = capsys.readouterr()
    assert "A5" in told.out and "A6" not in told.out and "a remark" in told.out
    assert "the rows above are those whose runs had ended" in told.err
    assert isinstance(alameldeen_2003.run(), report.Report)


def test_a_model_that_is_given_up_is_simulated_no_further() -> None:
    network = Network([Closed("users", 20, think=3.0)], [Station("cpu", 0.5)])
    threads = Path("/proc/self/task")
    before = len(list(threads.iterdir()))

    def give_up(*_: float) -> None:
        assert len(list(threads.iterdir())) > before
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(network, "simulation", requests=1e10, progress=give_up)  # hours, were it not given up
    wait_for(lambda: len(list(threads.iterdir())) == before)
