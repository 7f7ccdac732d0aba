"""Activities of a task: how often each is run per request, from the order in which they follow one another.

Sequences, alternatives (with probabilities), merges and loops are followed; parallel branches are not, for a join of
them has no counterpart inside a pool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from servsim.errors import UsageError
from servsim.model.importing.lqn import Entry


@dataclass
class Activity:
    """One activity: its time and its calls."""

    name: str
    line: int
    demand: float = 0.0
    think: float = 0.0
    calls: dict[str, float] = field(default_factory=dict)


@dataclass
class Graph:
    """The activities of one task. ``after`` has the activities that follow each, with how often they are run."""

    activities: dict[str, Activity] = field(default_factory=dict)
    after: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    #: Where each entry begins.
    begins: dict[str, str] = field(default_factory=dict)
    #: Activities that reply.
    replies: set[str] = field(default_factory=set)

    def follow(self, before: list[str], following: list[tuple[str, float]]) -> None:
        """Add that activities follow others."""
        for name in before:
            self.after.setdefault(name, []).extend(following)

    def into(self, entry: Entry, refuse: Callable[[int, str, str], UsageError], *, replies: bool) -> None:
        """Add what the activities do for an entry to it.

        Raises
        ------
        UsageError
            For circles, activities that are not described, and work after a reply.
        """
        counts: dict[str, float] = {}

        def run(name: str, times: float, path: tuple[str, ...]) -> None:
            activity = self.activities.get(name)
            if activity is None:
                raise refuse(entry.line, f"there is no activity {name!r}", "describe it, or correct the name")
            if name in path:
                raise refuse(activity.line, f"activity {name!r} follows itself", "say it as a loop with a count")
            if len(path) > 1000 or len(counts) > 10_000:
                raise refuse(activity.line, "too many activities in a row", "merge some")
            if replies and name in self.replies and self.after.get(name):
                raise refuse(activity.line, f"{name!r} replies before the work ends (second phase)", "reply at the end")
            counts[name] = counts.get(name, 0.0) + times
            for following, share in self.after.get(name, []):
                run(following, times * share, (*path, name))

        run(self.begins[entry.name], 1.0, ())
        for name, times in counts.items():
            activity = self.activities[name]
            entry.demand += times * activity.demand
            entry.think += times * activity.think
            for called, count in activity.calls.items():
                entry.call(called, times * count)
