"""From homes of pages to a placement file: runs of pages instead of single ones, each by the best name it has.

Pages are named by data structure and offset, else by process and virtual address, else by the address of the simulated
memory. A rule has a price, so that a page that hardly matters does not split a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servsim.placement.greedy import Costs, Homes

PAGE = 4096
#: Most rules of a file: each is at least one area of memory for the kernel of a real host.
MOST_RULES = 900


@dataclass(frozen=True)
class Page:
    """Where a page is: within named data, else in a process, else in memory.

    Attributes
    ----------
    key : str
        ``structure``, ``process`` or empty.
    name : str
        Name of the structure, number of the process, or empty.
    start : int
        First byte: offset, virtual address or address.
    """

    key: str
    name: str
    start: int


@dataclass(frozen=True)
class Rule:
    """A run of pages and their node, from 0; ``pages`` is how many of them were counted."""

    key: str
    name: str
    start: int
    end: int
    node: int
    pages: int


def rules(
    places: Sequence[Page], homes: Homes, costs: Costs, most: int = MOST_RULES, others: int | None = None
) -> list[Rule]:
    """Return the rules that put pages where they should be, at most so many.

    The homes of neighbours are those of least cost when every rule has a price; the price grows until the rules are
    few enough. Pages with none beside them need a rule each at any price: where these are too many, those that are
    worth most are kept, of the price that keeps most. ``others`` is the node of pages without a rule, if they have one.
    """
    # What another home than the chosen one costs; a cheaper one was full.
    away = np.abs(costs - costs[np.arange(len(costs)), homes][:, None])
    # A page that was copied on a write has the name of the one it was copied from: no rule can tell them apart.
    known: dict[Page, int] = {}
    same = [known.setdefault(place, len(known)) for place in places]
    together = np.zeros((len(known), away.shape[1]))
    np.add.at(together, same, away)
    places, away = list(known), together
    groups: dict[tuple[str, str], list[int]] = {}
    for index, place in enumerate(places):
        groups.setdefault((place.key, place.name), []).append(index)
    ordered = [sorted(group, key=lambda index: places[index].start) for _, group in sorted(groups.items())]
    price = float(away.max(axis=1).sum()) * 1e-5 + 1e-9
    best: tuple[float, list[Rule]] = (-np.inf, [])
    while True:
        found = [one for group in ordered for one in _runs(places, away, group, price) if one[1].node != others]
        if len(found) <= most:
            return [rule for _, rule in found]
        kept = sorted(sorted(range(len(found)), key=lambda at: -found[at][0])[:most])
        worth = sum(found[at][0] for at in kept)
        if worth > best[0]:
            best = worth, [found[at][1] for at in kept]
        if price > away.sum():
            return best[1]
        price *= 2


def _runs(places: Sequence[Page], away: Costs, group: list[int], price: float) -> list[tuple[float, Rule]]:
    """Return the runs of one group, and what each saves beside pages dealt over all nodes.

    Only those of named data reach over pages that nobody touched.
    """
    runs: list[tuple[float, Rule]] = []
    pieces: list[list[int]] = []
    for index in group:
        joined = places[index].key == "structure" or (
            bool(pieces) and places[pieces[-1][-1]].start + PAGE == places[index].start
        )
        if pieces and joined:
            pieces[-1].append(index)
        else:
            pieces.append([index])
    for piece in pieces:
        nodes = _cheapest(away[piece], price)
        first = 0
        for at in range(1, len(piece) + 1):
            if at == len(piece) or nodes[at] != nodes[first]:
                start, last = places[piece[first]], places[piece[at - 1]]
                end = places[piece[at]].start if at < len(piece) else last.start + PAGE
                own = away[piece[first:at]]
                worth = float((own.mean(axis=1) - own[:, nodes[first]]).sum())
                runs.append((worth, Rule(start.key, start.name, start.start, end, int(nodes[first]), at - first)))
                first = at
    return runs


def _cheapest(away: Costs, price: float) -> list[int]:
    """Return the sequence of homes of least cost, when each change of home costs ``price`` (Viterbi)."""
    known, came = away[0].copy(), []
    for one in away[1:]:
        best = int(known.argmin())
        stays = known <= known[best] + price
        came.append(np.where(stays, np.arange(len(known)), best))
        known = np.where(stays, known, known[best] + price) + one
    path = [int(known.argmin())]
    for step in reversed(came):
        path.append(int(step[path[-1]]))
    return path[::-1]


def toml(found: Sequence[Rule], rest: str, threads: Sequence[str], per_cpu: bool, head: Sequence[str]) -> str:
    """Write a placement file: a comment, what is true of all other pages, the rules, the threads."""
    lines = [*(f"# {line}" for line in head), rest]
    if per_cpu:
        lines += ["", "[[page]]", 'area = "kernel per-CPU data"', 'policy = "first-touch"']
    for rule in found:
        extent = f'"{rule.start:#x}..{rule.end:#x}"'
        named = [f"{rule.key} = {_quoted(rule.name)}"] if rule.key else []
        lines += ["", "[[page]]", *named, f"{'offset' if rule.key == 'structure' else 'addresses'} = {extent}"]
        lines.append(f"node = {rule.node + 1}")
    return "\n".join([*lines, *threads]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
