"""Does the queueing model predict what the simulator shows? After Du et al. 2001, section 4.3.

Parameters come from configuration C1 (one processor, I/O bus and disk) and from the effective service
rates mu_k of k processors with one bus and one disk; then the model predicts the nine configurations of
their Table 9, and each is simulated. C1 and C2 lend their own measurements: they are calibrated.

The model is closed: the workload's users go round between processors, I/O buses, disks, and a delay
for everything else they were seen to wait for on C1 (locks, other tasks, timers). Solved exactly.

Differs from the paper: a held bus and a disk are one place for one request, so positioning of a write
counts at the disk that has its bus for itself, and at the bus that several disks share, not at both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.model import measured
from servsim.model.network import Closed, Network, Station
from servsim.model.solving import solve
from servsim.simulation import simulate
from servsim.statistics.intervals import Estimate

#: Largest difference between model and simulation in the paper (section 4.3).
TOLERANCE = 0.112
#: Tables 1 to 9 of the paper by their names in the workload.
TABLES = ("warehouse", "district", "stock", "item", "customer", "orders", "new_order", "order_line", "history")
#: Processors, I/O buses, disks (Table 9).
CONFIGURATIONS: dict[str, tuple[int, int, int]] = {
    "C1": (1, 1, 1),
    "C2": (2, 1, 1),
    "C3": (2, 1, 2),
    "C4": (2, 2, 2),
    "C5": (2, 1, 4),
    "C6": (2, 2, 4),
    "C7": (4, 1, 2),
    "C8": (4, 1, 4),
    "C9": (4, 2, 4),
}
#: Configurations whose own measurements the model uses.
CALIBRATED = ("C1", "C2")
#: Disk of each of the tables 1 to 9, by number of disks (Equations 5.11 to 5.13).
MAPPINGS = {1: (1,) * 9, 2: (1, 2, 1, 2, 1, 2, 1, 2, 1), 4: (1, 2, 1, 2, 3, 4, 3, 3, 4)}
#: What a station of the model can be to blame for.
PROCESSORS, DISKS, BUSES, ELSEWHERE = "processors", "disks", "I/O buses", "waits elsewhere"


@dataclass(frozen=True)
class Parameters:
    """What the model needs of one simulated configuration.

    Attributes
    ----------
    rates
        Transactions per second of the processors with 1, 2, … tasks among them.
    requests
        Disk requests per transaction.
    mechanism_s
        Positioning and passage of the medium per transaction, seconds.
    transfer_s, held_s
        Commands and data on I/O buses, and positioning while a bus was held, seconds per transaction.
    shares
        Share of the disk requests per table or other name.
    elsewhere_s
        Waits of a transaction for neither processor nor disk.
    """

    rates: tuple[float, ...]
    requests: float
    mechanism_s: float
    transfer_s: float
    held_s: float
    shares: dict[str, float]
    elsewhere_s: float


@dataclass(frozen=True)
class Row:
    """One configuration: simulated, predicted, and what the difference comes from."""

    name: str
    processors: int
    buses: int
    disks: int
    simulated: Estimate
    predicted: float
    verdict: str
    blamed: str | None = None

    @property
    def error(self) -> float:
        """Predicted over simulated, less one."""
        return self.predicted / self.simulated.mean - 1.0


@dataclass(frozen=True)
class Verification:
    """The answer: rows, and the results they come from by name of the configuration."""

    customers: int
    rows: tuple[Row, ...]
    results: dict[str, dict[str, Any]]

    @property
    def holds(self) -> bool:
        """Whether every predicted configuration is within the tolerance."""
        return all(abs(row.error) <= TOLERANCE for row in self.rows if row.verdict != "calibrated")

    def as_document(self) -> dict[str, Any]:
        """Return the document ``servsim.model.verify/1``; throughputs per second of simulated time."""
        rows = [
            {
                "configuration": row.name,
                "processors": row.processors,
                "io_buses": row.buses,
                "disks": row.disks,
                "simulated": {
                    "mean": row.simulated.mean,
                    "low": row.simulated.low,
                    "high": row.simulated.high,
                    "n": row.simulated.n,
                },
                "predicted": row.predicted,
                "error": row.error,
                "verdict": row.verdict,
                "blamed": row.blamed,
            }
            for row in self.rows
        ]
        return {
            "schema": "servsim.model.verify/1",
            "customers": self.customers,
            "tolerance": TOLERANCE,
            "holds": self.holds,
            "rows": rows,
        }


def settings(processors: int, buses: int, disks: int, relations: Sequence[str]) -> list[str]:
    """Return the overrides that make a configuration, tables placed as the paper places them.

    Parameters
    ----------
    relations
        Relations of the trace; tables without one are striped with everything else.
    """
    placed: dict[int, list[str]] = {}
    for relation in relations:
        table = measured.table_of(relation, TABLES)
        if table is not None and disks > 1:
            placed.setdefault(MAPPINGS[disks][TABLES.index(table)], []).append(relation)
    chosen = [f"processors={processors}", f"io.buses={buses}", f"disk.count={disks}"]
    if placed:
        text = "; ".join(f"{disk}: {' '.join(names)}" for disk, names in sorted(placed.items()))
        chosen.append(f"placement.relations={text}")
    return chosen


def parameters(result: dict[str, Any], customers: int) -> Parameters:
    """Measure the model's parameters in a result of one configuration."""
    runs, clock = measured.replications(result), measured.hertz(result)
    rates = measured.rates_up_to(measured.service_rates(result, most=customers), customers)
    transactions = sum(r["transactions"] for r in runs)
    disks = [d for r in runs for d in r["storage"]["disks"]]
    requests = sum(d["reads"] + d["writes"] for d in disks)
    mechanism = sum((d["reads"] + d["writes"]) * (d["mean_mechanism_cycles"] or 0.0) for d in disks)
    rate = float(result["machine"]["io"]["rate"].split()[0]) * 1000.0
    transfer = requests * _seconds(result["machine"]["io"]["overhead"]) + sum(d["bytes"] for d in disks) / rate
    busy = sum(b["busy_cycles"] for r in runs for b in r["storage"]["buses"]) / clock
    shares: dict[str, float] = {}
    for row in (row for r in runs for row in r["storage"]["accesses"]):
        name = measured.table_of(row["name"], TABLES) or row["name"]
        shares[name] = shares.get(name, 0.0) + row["reads"] + row["writes"]
    total = sum(shares.values()) or 1.0
    seconds = sum(r["cycles"] for r in runs) / clock
    ready = sum(r["mean_ready_tasks"] * r["cycles"] for r in runs) / clock
    present = sum(d["mean_present"] * r["cycles"] for r in runs for d in r["storage"]["disks"]) / clock
    elsewhere = max(0.0, customers * seconds - ready - present) / transactions
    return Parameters(
        tuple(rates),
        requests / transactions,
        mechanism / clock / transactions,
        transfer / transactions,
        max(0.0, busy - transfer) / transactions,
        {name: count / total for name, count in shares.items()},
        elsewhere,
    )


def _seconds(text: str) -> float:
    """Return a duration such as ``600 ns`` in seconds."""
    number, unit = text.split()
    return float(number) * {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[unit]


def disk_shares(shares: dict[str, float], disks: int, by_table: bool) -> list[float]:
    """Return the share of the requests of each disk: tables as placed, the rest even."""
    loads = [0.0] * disks
    for name, share in shares.items():
        if by_table and name in TABLES:
            loads[MAPPINGS[disks][TABLES.index(name)] - 1] += share
        else:
            loads = [load + share / disks for load in loads]
    return loads


def predict(given: Parameters, buses: int, disks: int, customers: int, by_table: bool) -> float:
    """Return the model's throughput, transactions per second."""
    shares = disk_shares(given.shares, disks, by_table)
    alone = disks == buses
    stations = [
        Station("processors", 1.0 / given.rates[0], kind="rates", rates=[rate / given.rates[0] for rate in given.rates])
    ]
    at_disks = given.mechanism_s if alone else max(0.0, given.mechanism_s - given.held_s)
    at_buses = given.transfer_s if alone else given.transfer_s + given.held_s
    for disk, share in enumerate(shares):
        stations.append(Station(f"disk {disk + 1}", at_disks * share))
    for bus in range(buses):
        share = sum(shares[disk] for disk in range(disks) if disk * buses // disks == bus)
        stations.append(Station(f"I/O bus {bus + 1}", at_buses * share))
    network = Network([Closed("users", customers, think=given.elsewhere_s)], stations)
    return float(solve(network).throughput)


def blame(given: Parameters, own: Parameters, shape: tuple[int, int], customers: int, by_table: bool, x: float) -> str:
    """Name the station whose own measured demand takes most off the model's error.

    Parameters
    ----------
    given, own
        Parameters the prediction used, and those measured in the configuration itself.
    shape
        I/O buses and disks.
    x
        Simulated throughput.
    """
    buses, disks = shape
    swapped = {
        PROCESSORS: replace(given, rates=own.rates),
        DISKS: replace(given, mechanism_s=own.mechanism_s, shares=own.shares, requests=own.requests),
        BUSES: replace(given, transfer_s=own.transfer_s, held_s=own.held_s),
        ELSEWHERE: replace(given, elsewhere_s=own.elsewhere_s),
    }
    off = {name: abs(predict(other, buses, disks, customers, by_table) / x - 1.0) for name, other in swapped.items()}
    return min(off, key=lambda name: off[name])


def verify(
    trace: str | Path,
    machine: str = "du-2001",
    *,
    customers: int,
    relations: Sequence[str] = (),
    overrides: Sequence[str] = (),
    configurations: Sequence[str] = tuple(CONFIGURATIONS),
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Verification:
    """Simulate the configurations, predict them, and compare.

    Parameters
    ----------
    trace, machine
        What to simulate on what; the machine's disks, buses and processors are replaced.
    customers
        Users of the workload: the population of the closed model.
    relations
        Relations that the trace can place; none, and the data are striped.
    overrides
        Further settings, each ``KEY=VALUE``.
    configurations
        Names of Table 9; C1 and C2 are measured in any case.
    say
        Takes lines of progress.
    options
        Of `servsim.simulation.simulate`: ``transactions``, ``warmup``, ``replications``, ``seed``, ``threads``.

    Raises
    ------
    UsageError
        For a configuration that is not in Table 9, or anything `simulate` refuses.
    """
    unknown = [name for name in configurations if name not in CONFIGURATIONS]
    if unknown:
        raise UsageError(f"there is no configuration {unknown[0]}; Table 9 has {', '.join(CONFIGURATIONS)}")
    results: dict[str, dict[str, Any]] = {}

    def run(name: str, shape: tuple[int, int, int]) -> dict[str, Any]:
        if name not in results:
            say(f"simulating {name}: {shape[0]} processors, {shape[1]} I/O buses, {shape[2]} disks")
            chosen = [*settings(*shape, relations), *overrides]
            results[name] = simulate(trace, machine, overrides=chosen, **options)
        return results[name]

    base = parameters(run("C1", CONFIGURATIONS["C1"]), customers)
    rates = {1: base.rates, 2: parameters(run("C2", CONFIGURATIONS["C2"]), customers).rates}
    if any(CONFIGURATIONS[name][0] == 4 for name in configurations):
        rates[4] = parameters(run("mu4", (4, 1, 1)), customers).rates
    rows = []
    for name in configurations:
        shape = CONFIGURATIONS[name]
        processors, buses, disks = shape
        simulated = measured.throughput(run(name, shape))
        given, by_table = replace(base, rates=rates[processors]), bool(relations)
        predicted = predict(given, buses, disks, customers, by_table)
        row = Row(name, processors, buses, disks, simulated, predicted, "predicted")
        if abs(row.error) > TOLERANCE:
            own = parameters(results[name], customers)
            row = replace(row, verdict="missed")
            row = replace(row, blamed=blame(given, own, (buses, disks), customers, by_table, simulated.mean))
        if name in CALIBRATED:
            row = replace(row, verdict="calibrated")
        rows.append(row)
    return Verification(customers, tuple(rows), results)
