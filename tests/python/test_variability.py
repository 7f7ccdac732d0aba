"""Variability by source: against made-up layouts, and on a small trace."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servsim import variability
from servsim.statistics.nested import spreads
from servsim.variability import over_time
from sweep_study import write_trace

SERVSIM = Path(sys.executable).with_name("servsim")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("layout", [(1, 4, 10), (2, 1, 10), (5, 1, 10), (3, 4, 5), (8, 2, 3)])
@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_hold_the_spread_of_each_level(layout: tuple[int, int, int], skewed: bool) -> None:
    """On layouts whose spreads are known, normal or lognormal with a skewness of .8."""
    captures, parts, runs = layout
    chance = np.random.default_rng(captures + 10 * parts + 100 * runs)

    def draw(spread: float, *shape: int) -> np.ndarray:
        if skewed:
            drawn = chance.lognormal(0.0, 0.25, shape)
            return spread * (drawn - np.exp(0.25**2 / 2)) / np.sqrt((np.exp(0.25**2) - 1) * np.exp(0.25**2))
        return chance.normal(0.0, spread, shape)

    held: dict[str, list[bool]] = {}
    for truth in [(1.5, 2.0, 3.0), (1.5, 2.0, 0.0), (0.5, 5.0, 5.0)] * 200:
        values = 100 + draw(truth[0], *layout) + draw(truth[2], captures, 1, 1)
        values += draw(truth[1], captures, parts, 1) if parts > 1 else 0.0
        for level, spread, true in zip(("runs", "parts", "captures"), spreads(values), truth, strict=True):
            if spread is not None:
                low, high = spread.interval_95
                # The mean that a spread is a share of is drawn, too.
                held.setdefault(level, []).append(low <= 100 * true / values.mean() <= high)
    shares = {level: np.mean(hits) for level, hits in held.items()}
    assert all(share > 0.925 for share in shares.values()), shares
    assert set(held) == {"runs", *(["parts"] if parts > 1 else []), *(["captures"] if captures > 1 else [])}


def test_spreads_are_those_of_their_levels() -> None:
    chance = np.random.default_rng(3)
    layout = (60, 5, 20)
    values = 100 + chance.normal(0, 2, layout) + chance.normal(0, 8, (60, 1, 1)) + chance.normal(0, 4, (60, 5, 1))
    found = [spread.percent for spread in spreads(values) if spread is not None]
    assert found == pytest.approx([2.0, 4.0, 8.0], rel=0.2)
    runs, parts, captures = spreads(100 + chance.normal(0, 2, (1, 400, 20)))
    assert parts is not None and parts.percent < 0.3, "0.45 is what the spread of runs makes of their means"
    assert captures is None
    assert runs.percent == pytest.approx(2.0, rel=0.05)
    # Two captures that differ by a tenth: almost anything may be the spread of captures.
    two = spreads([[[100.0, 101.0, 99.0]], [[110.0, 111.0, 109.0]]])[2]
    assert two is not None and two.interval_95[0] < 4 and two.interval_95[1] > 100


def _run(work: list[int]) -> dict[str, Any]:
    return {"timeline": [{"instructions": value} for value in work], "window_cycles": 100}


def test_runs_without_windows_do_not_hide_the_variation_of_the_others() -> None:
    runs = [_run([100, 300] * 40), _run([300, 100] * 40)]
    assert over_time([*runs, {"window_cycles": 100}]) == over_time(runs) != []


def test_variation_of_independent_work_falls_with_the_root_of_the_interval() -> None:
    chance = np.random.default_rng(4)
    runs = [_run((1000 + chance.normal(0, 100, 256)).round().astype(int).tolist()) for _ in range(20)]
    found = over_time(runs)
    assert [row.cycles for row in found] == [100, 200, 400, 800, 1600, 3200]
    assert found[0].variation == pytest.approx(10, rel=0.1)
    assert found[4].variation == pytest.approx(10 / 4, rel=0.25)
    assert abs(found[0].autocorrelation) < 0.1


def test_slow_waves_do_not_average_out_and_show_as_autocorrelation() -> None:
    wave = [round(1000 + 100 * np.sin(i / 20)) for i in range(256)]
    found = over_time([_run(wave)])
    assert found[0].autocorrelation > 0.9
    assert found[3].variation > 0.8 * found[0].variation


def test_parts_and_captures_of_a_trace_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    traces = write_trace(tmp_path, 4000), write_trace(tmp_path / "other", 5000)
    options = ("-m", "foglia-2004-4p", "--transactions", 3, "--parts", 2, "--warm-up", 2, "--replications", 4)
    done = servsim("variability", *traces, *options, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(c["warmup"], len(c["values"])) for c in found["cells"]] == [(2, 4), (5, 4)] * 2
    for source in ("seeds", "parts", "captures"):
        low, high = found[source]["interval_95"]
        assert low <= found[source]["percent"] <= high and high > 0
    assert found["seeds"]["percent"] > 0
    text = servsim("variability", traces[0], *options)
    assert "beyond seeds" in text.stdout and "one only" in text.stdout and " to " in text.stdout


def test_the_interval_over_captures_is_that_of_their_means(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cycles = {"a": (9.0, 11.0), "b": (19.0, 21.0), "c": (29.0, 31.0)}

    def simulate(trace: Path, *_: object, **__: object) -> dict[str, Any]:
        return {"replications": [{"transactions": 5, "cycles_per_transaction": c} for c in cycles[trace.name]]}

    monkeypatch.setattr(variability, "simulate", simulate)
    measure = variability.variability
    traces = [tmp_path / name for name in cycles]
    for trace in traces:
        trace.touch()
    found = measure(traces, "m", transactions=5, replications=2)
    # Student's t for two degrees of freedom, a standard deviation of 10, three captures.
    assert found.over_captures is not None
    assert (found.over_captures.n, found.over_captures.mean) == (3, 20.0)
    assert found.over_captures.half_width == pytest.approx(4.30265 * 10 / np.sqrt(3), rel=1e-5)
    assert measure(traces[:1], "m", transactions=5, replications=2).over_captures is None


@pytest.mark.parametrize("apart", [0.0, 8.0])
def test_captures_are_not_taken_apart_for_what_their_parts_differ(
    apart: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Captures whose means lie ``apart`` percent apart in truth, parts by 5 % and runs by 1."""
    draw = np.random.default_rng(11)
    middle: dict[Path, float] = {}

    def simulate(trace: Path, *_: object, **__: object) -> dict[str, Any]:
        part = middle.setdefault(trace, draw.normal(1000.0, 10.0 * apart)) + draw.normal(0.0, 50.0)
        return {"replications": [{"cycles_per_transaction": part + draw.normal(0.0, 10.0)} for _ in range(5)]}

    monkeypatch.setattr(variability, "simulate", simulate)
    monkeypatch.setattr(variability, "expected_references", lambda *_, **__: None)
    traces = [tmp_path / f"{number}.svt" for number in range(8)]
    for trace in traces:
        trace.write_bytes(b"")
    found = []
    for _ in range(40):
        middle.clear()
        found.append(variability.variability(traces, "m", transactions=5, parts=4, replications=5))
    spread = np.mean([f.captures.percent**2 for f in found if f.captures is not None])
    assert spread == pytest.approx(apart**2, rel=0.2, abs=2.5)
    assert np.mean([f.parts.percent**2 for f in found if f.parts is not None]) == pytest.approx(25.0, rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--transactions", 3, "--replications", 1), "say nothing about variability"),
        (("--transactions", 50, "--warm-up", 1), "cannot be measured: the trace holds 8"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: tuple[object, ...], words: str, tmp_path: Path) -> None:
    done = servsim("variability", write_trace(tmp_path, 2000), "-m", "foglia-2004-4p", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
