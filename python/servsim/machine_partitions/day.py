"""A day of two or more partitions: what each serves, step by step, while the manager moves nodes between them.

What a partition of so many nodes serves per second is measured by simulation before. Within a step load and nodes stay
as they are; what is not served waits for the next step. A node that moves serves nobody until its pages are moved, one
after the other. The node that a machine begins with stays where it is: it has what the kernel cannot move.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servsim.errors import UsageError
from servsim.manager import Goals, Look, Manager, Move

#: The node that no partition gives away.
FIRST = 1


@dataclass(frozen=True)
class Served:
    """What one partition did in a step.

    Attributes
    ----------
    nodes
        Those that it held.
    offered, served, waiting
        Transactions that came, that were served, and that were left at the end.
    busy
        Share of its processors' time, from 0 to 1.
    """

    nodes: tuple[int, ...]
    offered: float
    served: float
    waiting: float
    busy: float


@dataclass(frozen=True)
class Step:
    """One step of the day.

    Attributes
    ----------
    time_s
        Its end.
    partitions
        What each did.
    move
        The node that moves at its end, or None.
    reason
        What the manager said.
    """

    time_s: float
    partitions: Mapping[str, Served]
    move: Move | None
    reason: str


def live(
    goals: Goals,
    rates: Mapping[str, Mapping[int, float]],
    load: Mapping[str, Sequence[float]],
    move_s: float,
    *,
    managed: bool = True,
) -> list[Step]:
    """Live through a day.

    Parameters
    ----------
    goals
        The partitions, their nodes at the beginning, and what each is to reach.
    rates
        By partition and number of nodes, transactions per second at most.
    load
        By partition, transactions per second that come, for each look of the manager.
    move_s
        Seconds that moving a node's pages takes.
    managed
        Whether the manager moves nodes; without it partitions stay.

    Raises
    ------
    UsageError
        When a partition has no load or no rate.
    """
    names = tuple(goals.partitions)
    steps = {len(load.get(name, ())) for name in names}
    if load.keys() != goals.partitions.keys() or len(steps) != 1:
        raise UsageError(f"the load must have one column for each of the partitions {', '.join(names)}, equally long")
    nodes = {name: tuple(goal.nodes) for name, goal in goals.partitions.items()}
    waiting, manager = dict.fromkeys(names, 0.0), Manager(goals, fixed=frozenset({FIRST}))
    moving: tuple[str, float] | None = None
    day = []
    for step in range(steps.pop()):
        done = {}
        for name, held in nodes.items():
            if len(held) not in rates[name]:
                raise UsageError(f"no rate is known of partition {name} with {len(held)} nodes")
            room = rates[name][len(held)] * goals.every_s
            if moving is not None and moving[0] == name:
                # What came lately serves nobody until its pages are there.
                without = rates[name].get(len(held) - 1, 0.0)
                room -= (rates[name][len(held)] - without) * min(moving[1], goals.every_s)
            offered = load[name][step] * goals.every_s
            served = min(waiting[name] + offered, room)
            busy = (waiting[name] + offered) / room if room else 1.0
            waiting[name] += offered - served
            done[name] = Served(held, offered, served, waiting[name], min(1.0, busy))
        if moving is not None:
            moving = (moving[0], moving[1] - goals.every_s) if moving[1] > goals.every_s else None
        now = (step + 1) * goals.every_s
        # One move at a time.
        reason, move = "a node is on its way" if moving else "nobody moves nodes", None
        if managed and moving is None:
            decision = manager.look(Look(now, {name: one.busy for name, one in done.items()}, nodes))
            reason, move = decision.reason, decision.move
        if move is not None:
            nodes[move.origin] = tuple(node for node in nodes[move.origin] if node != move.node)
            nodes[move.to] = tuple(sorted((*nodes[move.to], move.node)))
            moving = (move.to, move_s)
        day.append(Step(now, done, move, reason))
    return day
