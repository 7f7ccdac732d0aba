"""The manager at work on this host: look, decide, move, and say so."""

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from servsim import partitions
from servsim.errors import EnvironmentProblem, UsageError
from servsim.manager.decide import REST, Look, Manager, Move
from servsim.manager.goals import Goals
from servsim.partitions import Partition


@dataclass(frozen=True)
class Event:
    """A line of the log.

    Attributes
    ----------
    at
        Time in UTC, as ISO 8601.
    reason
        What was decided, or happened, and why.
    busy, nodes
        What was seen: shares of processors' time since the last look, and nodes, by partition.
    move
        The node that moved, or None.
    took_s, pages_left
        How long the move took in seconds, and pages that the kernel would not move.
    failed
        Whether the kernel refused the move.
    """

    at: str
    reason: str
    busy: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    move: Move | None = None
    took_s: float = 0.0
    pages_left: int = 0
    failed: bool = False


def manage(
    goals: Goals,
    *,
    seconds: float | None = None,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Event]:
    """Keep the partitions of this host at their goals, and yield each look's event.

    Partitions that are there already are taken as they are and stay; those that are made here are taken back at the
    end, however it comes (an interrupt, an error, the end of ``seconds``).

    Parameters
    ----------
    goals
        What is to be reached.
    seconds
        How long; None for ever.
    dry_run
        Decide, but neither make partitions nor move nodes; they must be there.
    sleep, clock
        How time passes, in seconds.

    Raises
    ------
    UsageError
        When some partitions of the goals are there and others are not, or others are there besides.
    EnvironmentProblem
        When the kernel offers no partitions, or refuses to make them.
    """
    present = partitions.present()
    made = not present
    if made and dry_run:
        raise UsageError("there is no partition to look at: `servsim rset partition create` makes them")
    if present and present.keys() != goals.partitions.keys():
        there, wanted = (", ".join(sorted(names)) for names in (present, goals.partitions))
        raise UsageError(f"the host has the partitions {there}, the goals are for {wanted}: undo, or name the same")
    try:
        if made:
            steps = partitions.create({name: goal.nodes for name, goal in goals.partitions.items()}).steps
            yield Event(_now(), f"made the partitions in {len(steps)} steps")
        yield from _watch(goals, seconds, dry_run, sleep, clock)
    finally:
        if made:
            partitions.undo()


def _watch(
    goals: Goals,
    seconds: float | None,
    dry_run: bool,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> Generator[Event]:
    nodes, distances = _machine()
    manager = Manager(goals, distances)
    begin = then = clock()
    before = partitions.present()
    while seconds is None or clock() - begin < seconds:
        sleep(goals.every_s)
        now, present = clock(), partitions.present()
        gone = goals.partitions.keys() - present.keys()
        if gone:
            raise EnvironmentProblem(f"the partition {min(gone)} was taken back by somebody else")
        busy = {name: _busy(before[name], present[name], now - then) for name in goals.partitions}
        held = {name: tuple(sorted(present[name].resources.nodes)) for name in goals.partitions}
        taken = {node for part in held.values() for node in part}
        free = tuple(node for node in nodes if node not in taken)
        decision = manager.look(Look(now, busy, {**held, REST: free}))
        event = Event(_now(), decision.reason, busy, held, decision.move)
        then, before = now, present
        if decision.move is not None and not dry_run:
            event = _moved(event, decision.move, clock)
            # What was used while the node moved belongs to neither size of the partition.
            then, before = clock(), partitions.present()
        yield event


def _moved(event: Event, move: Move, clock: Callable[[], float]) -> Event:
    begin = clock()
    try:
        change = partitions.move(move.node, move.origin, move.to)
    except (UsageError, EnvironmentProblem) as error:
        return Event(event.at, f"{event.reason}: {error}", event.busy, event.nodes, move, failed=True)
    return Event(event.at, event.reason, event.busy, event.nodes, move, clock() - begin, change.pages_left)


def _machine() -> tuple[tuple[int, ...], dict[tuple[int, int], int]]:
    """Return the nodes that a partition may get (all but the first), and the distances of all pairs."""
    from servsim.rset import machine

    nodes = machine().nodes
    distances = {(node.node, other): far for node in nodes for other, far in node.distances.items()}
    able = tuple(node.node for node in nodes[1:] if node.processors and node.memory_bytes)
    return able, distances


def _busy(before: Partition, now: Partition, elapsed_s: float) -> float:
    """Return the share of its processors' time that a partition used."""
    could = len(now.resources.processors) * elapsed_s
    return min(1.0, max(0.0, (now.processor_time_s - before.processor_time_s) / could)) if could else 0.0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
