"""How far a command is: on a terminal, off it, when it is interrupted, and what others' names may do to a terminal."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servsim import _core, captures, cli
from servsim.cli.progress import EVERY, QUIET, Progress
from servsim.cli.terminal import say
from servsim.environment import shipped_trace
from servsim.errors import Interrupted
from servsim.interrupts import interrupts_held
from servsim.progress import expected_references, of_references, of_runs
from servsim.simulation import simulate
from servsim.text import printable
from servsim.trace import tables

MACHINE = "foglia-2004-4p"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_off_a_terminal_a_quick_command_is_silent_and_a_long_one_says_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    progress = Progress(clock)
    for second in range(200):
        clock.now = 100.0 + second
        progress("simulating", second / 200)
        if second < QUIET:
            assert capsys.readouterr().err == ""
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + (199 - QUIET) // EVERY
    assert lines[0] == "servsim: simulating, 5 %, about 3 min 10 s left"


def test_on_a_terminal_one_line_changes_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(), Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(clock) as progress:
        clock.now += 1
        progress("fitting")
        clock.now += 60
        progress("fitting")
    assert stream.getvalue() == "\r\x1b[Kfitting, 1 s so far\r\x1b[Kfitting, 1 min 1 s so far\r\x1b[K"


def test_the_time_left_follows_from_the_pace_and_not_from_what_was_kept() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress("run 60 of 100", 0.6)
    clock.now += 30
    progress("run 70 of 100", 0.7)
    assert progress.line() == "run 70 of 100, 70 %, about 1 min 30 s left"
    progress("the next configuration", 0.0)
    assert progress.line() == "the next configuration, 0 %"


def test_the_references_of_a_captured_trace_are_known_beforehand() -> None:
    trace = shipped_trace()
    assert trace is not None
    whole = expected_references(trace, transactions="all", replications=3)
    assert whole == 3 * (21_760_459 + 10_300_526)
    # Of ten transactions five, and half of one of each of the five users, who are at work when the fifth ends.
    assert expected_references(trace, transactions=4, warmup=1) == pytest.approx(whole / 3 * 0.75)
    assert expected_references([trace, trace], transactions="all", replications=3) == 2 * whole
    # A functional warm-up is made once for all runs, and what it takes of the trace is not measured.
    one = whole / 3
    assert expected_references(trace, functional_warmup=5, transactions="all", replications=3) == pytest.approx(2 * one)
    assert expected_references(trace, functional_warmup="whole trace", transactions="all") == pytest.approx(2 * one)
    assert expected_references(trace, functional_warmup="1_000 references", references=50) == 1100
    shown: list[tuple[str, float]] = []
    of_references(lambda what, share: shown.append((what, share)), "simulating 3 runs", whole)(32_060_985)
    assert shown == [("simulating 3 runs: 32 of about 96 million references", pytest.approx(1 / 3))]


def test_several_runs_share_one_line_of_progress() -> None:
    shown: list[tuple[str, float]] = []
    begin = of_runs(lambda what, share: shown.append((what, share)), 4, 1000.0)
    begin("C1")(500)
    begin("C2")(2000)
    assert shown == [
        ("C1 (1 of 4)", 0.0),
        ("C1 (1 of 4)", 0.125),
        ("C2 (2 of 4)", 0.25),
        ("C2 (2 of 4)", pytest.approx(1.99 / 4)),
    ]
    of_runs(lambda what, share: shown.append((what, share)), 2, None)("one")(7)
    assert shown[-1] == ("one (1 of 2)", 0.0)


def test_what_is_expected_of_an_unknown_format_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("0 L 1000\n")
    assert expected_references(tmp_path / "t.txt") is None
    (tmp_path / "t.raw16").write_bytes(bytes(160))
    assert expected_references(tmp_path / "t.raw16") == 10


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("short") / "short.svt"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, trace, (4, 6), None, None)
    return trace


def test_replications_that_ended_before_an_interruption_are_kept(short: Path) -> None:
    (whole,) = simulate(short, MACHINE)["replications"]

    def interrupt(references: int) -> None:
        if references > 1.5 * whole["references"]:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stop:
        simulate(short, MACHINE, replications=4, threads=1, progress=interrupt)
    kept = stop.value.result
    assert kept["interrupted"] is True
    assert 1 <= len(kept["replications"]) < 4
    assert kept["replications"][0] == whole
    assert kept["summary"]["cycles"]["n"] == len(kept["replications"])
    assert any(w["text"].startswith("interrupted: ") and "of 4 replications" in w["text"] for w in kept["warnings"])


def test_an_interruption_before_the_first_end_keeps_nothing(short: Path) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stop:
        simulate(short, MACHINE, replications=2, progress=interrupt)
    assert not isinstance(stop.value, Interrupted)


def test_an_interrupted_simulate_writes_what_is_done_and_exits_with_130(
    short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: dict[str, Any] = simulate(short, MACHINE)
    done |= {"interrupted": True, "warnings": ["interrupted: 1 of 9 replications had ended, and these are kept"]}

    def stopped(*_: object, **__: object) -> None:
        raise Interrupted(done)

    monkeypatch.setattr(captures, "simulate", stopped)
    output = tmp_path / "r.json"
    monkeypatch.setattr(sys, "argv", ["servsim", "simulate", str(short), "-m", MACHINE, "-o", str(output)])
    assert cli.run() == 130
    assert json.loads(output.read_text())["interrupted"] is True
    messages = capsys.readouterr().err
    assert "1 of 9 replications" in messages and messages.endswith("servsim: interrupted\n")


def test_a_worker_begins_with_interrupts_held_back() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        os.kill(os.getpid(), signal.SIGINT)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_names_of_others_reach_the_terminal_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\x1b[31m\udcff\x9b\u202e") == "a\\x1b[31m\\xff\\x9b\\u202e"
    assert printable("[red]näme[/red]\t✓") == "[red]näme[/red]\t✓"
    say("x\x1b]0;title\x07")
    assert capsys.readouterr().err == "x\\x1b]0;title\\x07\n"
    totals = {"transactions": 1, "instructions": 1, "data_references": 1, "file_bytes": 1}
    tables.written(Path("[red]a[/red]\x1b[2J:smile:"), totals)
    assert capsys.readouterr().err.startswith("[red]a[/red]\\x1b[2J:smile:: 1 transaction, 1 instr")


def test_a_file_name_that_is_not_utf_8_is_wrong_input_and_no_bug(tmp_path: Path) -> None:
    trace = shipped_trace()
    assert trace is not None
    name = os.fsencode(tmp_path) + b"/n\xffame.svt"
    shutil.copy(trace, name)
    for command in ("report", "simulate", "trace info", "trace check", "disk fit", "model solve", "sweep"):
        words = [*command.split(), name, *(["-m", MACHINE] if command == "simulate" else [])]
        program = Path(sys.executable).with_name("servsim")
        done = subprocess.run([program, *words], capture_output=True, check=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count(b"\n") == 1 and b"rename it" in done.stderr
