"""The guides to queueing models: every model in them is solved, and gives what stands above it."""

import re
from pathlib import Path

import pytest
from servsim.model import Network, solve

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", GUIDE, re.M | re.S)
PROMISE = re.compile(r"# (\w+): ([\d.]+) /s, ([\d.]+) (ms|s)\n")


@pytest.mark.parametrize("text", BLOCKS, ids=[re.sub(r"\W+", "-", text[:40]) for text in BLOCKS])
def test_a_model_of_the_guide_gives_what_stands_above_it(text: str) -> None:
    promise = PROMISE.match(text)
    assert promise, text[:60]
    solver, throughput, response, unit = promise.groups()
    found = solve(Network.from_toml(text))
    assert found.solver == solver
    share = 0.03 if solver == "simulation" else 0.001
    assert found.throughput == pytest.approx(float(throughput), rel=share)
    assert found.response == pytest.approx(float(response) * (1e-3 if unit == "ms" else 1.0), rel=share)


def test_the_guide_has_models_to_solve() -> None:
    assert len(BLOCKS) >= 10
