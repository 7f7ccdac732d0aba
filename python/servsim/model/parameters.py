"""What the verified queueing model needs of one simulated configuration, measured in its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from servsim.model import measured
from servsim.model.io_stations import Requests

#: Tables 1 to 9 of the paper by their names in the workload.
TABLES = ("warehouse", "district", "stock", "item", "customer", "orders", "new_order", "order_line", "history")


#: More tasks than any workload has.
_MOST_TASKS = 100_000


@dataclass(frozen=True)
class Parameters:
    """What the model needs of one simulated configuration.

    Attributes
    ----------
    rates
        Transactions per second of the processors with 1, 2, … tasks among them.
    reads, writes
        Disk requests.
    transfer_s
        Commands and data on I/O buses, seconds per transaction.
    write_holds
        Whether writes hold their bus while the disk positions.
    awaited
        Share of the disk requests that a user waits for.
    behind_processors, behind_disks
        Time spent waiting for a task that was at the processors, or at a disk, over own time there.
    asleep_s
        Time of a transaction in timed sleeps, own and of those it waits for, seconds.
    present
        Users that the trace still had work for, on average: the customers of the model.
    """

    rates: tuple[float, ...]
    reads: Requests
    writes: Requests
    transfer_s: float
    write_holds: bool
    awaited: float
    behind_processors: float
    behind_disks: float
    asleep_s: float
    present: float


def parameters(result: dict[str, Any], customers: int) -> Parameters:
    """Measure the model's parameters in a result of one configuration."""
    runs, clock = measured.replications(result), measured.hertz(result)
    # More tasks than users can be ready: clients, server processes and those of the system are tasks.
    seen = measured.service_rates(result, most=_MOST_TASKS)
    rates = measured.rates_up_to(seen, customers, processors=len(runs[0]["processors"]))
    transactions = sum(r["transactions"] for r in runs)
    disks = [d for r in runs for d in r["storage"]["disks"]]
    requests = sum(d["reads"] + d["writes"] for d in disks)
    mechanism = sum((d["reads"] + d["writes"]) * (d["mean_mechanism_cycles"] or 0.0) for d in disks)
    rate = float(result["machine"]["io"]["rate"].split()[0]) * 1000.0
    transfer = requests * _seconds(result["machine"]["io"]["overhead"]) + sum(d["bytes"] for d in disks) / rate
    busy = sum(b["busy_cycles"] for r in runs for b in r["storage"]["buses"]) / clock
    holds = result["machine"]["io"]["hold_on_write"] == "yes"
    counts = [sum(d[direction] for d in disks) for direction in ("reads", "writes")]
    # What kept buses beyond transfers is positioning of writes; if those do not hold them, reads and writes
    # are taken to be alike.
    written = max(0.0, (busy - transfer) * clock) if holds else mechanism * counts[1] / max(1, requests)
    spent = [max(0.0, mechanism - written), written]
    reads, writes = (
        Requests(count / transactions, cycles / clock / transactions, _shares(runs, direction))
        for count, cycles, direction in zip(counts, spent, ("reads", "writes"), strict=True)
    )
    times = _places(runs)
    requests_present = sum(d["mean_present"] * r["cycles"] for r in runs for d in r["storage"]["disks"])
    cycles = sum(r["cycles"] for r in runs)
    return Parameters(
        tuple(rates),
        reads,
        writes,
        transfer / transactions,
        holds,
        min(1.0, times["devices"] / requests_present) if requests_present else 1.0,
        _ratio(times["behind_processors"], times["processors"]),
        _ratio(times["behind_devices"], times["devices"]),
        # Waits behind a disk that no user is at have nothing to be in proportion to.
        (times["asleep"] + (0.0 if times["devices"] else times["behind_devices"])) / clock / transactions,
        customers - (times["gone"] / cycles if cycles else 0.0),
    )


def _shares(runs: Sequence[dict[str, Any]], direction: str) -> dict[str, float]:
    """Return the share of each table, with its indexes, or other name of the reads or the writes."""
    counts: dict[str, int] = {}
    for row in (row for r in runs for row in r["storage"]["accesses"]):
        name = measured.table_of(row["name"], TABLES) or row["name"]
        counts[name] = counts.get(name, 0) + row[direction]
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items() if count}


def _places(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the cycles of all users together by place, over the replications."""
    names = [key for key in runs[0]["users"] if key != "count"]
    return {name.removesuffix("_cycles"): sum(r["users"][name] for r in runs) for name in names}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _seconds(text: str) -> float:
    """Return a duration such as ``600 ns`` in seconds."""
    number, unit = text.split()
    return float(number) * {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
