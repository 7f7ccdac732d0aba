"""Simulated runs for studies: one configuration at a time, each run once, all with the same seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.environment import shipped_trace
from servsim.errors import EnvironmentProblem
from servsim.quickstart import measured
from servsim.simulation import file_hash, simulate
from servsim.statistics.intervals import estimate

Replication = Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """A machine of a study: what differs from the shipped description."""

    processors: int
    line: int = 128
    size: str = "2 MiB"
    scheduler: str = "random"
    protocol: str = "mesi"
    ways: int = 2

    def overrides(self) -> list[str]:
        """Return the settings that it replaces."""
        return [
            f"processors={self.processors}",
            f"cache.line={self.line} B",
            f"cache.size={self.size}",
            f"cache.associativity={self.ways}",
            f"scheduler.policy={self.scheduler}",
            f"protocol.name={self.protocol}",
        ]

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.processors}p, {self.size}, {self.line} B, {self.ways}-way, {self.scheduler}, {self.protocol}"


@dataclass
class Runs:
    """Makes and remembers runs; two studies of one configuration get the same runs."""

    trace: Path
    warmup: int
    transactions: int
    count: int
    seed: int = 1
    machine: str = "foglia-2004-8p"
    say: Callable[[str], None] = lambda _: None
    known: dict[tuple[Configuration, int], list[Replication]] = field(default_factory=dict)

    def __call__(self, configuration: Configuration, count: int | None = None) -> list[Replication]:
        """Return the runs of a configuration, made now if need be."""
        wanted = count or self.count
        key = (configuration, wanted)
        if key not in self.known:
            self.say(f"{configuration}: {wanted} runs")
            result = simulate(
                self.trace,
                self.machine,
                overrides=configuration.overrides(),
                warmup=self.warmup,
                transactions=self.transactions,
                replications=wanted,
                seed=self.seed,
            )
            self.known[key] = result["replications"]
        return self.known[key]

    def values(self, configuration: Configuration, figure: Callable[[Replication], float]) -> list[float]:
        """Return a figure of every run of a configuration."""
        return [figure(replication) for replication in self(configuration)]

    def note(self) -> str:
        """Say what was run, for the study's remarks."""
        return (
            f"Trace {self.trace.name} ({file_hash(self.trace)[:19]}…): {self.transactions} transactions after "
            f"{self.warmup} of warm-up, {self.count} runs per configuration, seeds from {self.seed}, common to all."
        )


def runs(trace: Path | None, count: int, say: Callable[[str], None]) -> Runs:
    """Prepare runs on a trace, or on the shipped one, divided into warm-up and measurement.

    Raises
    ------
    EnvironmentProblem
        When no trace is given and the shipped one is missing.
    """
    path = trace or shipped_trace()
    if path is None:
        raise EnvironmentProblem("the trace that ships with servsim is missing: reinstall it, or give --trace FILE")
    totals = json.loads(_core.trace_info(path))["totals"]
    warmup, transactions = measured(int(totals["transactions"]))
    return Runs(path, warmup, transactions, count, say=say)


def gsp(run: Replication) -> float:
    """Return the global system power."""
    return float(run["gsp"])


def bus_percent(run: Replication) -> float:
    """Return the use of the bus in percent."""
    return 100 * float(run["bus_utilization"])


def total(run: Replication, table: str, *kinds: str, mode: str | None = None) -> float:
    """Return the sum of a table's kinds, over both modes unless one is named."""
    modes = (mode,) if mode else ("user", "kernel")
    return float(sum(run[table][kind][m] for kind in kinds for m in modes))


SHARING = ("true_sharing", "false_sharing", "passive_sharing")
OTHER = ("cold", "capacity", "conflict")


def invalidation_share(run: Replication) -> float:
    """Return invalidation misses as a percentage of all misses."""
    return 100 * total(run, "misses", *SHARING) / max(1.0, total(run, "misses", "total"))


def miss_percent(run: Replication) -> float:
    """Return misses per hundred references."""
    return 100 * total(run, "misses", "total") / float(run["references"])


def rate(table: str, *kinds: str, mode: str | None = None) -> Callable[[Replication], float]:
    """Return a figure: a table's kinds per thousand references."""
    return lambda run: 1000 * total(run, table, *kinds, mode=mode) / run["references"]


def utilization(run: Replication) -> float:
    """Return the mean utilisation of the processors."""
    return sum(run["processor_utilization"]) / len(run["processor_utilization"])


def mean(values: Sequence[float]) -> float:
    """Return the mean of figures of runs."""
    return estimate(list(values)).mean


def why(made: Runs, configuration: Configuration) -> str:
    """Describe the counters that decide how far our workload is from the paper's."""
    found = made(configuration)
    times = [sum(p[k] for p in r["processors"]) for r in found for k in ("idle",)]
    whole = [sum(sum(p.values()) for p in r["processors"]) for r in found]
    idle = 100 * sum(times) / max(1, sum(whole))
    cold = 100 * mean([total(r, "misses", "cold") / max(1.0, total(r, "misses", "total")) for r in found])
    kernel = 100 * mean(
        [total(r, "misses", "total", mode="kernel") / max(1.0, total(r, "misses", "total")) for r in found]
    )
    ready = mean([r["mean_ready_tasks"] for r in found])
    missing, references = mean([miss_percent(r) for r in found]), mean([r["references"] / 1e6 for r in found])
    moved = mean([float(r["migrations"]) for r in found])
    return (
        f"Counters of {configuration}: {ready:.1f} ready tasks on average (the paper: 26), processors idle "
        f"{idle:.0f} %; bus {mean([bus_percent(r) for r in found]):.1f} %, {missing:.2f} misses per 100 references, "
        f"{cold:.0f} % of them cold and {kernel:.0f} % in the kernel, in {references:.0f} M references "
        f"(the paper: 130 M); {moved:.0f} migrations."
    )
