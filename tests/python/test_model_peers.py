"""The comparison with solvers that others publish: what it asks, and what it says of answers and of absent tools."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benches" / "model_peers.py"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("model_peers", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "model_peers", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "REPEAT", 0.001)
    return module


def mean_value_analysis(population: int, think: float, demands: list[float]) -> float:
    queues, throughput = [0.0] * len(demands), 0.0
    for n in range(1, population + 1):
        times = [d * (1 + q) for d, q in zip(demands, queues, strict=True)]
        throughput = n / (think + sum(times))
        queues = [throughput * t for t in times]
    return throughput


def test_our_answer_is_that_of_the_textbook_recursion(peers: ModuleType) -> None:
    first = peers.CASES[0]
    found = peers.ours(first)
    demands = [row[0] for row in first.demands]
    assert found["figures"] == pytest.approx([mean_value_analysis(48, 1.0, demands)], rel=1e-12)
    assert found["seconds"] > 0


def hang(case: object) -> None:
    raise subprocess.TimeoutExpired("peer", 1)


def test_a_peer_that_differs_fails_or_hangs_is_said_to(peers: ModuleType) -> None:
    case = peers.CASES[0]
    answers = {
        "wrong": lambda case: {"seconds": 1.0, "figures": [1.5 * x for x in peers.ours(case)["figures"]]},
        "fails": lambda case: peers._run([sys.executable, "-c", "raise SystemExit('Error: no such function')"]),
        "hangs": hang,
    }
    rows = {row["tool"]: row for row in peers.compare((case,), answers)}
    assert rows["wrong"]["apart"] == pytest.approx(0.5)
    assert "no such function" in rows["fails"]["why"] and "figures" not in rows["fails"]
    assert rows["hangs"]["why"] == "no answer in 60 s"


def test_absent_peers_are_named_with_what_installs_them(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("SERVSIM_LINE_PYTHON", sys.executable)
    reasons = peers.missing()
    assert "octave-queueing" in reasons["Octave queueing"]
    assert "line-solver" in reasons["LINE"] or importlib.util.find_spec("line_solver") is not None
    assert "registry" in reasons["PDQ"]


@pytest.mark.skipif(shutil.which("octave-cli") is None, reason="octave-cli is not installed")
def test_octave_answers_the_exact_cases_as_we_do(peers: ModuleType) -> None:
    # Not where many servers make its recursion unstable.
    cases = tuple(case for case in peers.CASES if case.exact and max(case.servers or (1,)) < 64)
    rows = peers.compare(cases, {"Octave": peers.octave})
    assert [row["apart"] for row in rows if row["tool"] == "Octave"] == pytest.approx([0.0] * len(cases), abs=1e-9)
