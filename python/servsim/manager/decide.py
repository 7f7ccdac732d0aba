"""Which node moves, if any: a rule without clock, files or randomness, so that it can be tried on any day.

A partition *asks* for a node when it is busier than its goal allows. It *can spare* one when it would stay below its
goal by a margin with one node less; what it would be then is its present use spread over the remaining nodes. So what
was just given is never asked back at once, and a steady load brings the manager to rest. A move needs the same
partition to ask for several looks in a row, and the giver to have been able to spare a node in each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from servsim.manager.goals import Goals

#: Nodes that no partition holds.
REST = "rest"


@dataclass(frozen=True)
class Look:
    """What was seen at one time.

    Attributes
    ----------
    time_s
        Seconds on any steadily running clock.
    busy
        Share of its processors' time that each partition used since the last look, from 0 to 1.
    nodes
        The nodes of each partition; under ``rest`` those that may be given to one.
    """

    time_s: float
    busy: Mapping[str, float]
    nodes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Move:
    """A node that goes from one partition to another; ``origin`` may be ``rest``."""

    node: int
    origin: str
    to: str


@dataclass(frozen=True)
class Decision:
    """What follows from a look.

    Attributes
    ----------
    move
        The move to make now, or None.
    reason
        One sentence for the log.
    """

    move: Move | None
    reason: str


class Manager:
    """Decides from one look after another.

    Parameters
    ----------
    goals
        What each partition is to reach.
    distances
        How far apart two nodes are, by pair; a node that moves is one near its new partition.
    fixed
        Nodes that never move.

    Examples
    --------
    >>> from servsim.manager.goals import Goal
    >>> goals = Goals({"web": Goal((1,)), "database": Goal((2, 3))}, patience=2)
    >>> manager = Manager(goals)
    >>> look = Look(0.0, {"web": 0.95, "database": 0.2}, {"web": (1,), "database": (2, 3)})
    >>> manager.look(look).reason
    'web is 95 % busy, above 80 %: 1 of 2 looks'
    >>> manager.look(look).move
    Move(node=3, origin='database', to='web')
    """

    def __init__(
        self,
        goals: Goals,
        distances: Mapping[tuple[int, int], int] | None = None,
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        self.goals = goals
        self.fixed = fixed
        self.distances = distances or {}
        self._asked = dict.fromkeys(goals.partitions, 0)
        self._spared = dict.fromkeys(goals.partitions, 0)
        self._moved_s: float | None = None

    def look(self, seen: Look) -> Decision:
        """Return what is to be done now."""
        for name, goal in self.goals.partitions.items():
            asks = seen.busy[name] > goal.busy_at_most
            self._asked[name] = self._asked[name] + 1 if asks else 0
            self._spared[name] = self._spared[name] + 1 if self._can_spare(seen, name) else 0
        asking = [name for name, looks in self._asked.items() if looks]
        if not asking:
            return Decision(None, "all goals are met")
        partitions = self.goals.partitions
        neediest = min(
            asking, key=lambda name: (partitions[name].rank, partitions[name].busy_at_most - seen.busy[name])
        )
        wanted = f"{neediest} is {seen.busy[neediest]:.0%} busy, above {partitions[neediest].busy_at_most:.0%}"
        wanted = wanted.replace("%", " %")
        looks = self._asked[neediest]
        if looks < self.goals.patience:
            return Decision(None, f"{wanted}: {looks} of {self.goals.patience} looks")
        if self._moved_s is not None and seen.time_s < self._moved_s + self.goals.pause_s:
            left = self._moved_s + self.goals.pause_s - seen.time_s
            return Decision(None, f"{wanted}: the last move is too recent, {left:.0f} s to wait")
        giver, why = self._giver(seen, neediest)
        if giver is None:
            return Decision(None, f"{wanted}: no partition can give a node")
        self._moved_s = seen.time_s
        self._asked, self._spared = (dict.fromkeys(partitions, 0) for _ in range(2))
        node = self._nearest(seen, giver, neediest)
        return Decision(Move(node, giver, neediest), f"{wanted}: node {node} comes from {giver}, {why}")

    def _can_spare(self, seen: Look, name: str) -> bool:
        goal = self.goals.partitions[name]
        return self._may_give(seen, name) and self._after(seen, name) <= goal.busy_at_most - self.goals.margin

    def _may_give(self, seen: Look, name: str) -> bool:
        """Whether a partition has more nodes than it keeps whatever happens, and one that can move."""
        held = seen.nodes[name]
        return len(held) > self.goals.partitions[name].least and not self.fixed.issuperset(held)

    def _after(self, seen: Look, name: str) -> float:
        """Return how busy a partition would be with one node less."""
        held = len(seen.nodes[name])
        return seen.busy[name] * held / (held - 1)

    def _giver(self, seen: Look, to: str) -> tuple[str | None, str]:
        """Return who gives a node to a partition, and why it can."""
        if seen.nodes.get(REST):
            return REST, "where nothing is set apart for others"
        partitions = self.goals.partitions
        able = [name for name in partitions if name != to and self._spared[name] >= self.goals.patience]
        if able:
            name = min(able, key=lambda name: self._after(seen, name) - partitions[name].busy_at_most)
            return name, f"which will be {self._after(seen, name):.0%} busy".replace("%", " %")
        later = [
            name for name, goal in partitions.items() if goal.rank > partitions[to].rank and self._may_give(seen, name)
        ]
        if later:
            name = max(later, key=lambda name: (partitions[name].rank, -seen.busy[name]))
            return name, "whose goal comes after its own"
        return None, ""

    def _nearest(self, seen: Look, giver: str, to: str) -> int:
        """Return the giver's node nearest to the receiver's; of equals the highest number."""

        def far(node: int) -> int:
            return sum(self.distances.get((node, other), 0) for other in seen.nodes[to])

        return min(set(seen.nodes[giver]) - self.fixed, key=lambda node: (far(node), -node))
