"""What each setting changes: designs that differ in one setting alone, held against each other.

Of every factor of a study, and of any set of designs whose settings differ. A level is compared with the
first one within groups of designs that have everything else in common, so that a study with combinations
left out misleads nobody: what has no partner is not counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from typing import Any

from servsim.comparison.grouping import IN_COMMON, settings_of
from servsim.statistics.intervals import reported
from servsim.units import amount


@dataclass(frozen=True)
class Factor:
    """A setting that designs differ in.

    Attributes
    ----------
    key : str
        The setting, such as ``cache.size``.
    also : tuple of str
        Settings that change whenever it does, and only then.
    levels : tuple of str
        Its value in each design, in the order of the designs.
    """

    key: str
    also: tuple[str, ...]
    levels: tuple[str, ...]

    @property
    def distinct(self) -> list[str]:
        """Its values: amounts from the least on, others in the order in which they first appear."""
        found = list(dict.fromkeys(self.levels))
        amounts = [amount(level) for level in found]
        if None in amounts:
            return found
        return [level for _, level in sorted(zip(amounts, found, strict=True))]


@dataclass(frozen=True)
class Change:
    """What a level of a factor changes, against the first level, all other settings equal.

    Attributes
    ----------
    base, level : str
        The levels.
    ratio : float
        Figure of the level by that of the base: geometric mean over the pairs.
    low, high : float or None
        Ends of the 95 % interval of that mean over runs; None where runs cannot be paired, or are too few.
    least, most : float
        Smallest and largest ratio of a pair's means.
    pairs : int
        Pairs of designs that differ in this factor alone.
    """

    base: str
    level: str
    ratio: float
    low: float | None
    high: float | None
    least: float
    most: float
    pairs: int


def factors(documents: Sequence[Mapping[str, Any]]) -> list[Factor]:
    """Return the settings of machine, trace and options in which results differ; those that go together are one."""
    trees = [dict(settings_of(document)) for document in documents]
    alike: dict[tuple[int, ...], list[str]] = {}
    for key in dict.fromkeys(key for tree in trees for key in tree):
        levels = [tree.get(key, "none") for tree in trees]
        if len(set(levels)) > 1:
            order = {level: number for number, level in enumerate(dict.fromkeys(levels))}
            alike.setdefault(tuple(order[level] for level in levels), []).append(key)
    return [
        Factor(first, tuple(rest), tuple(tree.get(first, "none") for tree in trees)) for first, *rest in alike.values()
    ]


def of_machine(factor: Factor) -> bool:
    """Return whether a factor is of the machines; what another trace or length changes says nothing of them."""
    others = {name for _, part, name in IN_COMMON if part == "options"} | {"trace"}
    return not others & {key.split(".")[0] for key in (factor.key, *factor.also)}


def changes(
    factor: Factor, every: Sequence[Factor], values: Sequence[Sequence[float]], *, paired: bool
) -> list[Change]:
    """Return what each further level of a factor changes.

    Parameters
    ----------
    factor : Factor
        One of ``every``.
    every : sequence of Factor
        All factors of the designs.
    values : sequence of sequence of float
        The figure of each design, a value for each run (or capture).
    paired : bool
        Whether the i-th runs of all designs belong together.

    Returns
    -------
    list of Change
        One for each level that has a pair; pairs with a figure of zero or less have no ratio and are left out.
    """
    held = [other for other in every if not _follows(other, factor)]
    groups: dict[tuple[str, ...], dict[str, int]] = {}
    for design, level in enumerate(factor.levels):
        groups.setdefault(tuple(other.levels[design] for other in held), {})[level] = design
    base, *further = factor.distinct
    found = []
    for level in further:
        both = [
            (values[group[base]], values[group[level]]) for group in groups.values() if {base, level} <= group.keys()
        ]
        known = [(a, b) for a, b in both if min(*a, *b) > 0]
        if known:
            found.append(_change(base, level, known, paired=paired))
    return found


def _follows(other: Factor, factor: Factor) -> bool:
    """Return whether a factor's level settles that of another (of itself, too), so that it cannot be held."""
    return len(set(zip(factor.levels, other.levels, strict=True))) == len(factor.distinct)


def _change(base: str, level: str, known: Sequence[tuple[Sequence[float], Sequence[float]]], *, paired: bool) -> Change:
    ratios = [(fsum(b) / len(b)) / (fsum(a) / len(a)) for a, b in known]
    logarithms = [list(map(log, ratios))]
    if paired:
        logarithms = [[log(b[run] / a[run]) for a, b in known] for run in range(len(known[0][0]))]
    logs = reported([fsum(run) / len(run) for run in logarithms])
    low, high = (None if end is None else exp(end) for end in (logs.low, logs.high))
    return Change(base, level, exp(logs.mean), low, high, min(ratios), max(ratios), len(ratios))
