"""Variability by source: against made-up layouts, and on a small trace."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servsim import variability
from servsim.variability import beyond, over_time
from sweep_study import write_trace

SERVSIM = Path(sys.executable).with_name("servsim")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


def test_the_spread_between_groups_is_found_beside_that_within() -> None:
    chance = np.random.default_rng(3)
    groups = [(100 + shift + chance.normal(0, 2, 400)).tolist() for shift in chance.normal(0, 8, 60)]
    assert beyond(groups) == pytest.approx(8.0, rel=0.2)
    alike = [(100 + chance.normal(0, 2, 20)).tolist() for _ in range(400)]
    found = beyond(alike)
    assert found is not None and found < 0.3, "0.45 is what the spread within the groups makes"
    assert beyond([[1.0, 2.0]]) is None


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
    assert found["seeds"] > 0 and found["parts"] is not None and found["captures"] is not None
    text = servsim("variability", traces[0], *options)
    assert "beyond seeds" in text.stdout and "one only" in text.stdout


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
    spread = np.mean([(f.captures or 0.0) ** 2 for f in found])
    assert spread == pytest.approx(apart**2, rel=0.2, abs=2.5)
    assert np.mean([(f.parts or 0.0) ** 2 for f in found]) == pytest.approx(25.0, rel=0.15)


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
