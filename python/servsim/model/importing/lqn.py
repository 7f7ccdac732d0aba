"""Layered queueing networks as networks of ours (Franks et al., "Enhanced Modeling and Solution of LQNs", 2009).

A reference task is a closed class, a processor a station, and a task with a limited number of threads a pool that is
held while its entry is at work. Mean demands and calls are kept; calls are as many as they say, not geometrical.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from servsim.errors import UsageError
from servsim.model.importing import Imported
from servsim.model.importing.markup import refused
from servsim.model.network import Closed, Network, Open, Pool, Station

#: Most calls within calls that are followed.
DEEPEST = 60


@dataclass
class Processor:
    """A processor; infinitely many have ``count`` infinity."""

    name: str
    line: int
    discipline: str = "fcfs"
    count: float = 1.0


@dataclass
class Entry:
    """What a task does for one request of a kind: its own time, and the calls that it makes."""

    name: str
    line: int
    demand: float = 0.0
    think: float = 0.0
    rate: float = 0.0
    calls: dict[str, float] = field(default_factory=dict)
    #: True where it works on after its reply, in a second phase.
    late: bool = False

    def call(self, entry: str, count: float) -> None:
        """Add calls of another entry."""
        if count > 0.0:
            self.calls[entry] = self.calls.get(entry, 0.0) + count


@dataclass
class Task:
    """A task; infinitely many threads have ``count`` infinity."""

    name: str
    line: int
    processor: str
    entries: list[str]
    reference: bool = False
    count: float = 1.0
    think: float = 0.0
    priority: int = 0


@dataclass
class Layers:
    """A layered queueing network as read from a file."""

    path: str
    processors: dict[str, Processor] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    #: The activity at which an entry begins.
    starts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    title: str = "network"

    def refused(self, line: int, what: str, remedy: str) -> UsageError:
        """Return the error that names the place, what is wrong with it and what to do."""
        return refused(self.path, line, what, remedy)

    def task_of(self, entry: str, line: int) -> Task:
        """Return the task that an entry belongs to.

        Raises
        ------
        UsageError
            When there is none.
        """
        for task in self.tasks.values():
            if entry in task.entries:
                return task
        raise self.refused(line, f"there is no entry {entry!r}", "list it with its task")


@dataclass
class _Use:
    """How a class uses a task: how often per request, and for how long on each processor while it is the innermost."""

    visits: float = 0.0
    #: Seconds by processor, of the task and of tasks with threads for everyone that it calls.
    work: dict[str, float] = field(default_factory=dict)
    #: How often each of those that hold something while they call calls it, per request.
    callers: dict[str | None, float] = field(default_factory=dict)


class _Expansion:
    """The calls of one class, followed from its first entry down."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.uses: dict[str | None, _Use] = {None: _Use(1.0)}
        self.slices: dict[str, float] = {}

    def follow(self, entry: Entry, times: float, holder: str | None, above: tuple[str, ...]) -> None:
        """Count one entry, called ``times`` a request by what holds ``holder``."""
        layers = self.layers
        task = layers.task_of(entry.name, entry.line)
        if len(above) > DEEPEST or task.name in above:
            raise layers.refused(entry.line, f"task {task.name!r} calls itself in the end", "break the circle of calls")
        if not task.reference and entry.late:
            raise layers.refused(
                entry.line, f"entry {entry.name!r} works on after its reply (second phase)", "add it to the first phase"
            )
        if entry.think > 0.0 and not task.reference:
            raise layers.refused(entry.line, f"entry {entry.name!r} thinks", "let reference tasks think only")
        if not task.reference and math.isfinite(task.count):
            use = self.uses.setdefault(task.name, _Use())
            use.visits += times
            use.callers[holder] = use.callers.get(holder, 0.0) + times
            holder = task.name
        if entry.demand > 0.0:
            work = self.uses[holder].work
            work[task.processor] = work.get(task.processor, 0.0) + times * entry.demand
            slices = times * (1.0 + sum(entry.calls.values()))
            self.slices[task.processor] = self.slices.get(task.processor, 0.0) + slices
        for called, count in entry.calls.items():
            if called not in layers.entries:
                raise layers.refused(
                    entry.line, f"entry {entry.name!r} calls {called!r}, which is no entry", "describe it"
                )
            if layers.task_of(called, entry.line).reference:
                raise layers.refused(entry.line, f"{entry.name!r} calls a reference task", "call other tasks only")
            self.follow(layers.entries[called], times * count, holder, (*above, task.name))


def network(layers: Layers) -> Imported:
    """Return the network of layers."""
    notes = layers.notes
    classes: list[Closed | Open] = []
    uses: dict[str, _Expansion] = {}
    for load, entry in _loads(layers):
        classes.append(load)
        expansion = uses[load.name] = _Expansion(layers)
        if entry is not None:
            expansion.follow(entry, 1.0, None, ())
    for task in (task for task in layers.tasks.values() if task.reference):
        for name in task.entries:
            uses[task.name].follow(layers.entries[name], 1.0, None, ())
    if not classes:
        raise layers.refused(1, "nobody asks for anything", "add a reference task or an entry with open arrivals")
    pools = _pools(layers, uses, classes)
    stations = [s for p in layers.processors.values() if (s := _station(layers, p, uses, pools)) is not None]
    if any(pool.calls != 1.0 for pool in pools.values()):
        notes.append("calls are made as often as they say, with a chance for the fraction, not geometrically")
    made = list(pools.values())
    return Imported(Network(classes, stations, made, name=layers.title), notes)


def _loads(layers: Layers) -> Iterator[tuple[Closed | Open, Entry | None]]:
    """Return the classes, with the entry that open ones come to."""
    for task in layers.tasks.values():
        if task.reference:
            if not math.isfinite(task.count):
                raise layers.refused(task.line, f"{task.name!r} is of infinitely many users", "give a number")
            think = task.think + sum(layers.entries[e].think for e in task.entries)
            yield Closed(task.name, int(task.count), think=think, priority=task.priority), None
    for entry in layers.entries.values():
        if entry.rate > 0.0:
            yield Open(entry.name, entry.rate), entry


def _pools(layers: Layers, uses: dict[str, _Expansion], classes: list[Closed | Open]) -> dict[str, Pool]:
    """Return the pools that can ever be waited for, outer ones first."""
    everyone: float = sum(c.population for c in classes if isinstance(c, Closed))
    if any(isinstance(c, Open) for c in classes):
        everyone = math.inf
    kept: list[str] = []
    pending = sorted({name for expansion in uses.values() for name in expansion.uses if name is not None})
    while pending:
        # Circles have been refused, so that somebody's callers have all been looked at.
        name = next(t for t in pending if not _callers(uses, t) & set(pending))
        pending.remove(name)
        if _waited_for(layers, layers.tasks[name], uses, everyone):
            kept.append(name)
        else:
            _dissolve(uses, name)
    return {name: _pool(layers, layers.tasks[name], uses) for name in kept}


def _callers(uses: dict[str, _Expansion], name: str) -> set[str | None]:
    return {c for e in uses.values() if name in e.uses for c in e.uses[name].callers}


def _waited_for(layers: Layers, task: Task, uses: dict[str, _Expansion], everyone: float) -> bool:
    """Say whether anybody ever waits for a thread, other than as for its processor."""
    above = sum(layers.tasks[c].count if c is not None else math.inf for c in _callers(uses, task.name))
    if min(above, everyone) <= task.count:
        return False
    processor = layers.processors[task.processor]
    alone = all(t.processor != task.processor or t is task for t in layers.tasks.values())
    leaf = not any(layers.entries[e].calls for e in task.entries)
    in_turn = processor.count == task.count or (processor.count < task.count and processor.discipline == "fcfs")
    if alone and leaf and in_turn:
        # Who has a thread and who has the processor are served in the same order.
        processor.discipline = "fcfs"
        return False
    return True


def _pool(layers: Layers, task: Task, uses: dict[str, _Expansion]) -> Pool:
    """Return the pool of a task's threads."""
    callers = _callers(uses, task.name)
    if len(callers) > 1:
        raise layers.refused(
            task.line,
            f"task {task.name!r} is called by {', '.join(sorted(c or 'the users' for c in callers))}, and its threads "
            "can be asked for in one place only",
            "give each caller a copy of the task, or make it infinite",
        )
    (parent,) = callers
    calls: set[float] = set()
    holds: dict[str, dict[str, float]] = {}
    for name, expansion in uses.items():
        use = expansion.uses.get(task.name)
        if use is not None:
            calls.add(round(use.visits / expansion.uses[parent].visits, 12))
            for processor, seconds in use.work.items():
                holds.setdefault(processor, {})[name] = seconds
    if len(calls) > 1:
        raise layers.refused(
            task.line,
            f"task {task.name!r} is called {' and '.join(f'{c:g}' for c in sorted(calls))} times by different classes",
            "let all classes call it equally often, or make it infinite",
        )
    return Pool(task.name, int(task.count), holds, inside=parent, calls=calls.pop())


def _dissolve(uses: dict[str, _Expansion], name: str) -> None:
    """Give what a task does to its callers, where its threads are never waited for."""
    for expansion in uses.values():
        use = expansion.uses.pop(name, None)
        if use is None:
            continue
        for caller, share in use.callers.items():
            work = expansion.uses[caller].work
            for processor, seconds in use.work.items():
                work[processor] = work.get(processor, 0.0) + seconds * share / use.visits
        for other in expansion.uses.values():
            if name in other.callers:
                through = other.callers.pop(name)
                for caller, share in use.callers.items():
                    other.callers[caller] = other.callers.get(caller, 0.0) + through * share / use.visits


def _station(
    layers: Layers, processor: Processor, uses: dict[str, _Expansion], pools: dict[str, Pool]
) -> Station | None:
    """Return the station of a processor, unless it has nothing to do."""
    demands = {
        name: sum(use.work.get(processor.name, 0.0) for use in expansion.uses.values())
        for name, expansion in uses.items()
    }
    demands = {name: demand for name, demand in demands.items() if demand > 0.0}
    if not demands:
        return None
    visits = {name: 1.0 if pools else uses[name].slices[processor.name] for name in demands}
    given: dict[str, Any] = {"visits": visits}
    if processor.count == math.inf:
        return Station(processor.name, demands, kind="delay", **given)
    if processor.discipline in ("priority", "non-preemptive"):
        ranks = {t.priority for t in layers.tasks.values() if t.processor == processor.name and not t.reference}
        if len(ranks) > 1:
            raise layers.refused(
                processor.line, f"tasks of processor {processor.name!r} differ in priority", "rank the reference tasks"
            )
    return Station(processor.name, demands, servers=int(processor.count), discipline=processor.discipline, **given)
