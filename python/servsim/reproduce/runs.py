"""Simulated runs for studies: one configuration at a time, each run once, all with the same seeds.

What was run is kept in the cache, by a hash of all that decides it: a study that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from servsim import _core, cache
from servsim.environment import shipped_trace
from servsim.errors import EnvironmentProblem
from servsim.files import atomic_write
from servsim.progress import Show, expected_references, of_references
from servsim.quickstart import USERS
from servsim.simulation import file_hash, machine_text, simulate
from servsim.statistics.intervals import estimate
from servsim.sweep.job import versions

Replication = Mapping[str, Any]


#: Disks of every machine. Neither paper's figures count waiting for disks: one counts processes that are ready to
#: run, the other spreads its database over raw disks until none limits. With the eight of the descriptions a
#: database that is cold in the guest makes 16 processors wait for them.
DISKS = 64


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
            f"disk.parallel={DISKS}",
        ]

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.processors}p, {self.size}, {self.line} B, {self.ways}-way, {self.scheduler}, {self.protocol}"


def kept(
    folder: Path | None, inputs: Mapping[str, Any], make: Callable[[], Any], known: Callable[[], None] = lambda: None
) -> Any:
    """Return what was made of these inputs before, calling ``known``; else make it, and keep it as JSON.

    Its file is named by a hash of ``inputs`` and of what is installed. Without a folder nothing is kept.
    """
    if folder is None:
        return make()
    file = folder / f"{hashlib.sha256(json.dumps({**versions(), **inputs}).encode()).hexdigest()[:20]}.json"
    if file.is_file():
        known()
        return json.loads(file.read_bytes())
    made = make()
    atomic_write(file, json.dumps(made))
    return made


@dataclass
class Runs:
    """Makes and remembers runs; two studies of one configuration get the same runs."""

    trace: Path
    warmup: int
    transactions: int
    count: int
    seed: int = 1
    machine: str = "foglia-2004-8p"
    say: Show = lambda *_: None
    known: dict[tuple[Configuration, int], list[Replication]] = field(default_factory=dict)
    #: Where runs are kept for later, or nowhere.
    folder: Path | None = None
    #: What else every machine of the study differs in.
    settings: tuple[str, ...] = ()

    def overrides(self, configuration: Configuration) -> list[str]:
        """Return the settings that a configuration replaces, and the study's own."""
        return [*configuration.overrides(), *self.settings]

    def __call__(self, configuration: Configuration, count: int | None = None) -> list[Replication]:
        """Return the runs of a configuration, made now if need be."""
        wanted = count or self.count
        key = (configuration, wanted)
        if key not in self.known:
            made = partial(self._made, configuration, wanted)
            known = partial(self.say, f"{self._what(configuration)}: {wanted} runs, known", 1.0)
            self.known[key] = kept(self.folder, self._inputs(configuration, wanted), made, known)
        return self.known[key]

    def _inputs(self, configuration: Configuration, count: int) -> dict[str, Any]:
        """Return all that decides the runs of a configuration."""
        return {
            "trace": file_hash(self.trace),
            "machine": machine_text(self.machine),
            "overrides": self.overrides(configuration),
            "measured": [self.warmup, self.transactions, count, self.seed],
        }

    def _made(self, configuration: Configuration, count: int) -> list[Replication]:
        """Make the runs of a configuration."""
        what = f"{self._what(configuration)}: {count} runs"
        expected = expected_references(
            self.trace, transactions=self.transactions, warmup=self.warmup, replications=count
        )
        self.say(what, 0.0)
        result = simulate(
            self.trace,
            self.machine,
            overrides=self.overrides(configuration),
            warmup=self.warmup,
            transactions=self.transactions,
            replications=count,
            seed=self.seed,
            progress=of_references(self.say, what, expected),
        )
        made: list[Replication] = result["replications"]
        return made

    def _what(self, configuration: Configuration) -> str:
        return f"configuration {len(self.known) + 1}, {configuration}"

    def values(self, configuration: Configuration, figure: Callable[[Replication], float]) -> list[float]:
        """Return a figure of every run of a configuration."""
        return [figure(replication) for replication in self(configuration)]

    def note(self) -> str:
        """Say what was run, for the study's remarks."""
        return (
            f"Trace {self.trace.name} ({file_hash(self.trace)[:19]}…): {self.transactions} transactions after "
            f"{self.warmup} of warm-up, {self.count} runs per configuration, seeds from {self.seed}, common to all; "
            f"{DISKS} disks."
        )


def measured(count: int, users: int) -> tuple[int, int]:
    """Divide a trace's transactions into warm-up and measurement: these studies measure as much as they can.

    One transaction per user, or a quarter if that is less, warms the simulated caches up. Another per user,
    or a third if that is less, is left at the end: when the trace runs out its users end one by one, and
    processors idle for want of work, which they would not on a real server.
    """
    warmup = min(users, count // 4)
    return warmup, max(1, count - warmup - min(users, count // 3))


def transactions_of(trace: Path, references: int) -> int:
    """Return how many of a trace's transactions make so many references, at least one."""
    totals = json.loads(_core.trace_info(trace))["totals"]
    each = (totals["instructions"] + totals["data_references"]) / max(1, totals["transactions"])
    return max(1, int(references / each + 0.5))


def runs(
    trace: Path | None,
    count: int,
    say: Show,
    most: int | None = None,
    references: int | None = None,
    settings: tuple[str, ...] = (),
) -> Runs:
    """Prepare runs on a trace, or on the shipped one, divided into warm-up and measurement.

    At most ``most`` transactions are measured, or those that make ``references``. With few of these the warm-up is no
    longer than they are.

    Raises
    ------
    EnvironmentProblem
        When no trace is given and the shipped one is missing.
    """
    path = trace or shipped_trace()
    if path is None:
        raise EnvironmentProblem("the trace that ships with servsim is missing: reinstall it, or give --trace FILE")
    info = json.loads(_core.trace_info(path))
    users = info["meta"].get("provenance", {}).get("users", USERS)
    warmup, transactions = measured(int(info["totals"]["transactions"]), int(users))
    kept = cache.folder("reproduce")
    if references is not None:
        most = transactions_of(path, references)
    transactions = min(transactions, most or transactions)
    return Runs(path, min(warmup, transactions), transactions, count, say=say, folder=kept, settings=settings)


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


#: The paper's workload: ready processes (section 4), stores and references (Tables 1-3).
PAPER_READY, PAPER_STORES, PAPER_REFERENCES = 26, 7.39, 130
#: Below this share of the paper's ready processes, or above this share of cold misses, in percent, ours differs.
FEW_READY, MUCH_COLD, MANY_STORES = 50, 30, 1.25 * PAPER_STORES


def why(made: Runs, configuration: Configuration) -> str:
    """Explain from counters how our workload differs from the paper's where it decides the outcome."""
    found = made(configuration)
    times = {k: sum(p[k] for r in found for p in r["processors"]) for k in ("idle", "bus_wait")}
    whole = max(1, sum(sum(p.values()) for r in found for p in r["processors"]))
    idle, queued = 100 * times["idle"] / whole, 100 * times["bus_wait"] / max(1, whole - times["idle"])
    cold = 100 * mean([total(r, "misses", "cold") / max(1.0, total(r, "misses", "total")) for r in found])
    ready = mean([float(r["mean_ready_tasks"]) for r in found])
    stores = mean([100 * total(r, "references_by_kind", "store") / r["references"] for r in found])
    references, moved = mean([r["references"] / 1e6 for r in found]), mean([float(r["migrations"]) for r in found])
    reasons = []
    if ready < PAPER_READY * FEW_READY / 100:
        reasons.append(
            f"only {ready:.1f} tasks are ready on average (the paper: {PAPER_READY}), so processors idle {idle:.0f} % "
            f"of the time, tasks migrate {moved:.0f} times in all, and the bus is busy {mean(bus_of(found)):.0f} % and "
            f"waited for in {queued:.1f} % of the working time: contention and migration stay below the paper's"
        )
    if cold > MUCH_COLD:
        reasons.append(
            f"{cold:.0f} % of the misses are cold after {references:.0f} M references (the paper runs "
            f"{PAPER_REFERENCES} M): longer blocks and larger caches act on first touches, and sharing is a small part"
        )
    if stores > MANY_STORES:
        reasons.append(
            f"stores are {stores:.1f} % of the references (the paper: {PAPER_STORES}), so more blocks leave the caches "
            "dirty and more words must be told to others"
        )
    if not reasons:
        reasons.append(
            f"misses per 100 references {mean([miss_percent(r) for r in found]):.2f}, bus {mean(bus_of(found)):.0f} %"
        )
    return f"On {configuration}: {'; '.join(reasons)}."


def bus_of(found: Sequence[Replication]) -> list[float]:
    """Return the use of the bus of each run, in percent."""
    return [bus_percent(run) for run in found]


#: Bus cycles of a one-word write, and of a block of 128 bytes from memory (Table 4).
WRITE_CYCLES, BLOCK_CYCLES = 5, 80


def balance(made: Runs, update: Configuration, invalidate: Configuration) -> str:
    """Weigh what a write-update protocol pays in writes against the fetches that it saves."""
    kinds = ("needless", *SHARING)
    paid = mean(made.values(update, rate("coherence", *kinds))) - mean(
        made.values(invalidate, rate("coherence", *kinds))
    )
    saved = mean(made.values(invalidate, rate("misses", "total"))) - mean(made.values(update, rate("misses", "total")))
    cost, gain = paid * WRITE_CYCLES, saved * BLOCK_CYCLES
    verdict = "costs more than it saves" if cost > gain else "saves more than it costs"
    return (
        f"Per 1000 references {update.protocol.upper()} makes {paid:.2f} more coherence transactions of {WRITE_CYCLES} "
        f"cycles ({cost:.0f}) and {saved:.2f} fewer fetches of about {BLOCK_CYCLES} ({gain:.0f}) than "
        f"{invalidate.protocol.upper()}: with this sharing it {verdict}."
    )
