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

from servsim import cache
from servsim.environment import shipped_trace
from servsim.errors import EnvironmentProblem, UsageError
from servsim.files import atomic_write
from servsim.hashes import file_hash
from servsim.machines import machine_text
from servsim.progress import Show, expected_references, of_references
from servsim.quickstart import USERS
from servsim.run_options import RunOptions
from servsim.simulation import simulate
from servsim.statistics.intervals import estimate
from servsim.sweep.job import versions
from servsim.trace.files import captured_facts

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
    #: References to measure instead of transactions, behind as many of warm-up.
    references: int | None = None
    #: About how many configurations the study will ask for, to tell how far it is.
    expected: int | None = None

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
            "measured": [self.warmup, self.transactions, count, self.seed, self.references],
        }

    def _window(self) -> RunOptions:
        """Return what every run measures."""
        if self.references is not None:
            return {"references": self.references, "warmup": self.references}
        return {"transactions": self.transactions, "warmup": self.warmup}

    def _made(self, configuration: Configuration, count: int) -> list[Replication]:
        """Make the runs of a configuration."""
        what = f"{self._what(configuration)}: {count} runs"
        expected = expected_references(
            self.trace,
            transactions=self.transactions,
            references=self.references,
            warmup=self._window()["warmup"],
            replications=count,
        )
        self.say(what, 0.0)
        options: RunOptions = {
            **self._window(),
            "replications": count,
            "seed": self.seed,
            "progress": of_references(self.say, what, expected),
        }
        result = simulate(self.trace, self.machine, overrides=self.overrides(configuration), **options)
        made: list[Replication] = result["replications"]
        if self.references is not None and any(run.get("trace_exhausted") for run in made):
            raise UsageError(
                f"{self.trace.name} ends before {self.references} references were measured behind as many of warm-up: "
                "give fewer --references, or a longer trace"
            )
        return made

    def _what(self, configuration: Configuration) -> str:
        number = len(self.known) + 1
        of = f" of about {self.expected}" if self.expected is not None and number <= self.expected else ""
        return f"configuration {number}{of}, {configuration}"

    def values(self, configuration: Configuration, figure: Callable[[Replication], float]) -> list[float]:
        """Return a figure of every run of a configuration."""
        return [figure(replication) for replication in self(configuration)]

    def note(self) -> str:
        """Say what was run, for the study's remarks."""
        what = f"{self.transactions} transactions after {self.warmup} of warm-up"
        if self.references is not None:
            what = f"{self.references / 1e6:g} M references after as many of warm-up, cut wherever they end"
        return (
            f"Trace {self.trace.name} ({file_hash(self.trace)[:19]}…): {what}, {self.count} runs per configuration, "
            f"seeds from {self.seed}, common to all; {DISKS} disks."
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
    totals = captured_facts(trace)["totals"]
    each = (totals["instructions"] + totals["data_references"]) / max(1, totals["transactions"])
    return max(1, int(references / each + 0.5))


def runs(
    trace: Path | None,
    count: int,
    say: Show,
    most: int | None = None,
    references: int | None = None,
    settings: tuple[str, ...] = (),
    *,
    cut: bool = False,
) -> Runs:
    """Prepare runs on a trace, or on the shipped one, divided into warm-up and measurement.

    At most ``most`` transactions are measured, or those that make ``references``. With few of these the warm-up is no
    longer than they are. With ``cut`` the references are measured themselves, behind as many, wherever they end.

    Raises
    ------
    EnvironmentProblem
        When no trace is given and the shipped one is missing.
    UsageError
        When the trace is too short for so many references.
    """
    path = trace or shipped_trace()
    if path is None:
        raise EnvironmentProblem("the trace that ships with servsim is missing: reinstall it, or give --trace FILE")
    info = captured_facts(path)
    users = info["meta"].get("provenance", {}).get("users", USERS)
    warmup, transactions = measured(int(info["totals"]["transactions"]), int(users))
    kept = cache.folder("reproduce")
    if references is not None and cut:
        held = info["totals"]["instructions"] + info["totals"]["data_references"]
        if held < 2 * references:
            raise UsageError(
                f"{path.name} holds {held} references, too few to measure {references} behind as many of warm-up: give "
                f"--references {held // 4} or fewer, or a longer trace"
            )
        return Runs(path, 0, 0, count, say=say, folder=kept, settings=settings, references=references)
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
