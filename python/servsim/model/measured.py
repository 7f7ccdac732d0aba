"""What a queueing model needs to know, measured by simulation.

Visits and service demands per station and kind of transaction; the effective service rates of the
processors by the number of tasks among them (Figure 5 of Du et al. 2001); and what each kind of
transaction asks for (their Table 6) of which table (their Table 5). Everything comes from results of
`servsim.simulation.simulate` on machines with single disks (``disk.count``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.machines import machine_text, resolve
from servsim.statistics.intervals import Estimate, estimate

#: The class of an average transaction, and that of work no transaction was seen to ask for.
EVERY, BACKGROUND = "(all)", "(background)"
#: A kind of which fewer were followed in all replications says too little of its demand.
_FEW = 5
#: A number of tasks is looked at if it lasted for at least this share of the measured time.
_SHARE = 0.002

Result = dict[str, Any]


@dataclass(frozen=True)
class Demand:
    """What one transaction of a class asks of a station.

    Attributes
    ----------
    station, kind
        Names.
    visits
        Visits per transaction; None at the processors, whose visits have no length of their own.
    demand_s
        Service demand per transaction, seconds: visits times time per visit, waits left out.
    note
        Why the demand cannot be identified; empty if it can.
    """

    station: str
    kind: str
    visits: Estimate | None
    demand_s: Estimate | None
    note: str = ""


@dataclass(frozen=True)
class ServiceRate:
    """The processors while ``tasks`` are among them: mu_k(j) of Du et al. 2001, Figure 5.

    Attributes
    ----------
    tasks
        Tasks ready or running, j.
    share
        Share of the measured time.
    departures
        Tasks that left in that time, all replications together.
    departures_per_cycle
        Rate at which tasks left to wait for something, or ended.
    transactions_per_s
        Rate in transactions: instructions executed in that time over those of a transaction. It says
        the same with less noise, since departures are few and visits differ in length.
    """

    tasks: int
    share: float
    departures: int
    departures_per_cycle: Estimate
    transactions_per_s: Estimate


def refuse_nodes(machine: str | Path, overrides: Sequence[str]) -> None:
    """Refuse a machine with nodes: what is measured are processors that share one memory, from 1 to 4 of them.

    Raises
    ------
    UsageError
        When the machine has several nodes, or is none.
    """
    resolved = resolve(machine_text(machine), str(machine), list(overrides))
    if (count := resolved["node"]["count"]) != "1":
        raise UsageError(
            f"{machine} has {count} nodes, and a model is measured on 1 to 4 processors with one memory: use a machine "
            "without nodes, such as du-2001, or --set node.count=1"
        )


def hertz(result: Result) -> float:
    """Return the clock of the simulated processors, Hz."""
    number, unit = result["machine"]["clock"].split()
    return float(number) * {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}[unit]


def replications(result: Result) -> list[dict[str, Any]]:
    """Return the replications, which must tell of single disks and of transactions.

    Raises
    ------
    UsageError
        When they do not, with the remedy.
    """
    found: list[dict[str, Any]] = result["replications"]
    if not all("storage" in replication for replication in found):
        raise UsageError(
            "the result does not tell its disks apart; simulate again with --set disk.count=1 (and --set io.buses=1), "
            "or on the machine du-2001"
        )
    if not all(replication["transactions"] for replication in found):
        raise UsageError("the result has a replication without transactions; demands are per transaction")
    return found


def throughput(result: Result) -> Estimate:
    """Return transactions per second of simulated time."""
    clock = hertz(result)
    return estimate([r["transactions"] * clock / r["cycles"] for r in replications(result)])


def _held_or_busy(processor: dict[str, int]) -> int:
    """Cycles of a processor that were not idle."""
    return sum(value for name, value in processor.items() if name != "idle")


def demands(result: Result) -> list[Demand]:
    """Return visits and demands per station, for an average transaction and per kind.

    Parameters
    ----------
    result
        Of one machine; every replication is one sample of the intervals.

    Returns
    -------
    list of Demand
        Stations are ``processors``, ``memory bus``, ``disk N`` and ``I/O bus N``. Demands that the
        result cannot tell are there with a note.
    """
    runs, clock = replications(result), hertz(result)
    for part in ("disks", "buses"):
        if len({len(run["storage"][part]) for run in runs}) != 1:
            raise UsageError(f"the result's replications do not list the same {part}: they are not runs of one machine")
    found = [
        Demand(
            "processors",
            EVERY,
            None,
            estimate([sum(map(_held_or_busy, r["processors"])) / r["transactions"] / clock for r in runs]),
        ),
        Demand(
            "memory bus",
            EVERY,
            estimate([sum(v for k, v in r["bus"].items() if k != "cache_to_cache") / r["transactions"] for r in runs]),
            estimate([r["bus_busy_cycles"] / r["transactions"] / clock for r in runs]),
        ),
    ]
    found += [_disk(runs, index, clock) for index in range(len(runs[0]["storage"]["disks"]))]
    found += [_bus(runs, index, clock) for index in range(len(runs[0]["storage"]["buses"]))]
    return found + _by_kind(runs, clock)


def _requests(disk: dict[str, Any]) -> int:
    return int(disk["reads"] + disk["writes"])


def _disk(runs: list[dict[str, Any]], index: int, clock: float) -> Demand:
    disks = [r["storage"]["disks"][index] for r in runs]
    counts = [r["transactions"] for r in runs]
    name = f"disk {index + 1}"
    if not any(map(_requests, disks)):
        return Demand(name, EVERY, estimate([0.0] * len(runs)), None, "nothing was asked of it")
    spent = [_requests(d) * (d["mean_mechanism_cycles"] or 0.0) / clock for d in disks]
    visits = estimate([_requests(d) / n for d, n in zip(disks, counts, strict=True)])
    return Demand(name, EVERY, visits, estimate([s / n for s, n in zip(spent, counts, strict=True)]))


def _bus(runs: list[dict[str, Any]], index: int, clock: float) -> Demand:
    buses = [(r["storage"]["buses"][index], r["transactions"]) for r in runs]
    visits = estimate([bus["tenures"] / n for bus, n in buses])
    demand = estimate([bus["busy_cycles"] / n / clock for bus, n in buses])
    return Demand(f"I/O bus {index + 1}", EVERY, visits, demand)


def _by_kind(runs: list[dict[str, Any]], clock: float) -> list[Demand]:
    """Per kind: the processors by instructions, the disks by what the server process handed in."""
    kinds = sorted({row["kind"] for r in runs for row in r["work_by_kind"]})
    single = len(runs[0]["storage"]["disks"]) == 1
    found = []
    for kind in kinds:
        rows = [next((row for row in r["work_by_kind"] if row["kind"] == kind), None) for r in runs]
        pairs = [(r, row) for r, row in zip(runs, rows, strict=True) if row is not None]
        followed = sum(row["transactions"] for _, row in pairs)
        note = "" if followed >= _FEW else f"unidentifiable: {followed} were followed, {_FEW} are needed"
        per = [
            row["instructions"] / row["transactions"] * sum(map(_held_or_busy, r["processors"])) / r["instructions"]
            for r, row in pairs
        ]
        cycles = estimate([value / clock for value in per])
        found.append(Demand("processors", kind, None, None if note else cycles, note))
        found.append(_disk_of_kind(pairs, kind, clock, note, single))
    return [*found, *_background(runs, clock)]


def _disk_of_kind(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]], kind: str, clock: float, note: str, single: bool
) -> Demand:
    visits = [(row["disk_reads"] + row["disk_writes"]) / row["transactions"] for _, row in pairs]
    if not single:
        note = note or "unidentifiable: the result does not tell which of several disks a kind used"
    if note:
        return Demand("disk 1" if single else "disks", kind, estimate(visits), None, note)
    service = [(r["storage"]["disks"][0]["mean_mechanism_cycles"] or 0.0) / clock for r, _ in pairs]
    spent = [v * s for v, s in zip(visits, service, strict=True)]
    return Demand("disk 1", kind, estimate(visits), estimate(spent))


def _background(runs: list[dict[str, Any]], clock: float) -> list[Demand]:
    """Disk requests that no followed transaction handed in, per transaction."""
    left, spent = [], []
    for r in runs:
        rows = r["work_by_kind"]
        followed = sum(row["transactions"] for row in rows)
        if not followed:
            return []
        handed = sum(row["disk_reads"] + row["disk_writes"] for row in rows) / followed
        disks = r["storage"]["disks"]
        asked = sum(map(_requests, disks))
        visits = max(0.0, asked / r["transactions"] - handed)
        mechanism = sum(_requests(d) * (d["mean_mechanism_cycles"] or 0.0) for d in disks) / max(1, asked)
        left.append(visits)
        spent.append(visits * mechanism / clock)
    return [Demand("disks", BACKGROUND, estimate(left), estimate(spent))]


def service_rates(result: Result, most: int = 16) -> list[ServiceRate]:
    """Return mu_k(j) of the processors of a result, j = 1 .. ``most``, where enough was seen.

    Raises
    ------
    UsageError
        When the result does not tell its disks apart.
    """
    runs, clock = replications(result), hertz(result)
    total = sum(r["cycles"] for r in runs)
    longest = max(len(r["processor_levels"]["cycles"]) for r in runs)
    found = []
    for tasks in range(1, min(most + 1, longest)):
        seen = [r for r in runs if len(r["processor_levels"]["cycles"]) > tasks]
        levels = [{name: column[tasks] for name, column in r["processor_levels"].items()} for r in seen]
        cycles = sum(level["cycles"] for level in levels)
        if cycles < _SHARE * total:
            continue
        pairs = [(r, level) for r, level in zip(seen, levels, strict=True) if level["cycles"]]
        per = [r["transactions"] / r["instructions"] * clock for r, _ in pairs]
        work = [level["instructions"] / level["cycles"] * p for (_, level), p in zip(pairs, per, strict=True)]
        left = [level["departures"] / level["cycles"] for _, level in pairs]
        departures = sum(level["departures"] for level in levels)
        found.append(ServiceRate(tasks, cycles / total, departures, estimate(left), estimate(work)))
    return found


def rates_up_to(rates: Sequence[ServiceRate], most: int, *, processors: int) -> list[float]:
    """Return transactions per second for 1 .. ``most`` tasks; gaps are bridged, ends are held.

    Below the fewest tasks that were seen, those that are left have a processor each as long as there are
    ``processors``.

    Raises
    ------
    UsageError
        When nothing was measured.
    """
    if not rates:
        raise UsageError("no number of tasks lasted long enough to measure a service rate; measure more transactions")
    known = {rate.tasks: rate.transactions_per_s.mean for rate in rates}
    first = min(known)
    whole = []
    for tasks in range(1, most + 1):
        below = max((j for j in known if j <= tasks), default=None)
        above = min((j for j in known if j >= tasks), default=None)
        if below is None:
            whole.append(known[first] * min(tasks, processors) / min(first, processors))
        elif above is None or above == below:
            whole.append(known[below])
        else:
            part = (tasks - below) / (above - below)
            whole.append(known[below] * (1 - part) + known[above] * part)
    return whole


def work_by_kind(result: Result) -> list[dict[str, Any]]:
    """Return our Table 6: instructions, loads, stores, disk reads and writes per transaction of a kind.

    Each figure is an `Estimate` over replications; ``followed`` counts transactions of all of them.
    """
    runs = replications(result)
    kinds: dict[str, list[dict[str, Any]]] = {}
    for r in runs:
        for row in r["work_by_kind"]:
            kinds.setdefault(row["kind"], []).append(row)
    columns = ("instructions", "loads", "stores", "disk_reads", "disk_writes")
    return [
        {
            "kind": kind,
            "followed": sum(row["transactions"] for row in rows),
            **{column: estimate([row[column] / row["transactions"] for row in rows]) for column in columns},
        }
        for kind, rows in kinds.items()
    ]


def table_of(name: str, tables: Sequence[str]) -> str | None:
    """Return the table that a relation is or indexes: indexes begin with its name."""
    owners = [table for table in tables if name == table or name.startswith(table + "_")]
    return max(owners, key=len, default=None)


def accesses_by_table(result: Result, tables: Sequence[str]) -> dict[str, Estimate]:
    """Return our Table 5: the share of each table, with its indexes, of the disk accesses to tables.

    Everything else (log, journal, catalogue, sectors of no known file) is under its own name and
    relative to the same total.
    """
    runs = replications(result)
    shares: dict[str, list[float]] = {}
    for index, r in enumerate(runs):
        counts: dict[str, int] = {}
        for row in r["storage"]["accesses"]:
            name = table_of(row["name"], tables) or row["name"]
            counts[name] = counts.get(name, 0) + row["reads"] + row["writes"]
        total = sum(count for name, count in counts.items() if name in tables) or math.nan
        for name, count in counts.items():
            shares.setdefault(name, [0.0] * len(runs))[index] = count / total
    known = {name: values for name, values in shares.items() if all(map(math.isfinite, values))}
    ordered = sorted(known, key=lambda name: (name not in tables, -sum(known[name])))
    return {name: estimate(known[name]) for name in ordered}
