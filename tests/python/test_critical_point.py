"""``servsim critical-point``: the sweep behind it, when it stops, and what it refuses."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servsim.critical_point import critical_point, crossing
from servsim.errors import UsageError
from servsim.simulation import simulate
from sweep_study import write_trace

SERVSIM = Path(sys.executable).with_name("servsim")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


def test_the_point_is_the_first_whose_successor_gains_less_than_a_half(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, 600)
    slow = ("--set", "bus.memory_read=300 cycles", "--set", "cache.size=4 KiB")
    done = servsim(
        "critical-point",
        trace,
        "-m",
        "foglia-2004-4p",
        *slow,
        "--most",
        6,
        "--replications",
        3,
        "--transactions",
        "all",
        "--json",
        "-o",
        tmp_path / "runs",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    means = {int(n): entry["mean"] for n, entry in found["gsp"].items()}
    expected = next(n for n in sorted(means) if n + 1 in means and means[n + 1] - means[n] < 0.5)
    assert found["critical_point"] == expected
    alone = simulate(
        trace,
        "foglia-2004-4p",
        replications=3,
        transactions="all",
        overrides=["processors=2", "bus.memory_read=300 cycles", "cache.size=4 KiB"],
    )
    assert means[2] == pytest.approx(alone["summary"]["gsp"]["mean"])
    assert max(means) < 6, "the search ends once the point is passed"
    text = servsim(
        "critical-point",
        trace,
        "-m",
        "foglia-2004-4p",
        *slow,
        "--most",
        6,
        "--replications",
        3,
        "--transactions",
        "all",
        "-o",
        tmp_path / "runs",
    )
    assert f"Critical point: {expected} processors" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--replications", 1), "no interval"),
        (("--least", 4, "--most", 4), "not two numbers"),
        (("--set", "processors=2"), "leave processors out"),
        (("--set", "cache.size"), "KEY=VALUE"),
    ],
)
def test_a_senseless_search_is_refused(arguments: tuple[object, ...], words: str, tmp_path: Path) -> None:
    done = servsim("critical-point", write_trace(tmp_path, 10), "-m", "foglia-2004-4p", *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_a_point_is_settled_by_the_gain_that_was_asked_for() -> None:
    curves = {1: [0.90, 0.91, 0.92], 2: [1.60, 1.61, 1.62], 3: [1.90, 1.91, 1.92], 4: [2.00, 2.01, 2.02]}
    half, fifth = critical_point(curves), critical_point(curves, 0.2)
    assert (half.point, half.settled) == (2.0, True)
    assert (fifth.point, fifth.settled) == (3.0, True)


@pytest.mark.parametrize("value", [-0.1, 1e300, float("nan"), float("inf")])
def test_what_is_no_gsp_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="is no GSP of 2 processors: give a number from 0"):
        critical_point({1: [0.9], 2: [value]})


@pytest.mark.parametrize(("step", "seeds", "noise"), [(1, 3, 0.002), (1, 10, 0.01), (1, 5, 0.03), (4, 5, 0.01)])
def test_the_interval_holds_the_point_of_the_curve_without_chance(step: int, seeds: int, noise: float) -> None:
    draw = np.random.default_rng(1000 * step + seeds)
    held, repetitions = 0, 300
    for _ in range(repetitions):
        most = draw.uniform(5.0, 15.0)
        curve = {n: most * (1.0 - math.exp(-n / most)) for n in range(step, 33, step)}
        found = critical_point({n: list(gsp * (1.0 + draw.normal(0.0, noise, seeds))) for n, gsp in curve.items()})
        truth = crossing(curve)
        assert truth is not None and found.low is not None
        assert found.point is None or found.low <= found.point <= (found.high or math.inf)
        held += found.low <= truth <= (found.high or math.inf)
    print(f"{held} of {repetitions}")
    assert held >= 0.93 * repetitions
