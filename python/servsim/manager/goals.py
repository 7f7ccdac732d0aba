"""What a manager of partitions is to reach: a file of goals.

::

    every_s = 5        # how often it looks
    patience = 3       # looks in a row that must ask for a move
    pause_s = 60       # after a move, before the next
    margin = 0.1       # who gives a node stays so far below its goal

    [partition.web]
    nodes = [2, 3]     # at the beginning
    least = 1          # nodes that it keeps whatever happens
    busy_at_most = 0.7 # share of its processors' time
    rank = 1           # 1 goes first where not all goals can be met

    [partition.database]
    nodes = [1]
    busy_at_most = 0.8
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servsim.documents import read_toml, text_of
from servsim.errors import UsageError
from servsim.limits import is_whole


@dataclass(frozen=True)
class Goal:
    """What one partition is to reach.

    Attributes
    ----------
    nodes
        Its nodes at the beginning.
    busy_at_most
        Share of its processors' time, from 0 to 1, that its processes use at most when all is well.
    least
        How many nodes it keeps whatever happens.
    rank
        Whose goal goes first where not all can be met: the smaller number.
    """

    nodes: tuple[int, ...]
    busy_at_most: float = 0.8
    least: int = 1
    rank: int = 1


@dataclass(frozen=True)
class Goals:
    """All goals, and how hastily they are pursued.

    Attributes
    ----------
    partitions
        By name.
    every_s, pause_s
        Seconds between two looks, and from a move to the next.
    patience
        Looks in a row that must ask for a move before it is made.
    margin
        How far below its goal a partition must be expected to stay that gives a node away.
    """

    partitions: Mapping[str, Goal] = field(default_factory=dict)
    every_s: float = 5.0
    patience: int = 3
    pause_s: float = 60.0
    margin: float = 0.1


def load(path: Path) -> Goals:
    """Read a file of goals; see `parse` for what it raises."""
    return parse(text_of(path, missing=f"there is no file of goals {str(path)!r}"), str(path))


def parse(text: str, source: str = "the goals") -> Goals:
    r"""Read the text of a file of goals.

    Raises
    ------
    UsageError
        Naming the key that is wrong, and what it may be.

    Examples
    --------
    >>> parse("[partition.web]\nnodes = [2, 3]").partitions["web"]
    Goal(nodes=(2, 3), busy_at_most=0.8, least=1, rank=1)
    """
    try:
        read = read_toml(text)
    except ValueError as error:
        raise UsageError(f"{source} is not TOML that can be read: {error}") from None
    keys = _Keys(source, "", read)
    tables = keys.table("partition")
    goals = Goals(
        partitions={name: _goal(_Keys(source, f"partition.{name}.", table)) for name, table in tables.items()},
        every_s=keys.number("every_s", Goals.every_s, 0.1, 3600),
        patience=int(keys.number("patience", Goals.patience, 1, 1000, whole=True)),
        pause_s=keys.number("pause_s", Goals.pause_s, 0, 86400),
        margin=keys.number("margin", Goals.margin, 0.01, 0.5),
    )
    keys.end()
    if not goals.partitions:
        raise UsageError(f"{source} has no partition: write [partition.NAME] and below it nodes = [...]")
    nodes = [node for goal in goals.partitions.values() for node in goal.nodes]
    twice = sorted({node for node in nodes if nodes.count(node) > 1})
    if twice:
        raise UsageError(f"{source}: node {twice[0]} is given to two partitions: leave it out of one")
    return goals


def _goal(keys: "_Keys") -> Goal:
    nodes = keys.nodes()
    goal = Goal(
        nodes=nodes,
        busy_at_most=keys.number("busy_at_most", Goal.busy_at_most, 0.05, 0.95),
        least=int(keys.number("least", Goal.least, 1, len(nodes), whole=True)),
        rank=int(keys.number("rank", Goal.rank, 1, 1000, whole=True)),
    )
    keys.end()
    return goal


class _Keys:
    """Takes a table apart, key by key, and refuses what is left."""

    def __init__(self, source: str, prefix: str, table: Any) -> None:
        if not isinstance(table, dict):
            raise UsageError(f"{source}: {prefix[:-1]} must be a table")
        self.source, self.prefix, self.rest, self.taken = source, prefix, dict(table), list[str]()

    def _take(self, key: str) -> Any:
        self.taken.append(key)
        return self.rest.pop(key, None)

    def table(self, key: str) -> dict[str, Any]:
        value = self._take(key)
        if value is not None and not isinstance(value, dict):
            raise UsageError(f"{self.source}: write [{key}.NAME] and below it nodes = [...]")
        return value or {}

    def number(self, key: str, default: float, low: float, high: float, *, whole: bool = False) -> float:
        value = self._take(key)
        if value is None:
            return default
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fits or (whole and not isinstance(value, int)):
            kind = "whole number" if whole else "number"
            raise UsageError(f"{self.source}: {self.prefix}{key} is {value!r}: give a {kind} from {low:g} to {high:g}")
        return float(value)

    def nodes(self) -> tuple[int, ...]:
        value = self._take("nodes")
        fits = isinstance(value, list) and all(is_whole(node, 0) for node in value)
        if not fits or not value or len(set(value)) < len(value):
            raise UsageError(f"{self.source}: {self.prefix}nodes must be a list of nodes, such as [2, 3]")
        return tuple(sorted(value))

    def end(self) -> None:
        if self.rest:
            known = ", ".join(self.taken)
            raise UsageError(f"{self.source}: {self.prefix}{next(iter(self.rest))} is not known; known are {known}")
