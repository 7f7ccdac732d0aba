"""Does the queueing model predict what the simulator shows? After Du et al. 2001, section 4.3.

Parameters come from configuration C1 (one processor, I/O bus and disk) and from the effective service
rates mu_k of k processors with one bus and one disk; then the model predicts the nine configurations of
their Table 9, and each is simulated. C1 and C2 lend their own measurements: they are calibrated.

The model is closed: the workload's users go round between processors, I/O buses and disks. Differs from
the paper:

* A user that waits for another task (its lock, its wake-up, its answer) waits for what that one is at.
  Such waits are delays in proportion to the time at the processors and at the disks, in the proportion
  seen on C1: the surrogate delays of Jacobson & Lazowska, "Analyzing queueing networks with simultaneous
  resource possession", CACM 25, 1982. They shrink as processors become more, as the waits do.
* Requests that no user waits for (written behind) load disks and buses, but no user is with them.
* What belongs to no table (the log above all) lies on the first disk; their model has no log. Striped, a
  record of the log would become a request for every disk it touches, each holding its bus.
* A held bus and a disk are one place for one request: a write is at its disk, and keeps others off the bus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.model import measured
from servsim.model.io_stations import IoWork, io_work
from servsim.model.network import Closed, Network, Station
from servsim.model.parameters import TABLES, Parameters, parameters
from servsim.model.solving import solve
from servsim.progress import Show, expected_references, of_runs
from servsim.simulation import simulate
from servsim.statistics.intervals import Estimate

#: Largest difference between model and simulation in the paper (section 4.3).
TOLERANCE = 0.112
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
#: Relative precision of a prediction, and the most steps to a delay: each halves the distance or better.
_PRECISION, _ITERATIONS = 1e-4, 60
#: A share of the users without further work that is worth a word.
_GONE = 0.05
#: What a station of the model can be to blame for.
PROCESSORS, DISKS, BUSES, ELSEWHERE = "processors", "disks", "I/O buses", "waits elsewhere"


@dataclass(frozen=True)
class Row:
    """One configuration: simulated, predicted, and what the difference comes from.

    ``own`` is what the model says with the configuration's own demands: what is wrong with that is wrong
    with the model, the rest with the demands taken from C1.
    """

    name: str
    processors: int
    buses: int
    disks: int
    simulated: Estimate
    predicted: float
    verdict: str
    own: float = 0.0
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
                "with_own_demands": row.own,
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
        Relations of the trace; without any everything is striped.
    """
    placed: dict[int, list[str]] = {}
    for relation in relations:
        table = measured.table_of(relation, TABLES)
        if table is not None and disks > 1:
            placed.setdefault(MAPPINGS[disks][TABLES.index(table)], []).append(relation)
    chosen = [f"processors={processors}", f"io.buses={buses}", f"disk.count={disks}"]
    if placed:
        text = "; ".join(f"{disk}: {' '.join(names)}" for disk, names in sorted(placed.items()))
        chosen += [f"placement.relations={text}", "placement.rest=1"]
    return chosen


def disk_shares(shares: dict[str, float], disks: int, by_table: bool) -> list[float]:
    """Return the share of the requests of each disk: as `settings` places them."""
    if not by_table:
        return [sum(shares.values()) / disks] * disks
    loads = [0.0] * disks
    for name, share in shares.items():
        disk = MAPPINGS[disks][TABLES.index(name)] if name in TABLES else 1
        loads[disk - 1] += share
    return loads


def work_of(given: Parameters, buses: int, disks: int, by_table: bool) -> IoWork:
    """Return the work of disks and I/O buses for a transaction, awaited or not."""
    reads, writes = ((of, disk_shares(of.shares, disks, by_table)) for of in (given.reads, given.writes))
    return io_work(reads, writes, given.transfer_s, given.write_holds, buses)


def predict(given: Parameters, buses: int, disks: int, by_table: bool) -> float:
    """Return the model's throughput, transactions per second.

    The surrogate delays depend on residence times; waits for a held bus and the work that no user waits for
    on the throughput, which depends on all: bisection on it, fixed-point iteration of the delay within.
    """
    work = work_of(given, buses, disks, by_table)
    behind = 1.0 - given.awaited
    low, high = 0.0, max(given.rates)
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        demands = {
            name: seconds * given.awaited / (1.0 - middle * seconds * behind)
            for name, seconds in (work.stations(middle) or {}).items()
        }
        if demands and _with_delays(given, demands) > middle:
            low = middle
        else:
            high = middle
    return low


def _with_delays(given: Parameters, demands: dict[str, float]) -> float:
    """Solve with given demands at disks and buses, and the delays that follow from the solution."""
    stations = [
        Station("processors", 1.0 / given.rates[0], kind="rates", rates=[rate / given.rates[0] for rate in given.rates])
    ]
    stations += [Station(name, demand) for name, demand in demands.items() if demand > 0.0]
    delay = given.asleep_s
    for _ in range(_ITERATIONS):
        solution = solve(Network([Closed("users", max(1, round(given.present)), think=delay)], stations))
        at_processors, *elsewhere = solution.columns()["residence_s"]
        wanted = given.asleep_s + given.behind_processors * at_processors + given.behind_disks * sum(elsewhere)
        if abs(wanted - delay) <= _PRECISION * (delay + at_processors):
            break
        delay = (delay + wanted) / 2.0
    return float(solution.throughput)


def crowded(result: dict[str, Any]) -> str | None:
    """Name the disk that requests come to in bursts, if there is one.

    In a closed product-form network a station of utilisation U holds fewer than U / (1 - U), what Poisson
    arrivals leave. A disk with one more, on average over the replications, is beyond any such model.
    """
    runs = measured.replications(result)
    excess = {}
    for number in range(len(runs[0]["storage"]["disks"])):
        disks = [r["storage"]["disks"][number] for r in runs]
        present, busy = (sum(d[name] for d in disks) / len(disks) for name in ("mean_present", "utilization"))
        random = busy / (1.0 - busy) if busy < 1.0 else math.inf
        text = f"bursts at disk {number + 1}: {present:.1f} requests at {busy:.0%}, a product form has {random:.1f}"
        excess[text] = present - random
    worst = max(excess, key=lambda text: excess[text])
    return worst if excess[worst] > 1.0 else None


def blame(given: Parameters, own: Parameters, shape: tuple[int, int], by_table: bool, x: float) -> str:
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
        DISKS: replace(given, reads=own.reads, writes=own.writes, awaited=own.awaited),
        BUSES: replace(given, transfer_s=own.transfer_s),
        ELSEWHERE: replace(
            given,
            behind_processors=own.behind_processors,
            behind_disks=own.behind_disks,
            asleep_s=own.asleep_s,
            present=own.present,
        ),
    }
    off = {name: abs(predict(other, buses, disks, by_table) / x - 1.0) for name, other in swapped.items()}
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
    show: Show = lambda *_: None,
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
        Takes what the reader must know of a run.
    show
        Takes what is being done, and the fraction done.
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
    measured.refuse_nodes(machine, overrides)
    results: dict[str, dict[str, Any]] = {}
    four = any(CONFIGURATIONS[name][0] == 4 for name in configurations)
    window = {key: options.get(key) for key in ("transactions", "warmup")}
    expected = expected_references(Path(trace), **window, replications=options.get("replications", 1))
    begin = of_runs(show, len({"C1", "C2", *configurations}) + four, expected)

    def run(name: str, shape: tuple[int, int, int]) -> dict[str, Any]:
        if name not in results:
            told = begin(f"simulating {name}: {shape[0]} processors, {shape[1]} I/O buses, {shape[2]} disks")
            chosen = [*settings(*shape, relations), *overrides]
            results[name] = simulate(trace, machine, overrides=chosen, progress=told, **options)
        return results[name]

    base = parameters(run("C1", CONFIGURATIONS["C1"]), customers)
    rates = {1: base.rates, 2: parameters(run("C2", CONFIGURATIONS["C2"]), customers).rates}
    if four:
        rates[4] = parameters(run("mu4", (4, 1, 1)), customers).rates
    rows = []
    for name in configurations:
        shape = CONFIGURATIONS[name]
        processors, buses, disks = shape
        simulated = measured.throughput(run(name, shape))
        given, by_table = replace(base, rates=rates[processors]), bool(relations)
        predicted = predict(given, buses, disks, by_table)
        own = parameters(results[name], customers)
        if own.present < (1.0 - _GONE) * customers:
            say(f"{name}: the trace ran out for {customers - own.present:.1f} of {customers} users; capture more")
        with_own = predict(own, buses, disks, by_table)
        row = Row(name, processors, buses, disks, simulated, predicted, "predicted", with_own)
        if abs(row.error) > TOLERANCE:
            blamed = crowded(results[name]) if abs(with_own / simulated.mean - 1.0) > TOLERANCE else None
            blamed = blamed or blame(given, own, (buses, disks), by_table, simulated.mean)
            row = replace(row, verdict="missed", blamed=blamed)
        if name in CALIBRATED:
            row = replace(row, verdict="calibrated")
        rows.append(row)
    return Verification(customers, tuple(rows), results)
