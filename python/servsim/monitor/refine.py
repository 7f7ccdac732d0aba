"""Passes of the monitor: 2 MiB granules over all memory, 4 KiB where these counted, 32 B where those did.

Each pass runs the same run again (same seed) with other filters. Nothing is known of a pass but what the counters of
the one before it said, as for a user of the card.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from servsim.errors import UsageError
from servsim.machines import machine_text, resolve
from servsim.monitor.filters import MOST_COUNTERS, Region, program, regions, size
from servsim.run_options import RunOptions
from servsim.simulation import simulate
from servsim.units import bytes_of

#: Bytes of a counter in each pass.
GRANULES = (2 << 20, 4 << 10, 32)


def run(trace: str | Path, machine: str | Path, text: str, **options: Any) -> dict[str, Any]:
    """Simulate with a monitor's program given as text.

    Raises
    ------
    UsageError
        For a machine with one memory, and as for `servsim.simulation.simulate`.
    """
    described = resolve(machine_text(machine), str(machine), options.get("overrides") or [])
    if described["node"]["count"] == "1":
        raise UsageError(
            f"{described['name']} has one memory, so that nothing goes between nodes: take a machine with "
            "nodes, such as brock-2001-4x4"
        )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "monitor.toml"
        file.write_text(text, encoding="utf-8")
        return simulate(trace, machine, monitor=file, **options)


def watch(
    trace: str | Path,
    machine: str | Path,
    *,
    mode: str = "card",
    format: str | None = None,
    overrides: list[str] | None = None,
    stage: Callable[[str], Callable[[int], None]] | None = None,
    **options: Unpack[RunOptions],
) -> dict[str, Any]:
    """Find the addresses that the traffic between nodes concerns, in three passes.

    Parameters
    ----------
    trace, machine, format, overrides, **options
        As for `servsim.simulation.simulate`; one replication.
    mode : {"card", "simulator"}, default "card"
        ``card`` sees what leaves a node; ``simulator`` transactions inside nodes and processors as well.
    stage : callable, optional
        Called with what begins, before each pass; what it returns is told how many references are simulated.

    Returns
    -------
    dict
        Schema ``servsim.monitor/1``. ``passes`` holds, for each granularity, the filters, the transactions that a
        monitor saw (``seen``), how many the counters hold (``counted``), and the histogram in columns; ``data`` the
        counts of the 4 KiB pass by what lies there, in all and by node.

    Raises
    ------
    UsageError
        As for `servsim.simulation.simulate`, or when the mode is unknown.
    """
    if mode not in ("card", "simulator"):
        raise UsageError(f"--mode {mode}: accepted are card, simulator")
    chosen, granule, line = [Region(0, GRANULES[0] * MOST_COUNTERS)], GRANULES[0], GRANULES[-1]
    result: dict[str, Any] = {}
    passes: list[dict[str, Any]] = []
    for wished in GRANULES:
        finer = max(wished, line)
        if passes:
            chosen = regions(_by_address(passes[-1]["histogram"]), granule, finer) if finer < granule else []
        if not chosen:
            break
        granule = finer
        text = program(chosen, granule, mode)
        if stage is not None:
            options["progress"] = stage(f"counting {size(granule)} granules")
        result = run(trace, machine, text, format=format, overrides=overrides, **{**options, "replications": 1})
        line = bytes_of(result["machine"]["cache"]["line"])
        found = result["replications"][0]["monitor"]
        kept = {key: found[key] for key in ("filters", "seen", "histogram")}
        passes.append({"granularity_bytes": granule, "counted": sum(found["histogram"]["count"]), **kept})
    pages = next((one for one in passes if one["granularity_bytes"] == GRANULES[1]), passes[-1])
    return {
        "schema": "servsim.monitor/1",
        "mode": mode,
        "trace": result["trace"],
        "machine": result["machine"],
        "options": result["options"],
        "seed": result["replications"][0]["seed"],
        "passes": passes,
        "data": by_data(pages["histogram"]),
        "warnings": result.get("warnings", []),
    }


def by_data(histogram: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add a histogram up by what lies there: counts in all and by node, the most first."""
    totals: dict[str, dict[int, int]] = {}
    for name, node, count in zip(histogram["data"], histogram["node"], histogram["count"], strict=True):
        nodes = totals.setdefault(name or "(unknown)", {})
        nodes[node] = nodes.get(node, 0) + count
    rows = [
        {"data": name, "count": sum(nodes.values()), "by_node": {str(node): nodes[node] for node in sorted(nodes)}}
        for name, nodes in totals.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["data"]))


def _by_address(histogram: Mapping[str, Any]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for text, count in zip(histogram["address"], histogram["count"], strict=True):
        address = int(text, 16)
        counts[address] = counts.get(address, 0) + count
    return counts
