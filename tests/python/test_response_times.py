"""Response times of transactions, beside windows that end with each of them in turn."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from servsim.cli import run
from servsim.simulation import simulate

TRANSACTIONS = 110


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One user, whose transactions of two kinds load a few blocks each, some of them many."""
    draw, lines = random.Random(4), []
    for number in range(TRANSACTIONS + 1):
        lines += [f"0 L {0x1000 + 128 * draw.randrange(4000):x}" for _ in range(draw.choice([2, 3, 5, 9, 20]))]
        lines.append(f"0 X {'buy' if number % 5 else 'stock'}")
    path = tmp_path_factory.mktemp("trace") / "loads.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def _run(trace: Path, transactions: int) -> dict[str, Any]:
    settings = ["processors=1", "perturbation.memory_delay=0 cycles"]
    options: dict[str, Any] = {"format": "text", "warmup": 1, "transactions": transactions}
    return simulate(trace, "foglia-2004-4p", overrides=settings, **options)


def _percentile(times: list[float], percent: int) -> float | None:
    """The least time within which so many of 100 ended, if five or more took longer."""
    enough = (time for time in sorted(times) if 100 * sum(other <= time for other in times) >= percent * len(times))
    found = next(enough)
    rank = next(n for n in range(1, len(times) + 1) if 100 * n >= percent * len(times))
    return found if len(times) - rank >= 5 else None


def test_response_times_are_those_of_windows_that_end_with_each_transaction(trace: Path) -> None:
    ends = [0.0, *(_run(trace, count)["replications"][0]["cycles"] for count in range(1, TRANSACTIONS + 1))]
    times = [after - before for before, after in pairwise(ends)]
    whole = _run(trace, TRANSACTIONS)
    figures = {name: entry["mean"] for name, entry in whole["summary"].items() if name.startswith("response_cycles.")}
    assert figures.pop("response_cycles.mean") == pytest.approx(sum(times) / len(times))
    expected = {f"response_cycles.p{p}": _percentile(times, p) for p in (50, 90, 95, 99)}
    assert figures == {name: value for name, value in expected.items() if value is not None}
    assert set(expected) - set(figures) == {"response_cycles.p99"}
    of_kind = {"buy": [t for n, t in enumerate(times, 1) if n % 5], "stock": times[4::5]}
    for kind in whole["replications"][0]["transactions_by_kind"]:
        mine = of_kind[kind["kind"]]
        assert kind["count"] == len(mine) and kind["mean_response_cycles"] == pytest.approx(sum(mine) / len(mine))
        for percent in (50, 90, 95, 99):
            assert kind[f"p{percent}_response_cycles"] == _percentile(mine, percent)


def test_designs_are_compared_by_a_percentile_and_few_transactions_have_none(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def servsim(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["servsim", *words])
        return run()

    for name, size in (("small", "1 KiB"), ("large", "1 MiB")):
        where = ["--set", "processors=1", "--set", f"cache.size={size}", "-o", str(tmp_path / f"{name}.json")]
        what = ["--format", "text", "--warm-up", "1", "--transactions", "100", "--replications", "3"]
        assert servsim("simulate", str(trace), "-m", "foglia-2004-4p", *where, *what) == 0
    results = [str(tmp_path / "small.json"), str(tmp_path / "large.json")]
    capsys.readouterr()
    assert servsim("compare", *results, "--by", "response_cycles.p95") == 0
    assert "95th percentile of response times" in capsys.readouterr().out
    assert servsim("compare", *results, "--by", "response_cycles.p99") == 2
    assert "measure a longer window" in capsys.readouterr().err
