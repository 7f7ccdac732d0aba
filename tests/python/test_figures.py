"""The registry of figures: its page, `explain`, and that summaries lose nothing on their way through Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servsim import _core, registry
from servsim.comparison import metric
from servsim.errors import UsageError
from servsim.registry import unit
from servsim.replication import described, figures, joined, summary, value
from servsim.report.storage import columns, storage
from servsim.result import check
from servsim.simulation import simulate

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "python" / "servsim" / "data" / "quickstart.svt"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=600)


def test_the_page_of_figures_is_what_the_registry_says() -> None:
    done = run(sys.executable, ROOT / "scripts" / "figures.py", "--check")
    assert done.returncode == 0, done.stderr


def test_every_figure_is_explained() -> None:
    servsim = Path(sys.executable).with_name("servsim")
    for entry in json.loads(_core.figures()):
        text = run(servsim, "explain", entry["path"]) if entry["path"] == "idle_share" else None
        assert text is None or entry["meaning"] in text.stdout, text
        assert _core.figure(entry["path"]) is not None
    assert "disk.*.mean_wait_cycles" in str(_core.figure("disk.2.mean_wait_cycles"))
    assert (unit("disk.2.utilization"), unit("disk.2.mean_present"), unit("io_bus.1.mean_wait_cycles")) == (
        "1",
        "requests",
        "cycles",
    )
    assert _core.figure("cache.line") is None


@pytest.fixture(scope="module")
def result() -> dict[str, object]:
    return simulate(SHIPPED, "du-2001", transactions=2, warmup=2, replications=2)


def test_a_summary_made_in_python_has_every_figure_of_the_simulator(
    result: dict[str, object],
) -> None:
    replications = result["replications"]
    assert isinstance(replications, list) and isinstance(result["summary"], dict)
    assert set(summary(replications)) == set(result["summary"])
    assert {"disk.1.utilization", "io_bus.1.utilization", "idle_share"} <= set(described(replications[0]))
    assert joined([result])["summary"]["disk.1.utilization"]["mean"] == pytest.approx(
        result["summary"]["disk.1.utilization"]["mean"]
    )


def test_every_figure_of_a_run_is_registered(result: dict[str, object]) -> None:
    assert isinstance(result["summary"], dict)
    for path in result["summary"]:
        assert _core.figure(path) is not None, path
    assert unit("cycles_per_transaction") == "cycles/transaction"
    assert unit("bus.read") == "transactions"


def test_every_number_of_a_result_has_its_unit_and_meaning(result: dict[str, object]) -> None:
    replications = result["replications"]
    assert isinstance(replications, list)
    assert [path for path in figures(replications[0]) if registry.entry(path) is None] == []


def test_designs_are_compared_by_any_counter_with_its_modes_added(result: dict[str, object]) -> None:
    first = check(result, "a result").replications[0]
    by_loss = metric("misses_by_loss.replaced")
    assert by_loss.values(check(result, "a result"))[0] == sum(first["misses_by_loss"]["replaced"].values()) > 0
    assert (by_loss.unit, by_loss.lower_is_better, by_loss.verdict) == ("misses", None, "lower")
    assert value(first, "processors.0.idle") == first["processors"][0]["idle"]
    assert (metric("gsp").sign, metric("gsp").title) == (-1, "global system power")


@pytest.mark.parametrize("name", ["misses", "misses.*", "misses.nonsense", "nonsense"])
def test_what_is_no_single_figure_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(UsageError, match="choose one of"):
        metric(name)


def test_windows_hold_every_counter_that_is_registered_for_them(result: dict[str, object]) -> None:
    replications = result["replications"]
    assert isinstance(replications, list)
    # This machine has a bus; what windows of a machine with nodes have besides, its tests in Rust hold.
    windowed = {e for e in registry.entries() if e.windowed and not e.path.startswith("nodes.")}
    names = {name.removeprefix("processors.*.") for e in windowed for name in e.names if not name.endswith("total")}
    assert set(replications[0]["windows"]) == names


def test_kinds_of_processor_time_add_up_to_the_window(result: dict[str, Any]) -> None:
    for replication in result["replications"]:
        for processor in replication["processors"]:
            assert sum(processor[kind] for kind in registry.processor_times()) == replication["cycles"]


@pytest.mark.parametrize("stations", ["disks", "buses"])
def test_the_report_shows_every_mean_of_disks_and_buses(result: dict[str, Any], stations: str) -> None:
    told = result["replications"][0]["storage"][stations][0]
    shown = columns(stations)
    assert [member for _, member, _ in shown] == [m for m in told if m == "utilization" or m.startswith("mean_")]
    assert len({heading for heading, *_ in shown}) == len(shown)
    page = storage(check(result, "du-2001"))
    assert all(f">{heading}" in page for heading, *_ in shown)
