"""What a sampled run shows of itself: the share done over all stages, its cost before and after, and Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from servsim.errors import Interrupted
from servsim.hashes import BLOCK, LEAST, file_hash
from servsim.progress import Held
from servsim.sampling import sample, stages
from servsim.sampling.stages import COARSE, FIRST_PASS, HASH, LAST_COARSE, LIVE_POINTS, WINDOWS, Prospect, Stages

TRACE = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
ONE = ["processors=1"]
#: Whole transactions of the shipped trace that one processor can be sampled on.
RANGE = {"transactions": 10, "warmup": 0}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, in which nothing is kept."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_share_done_grows_over_the_stages_of_a_run_and_of_one_that_finds_live_points() -> None:
    """Of the whole: the pass that makes live-points is the most of the first run, and there is none in the second."""
    for names in (
        ["reading the trace for the first time", "making live-points", "timing windows", "coarse runs"],
        ["timing windows", "coarse runs"],
    ):
        shown: list[tuple[str, float]] = []
        said: list[str] = []
        sample(
            TRACE,
            "foglia-2004-4p",
            0.5,
            overrides=ONE,
            progress=lambda what, share, to=shown: to.append((what, share)),
            say=said.append,
            threads=1,
            **RANGE,
        )
        shares = [share for _, share in shown]
        assert shares == sorted(shares), "it never falls"
        assert shares[0] < 0.05 and 0.4 < shares[-1] <= 1
        found = [text.partition(":")[0] for text, _ in shown]
        assert [name for place, name in enumerate(found) if place == 0 or found[place - 1] != name] == names
        assert said[0].startswith("cost: ") and "windows give" in said[1]


def _shares(*steps: tuple[str, int, int], designs: int = 1) -> list[float]:
    """Shares that are shown of these steps."""
    shown: list[float] = []
    told = Stages(lambda _, share: shown.append(share), TRACE, designs=designs)
    told.expect(Prospect(passed=1e6, window=1000))
    for step in steps:
        told(*step)
    return shown


def test_further_windows_and_coarse_runs_take_what_is_left_of_the_share() -> None:
    """However many there are to come; a stage that begins again goes on where it was."""
    steps = [(HASH, 1, 2), (FIRST_PASS, 1, 2), ("", 0, 0), (LIVE_POINTS, 400_000, 0), (LIVE_POINTS, 2_000_000, 0)]
    for of in (8000, 16_000, 50_000):
        steps += [(WINDOWS, of // 2, of), (WINDOWS, of, of), (COARSE, 1, 4), (COARSE, 4, 4)]
    shares = _shares(*steps)
    assert len(shares) == len(steps) - 1, "what has no name is not shown"
    assert shares == sorted(shares) and len(set(shares)) > 8 and shares[-1] <= 1
    assert shares[4] < 0.97, "windows and coarse runs are to come"


def test_what_is_kept_makes_the_share_begin_with_what_is_left() -> None:
    """Where windows come first, all that is expected are they, coarse runs, and a first stage of them."""
    weights = {WINDOWS: 8 * stages.TIMES[WINDOWS] * 1000, COARSE: stages.TIMES[COARSE] * 1e6}
    more = stages.MORE * 2 * weights[WINDOWS]
    whole = weights[WINDOWS] + weights[COARSE] + more
    half, done, coarse = _shares((WINDOWS, 4000, 8000), (WINDOWS, 8000, 8000), (COARSE, 4, 4))
    assert half == pytest.approx(weights[WINDOWS] / 2 / whole)
    assert done == pytest.approx(weights[WINDOWS] / whole)
    assert coarse == pytest.approx(1 - more / whole)
    assert _shares((WINDOWS, 4000, 8000), (LAST_COARSE, 6, 6))[-1] == pytest.approx(1)


def test_several_designs_share_one_line() -> None:
    """Windows of the second are to come when those of the first have ended."""
    of = [(WINDOWS, 8000, 8000), (COARSE, 4, 4)]
    one, two = _shares(*of), _shares(*of, *of, designs=2)
    assert two[1] < 0.7 * one[1] and two == sorted(two)


def test_the_cost_told_before_is_that_of_after() -> None:
    """References of the pass, of windows and of a full run, within some hundredths."""
    said: list[str] = []
    found = sample(TRACE, "foglia-2004-4p", 0.5, overrides=ONE, say=said.append, transactions=5, warmup=1)
    numbers = re.match(
        r"cost: about (\d+) M references go through the caches alone to make live-points, once for all machines of "
        r"this shape; then ([\d.]+) M are timed in 8 windows, ([\d.]+) % of a full run, or ([\d.]+) M in 24, "
        r"([\d.]+) %, and more if these do not give ±50 %; beside them 5 coarse runs or more",
        said[0],
    )
    assert numbers, said[0]
    passed, timed, share, timed_24, _ = map(float, numbers.groups())
    cost, count = found["cost"], found["cost"]["windows"]
    assert passed == pytest.approx(cost["functional_references"] / 1e6, rel=0.2)
    assert (timed if count == 8 else timed_24) == pytest.approx(cost["timed_references"] / 1e6, rel=0.1)
    assert share == pytest.approx(100 * cost["share_of_full_run"] * 8 / count, rel=0.2)
    assert said[1].endswith(f"needed in all, {cost['timed_references'] / 1e6:,.1f} M references")
    again: list[str] = []
    sample(TRACE, "foglia-2004-4p", 0.5, overrides=ONE, say=again.append, transactions=5, warmup=1)
    assert again[0].startswith(f"cost: live-points are there; {timed} M are timed in 8 windows, {share} % of")


def test_a_trace_that_does_not_say_what_it_holds_has_no_cost_before() -> None:
    assert Prospect.of(Held(), {"range": {}}) is None


class Stopped:
    """Interrupts once a stage is so far."""

    def __init__(self, what: str, share: float) -> None:
        self.what, self.share, self.stopped = what, share, False

    def __call__(self, what: str, share: float) -> None:
        if what.startswith(self.what) and share >= self.share and not self.stopped:
            self.stopped = True
            raise KeyboardInterrupt


def _interrupted(precision: float, what: str, share: float = 0.0) -> dict[str, Any]:
    with pytest.raises(Interrupted) as stopped:
        sample(TRACE, "foglia-2004-4p", precision, overrides=ONE, threads=1, progress=Stopped(what, share), **RANGE)
    return stopped.value.result


def _why(kept: dict[str, Any]) -> str:
    (why,) = [warning["text"] for warning in kept["warnings"] if warning["code"] == "interrupted"]
    return str(why)


def test_an_interruption_says_how_many_windows_ran_what_they_give_and_how_many_it_would_take() -> None:
    """The look is the first stage's beginning only, so it is no number that the precision asked for."""
    sample(TRACE, "foglia-2004-4p", 0.5, overrides=ONE, **RANGE)
    kept = _interrupted(0.11, "coarse runs")
    text = _why(kept)
    half = 100 * kept["precision"]["half_width"]
    assert text.startswith(f"interrupted: 8 windows had ended, which give ±{half:.1f} %; about "), text
    needed = int(re.search(r"about (\d+) of \d+ would be needed for ±11 %", text)[1])  # type: ignore[index]
    assert needed >= 24
    assert _why(_interrupted(0.5, "coarse runs")).endswith("they are enough for ±50 %")
    text = _why(_interrupted(0.01, "coarse runs"))
    assert text.endswith("by now what no window tells leaves no room for ±1 %")


def _big(tmp_path: Path) -> Path:
    """A file that takes a while to hash."""
    path = tmp_path / "big.svt"
    with path.open("wb") as file:
        file.truncate(40 * LEAST)
    return path


def test_hashing_a_large_file_tells_how_far_it_is(tmp_path: Path) -> None:
    """In blocks, each of a fraction of a millisecond."""
    path, told = tmp_path / "t.svt", []
    path.write_bytes(bytes(LEAST + 5))
    file_hash(path, lambda done, of: told.append((done, of)))
    assert told == [(min(block * BLOCK, LEAST + 5), LEAST + 5) for block in range(1, LEAST // BLOCK + 2)]


def _ended_after(stage: str, command: list[object]) -> tuple[float, int, str]:
    """Interrupt a command once it is in a stage; seconds until it ends, its exit code and what it said."""
    program = [sys.executable, "-c", _SAYS_STAGES, *map(str, command)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip() == f"stage: {stage}":
                break
        else:
            pytest.fail(f"{stage} did not begin")
        began = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        rest = process.stderr.read()
        process.wait()
        return time.monotonic() - began, process.returncode, rest


#: The command, saying where each stage begins.
_SAYS_STAGES = """
import sys
from servsim import cli
from servsim.sampling import stages
begun, call = set(), stages.Stages.__call__
def told(self, what, *rest):
    if what not in begun:
        begun.add(what)
        print("stage:", what, file=sys.stderr, flush=True)
    call(self, what, *rest)
stages.Stages.__call__ = told
sys.argv[0] = "servsim"
sys.exit(cli.run())
"""


@pytest.mark.parametrize("stage", [HASH, FIRST_PASS, LIVE_POINTS])
def test_ctrl_c_is_heard_before_the_first_window(stage: str, tmp_path: Path, cache: Path) -> None:
    """At once, where it took until the end of the hash and of the first pass; no half file is left."""
    trace = _big(tmp_path) if stage == HASH else TRACE
    options = ["--set", "processors=1", "--transactions", 10, "--warm-up", 0]
    seconds, code, said = _ended_after(
        stage, ["simulate", trace, "-m", "foglia-2004-4p", "--precision", "20%", *options]
    )
    assert (code, said.splitlines()[-1]) == (130, "servsim: interrupted")
    assert seconds < 2, "a busy host"
    assert not [file for file in cache.rglob("*") if file.is_file() and file.suffix != ".found"]
