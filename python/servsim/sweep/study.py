"""The study file: a trace, a machine, factors with their levels, seeds; all faults told at once.

A factor is a setting of the machine, or one of `machine`, `trace`, `transactions`, `warmup`,
`functional_warmup` (text such as "5000000 references", or a number of transactions) and `checkpoint` (a
file that `simulate --save-checkpoint` wrote). Every combination of levels is a point; `[[exclude]]` tables
take combinations out. Each point is run once per seed, with the same seeds at every point so that points
can be compared pairwise.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from servsim.documents import is_plain, read_toml, text_of
from servsim.errors import UsageError
from servsim.limits import LARGEST_COUNT, is_whole
from servsim.machines.settings import setting_keys

#: Factors that are no settings of the machine.
SPECIAL = ("machine", "trace", "transactions", "warmup", "functional_warmup", "checkpoint")

#: Keys of a study file.
KEYS = ("name", "engine", "format", "seeds", *SPECIAL)
TABLES = ("settings", "factors", "exclude")

#: Bounds on one study; each is far beyond what can be run, and keeps a slip from filling the memory.
MOST_POINTS = 100_000
MOST_SEEDS = 100_000

Level = str | int | float
Levels = dict[str, Level]


@dataclass(frozen=True)
class Study:
    """A study, with its points in the order of the file (the last factor varies fastest).

    Attributes
    ----------
    name : str
        Name of the study, and of its folder.
    folder : Path
        Where traces and machine files with relative paths are looked for.
    fixed : dict
        What all points share: `trace`, `machine`, `transactions`, `warmup`, `engine`, `format`.
    settings : dict
        Replaced settings that all points share.
    factors : dict
        Levels of each factor.
    points : list of dict
        The level of every factor at each point.
    seeds : list of int
        Seeds of every point's runs.
    """

    name: str
    folder: Path
    fixed: dict[str, Any]
    settings: Levels
    factors: dict[str, list[Level]]
    points: list[Levels]
    seeds: list[int]

    def at(self, point: Levels, key: str) -> Any:
        """Return what holds at a point: the factor's level, or what all points share."""
        return point.get(key, self.fixed.get(key))

    def overrides(self, point: Levels) -> list[str]:
        """Return the settings that a point replaces, as ``KEY=VALUE``."""
        replaced = {**self.settings, **{k: v for k, v in point.items() if k not in SPECIAL}}
        return [f"{key}={value}" for key, value in replaced.items()]

    def path(self, name: str) -> Path:
        """Return a file of the study: relative to the study file, or else to the present folder."""
        beside = self.folder / name
        return beside if beside.exists() else Path(name)


def load(path: Path) -> Study:
    """Read a study file; see `parse` for what it raises."""
    text = text_of(path, missing=f"there is no study {str(path)!r}")
    return parse(text, str(path), path.parent, path.stem)


def parse(text: str, source: str, folder: Path, name: str) -> Study:
    """Read the text of a study file.

    Parameters
    ----------
    text, source : str
        TOML, and its name in messages.
    folder : Path
        Where relative paths begin.
    name : str
        Name of the study when the file gives none.

    Returns
    -------
    Study
        The study with its points.

    Raises
    ------
    UsageError
        With all faults at once: unknown keys, contradictory factors, empty or repeated levels.
    """
    try:
        read = read_toml(text)
    except ValueError as error:
        raise UsageError(f"{source} is not TOML that can be read: {error}") from None
    faults: list[str] = []
    for key in read:
        if key not in (*KEYS, *TABLES):
            listed = f"; a study has {', '.join(KEYS)}, and the tables {', '.join(TABLES)}"
            faults.append(f"unknown key `{key}`{_nearest(key, [*KEYS, *TABLES]) or listed}")
    faults += _type_faults(read)
    settings, factors = (_flat(table) if isinstance(table := read.get(key, {}), Mapping) else {} for key in TABLES[:2])
    faults += _setting_faults(settings, factors, read)
    levels = {key: value if isinstance(value, list) else [value] for key, value in factors.items()}
    faults += [fault for key, values in levels.items() for fault in _level_faults(key, values)]
    seeds = _seeds(read.get("seeds", {"first": 1, "count": 10}), faults)
    for key in ("trace", "machine"):
        if key not in read and key not in levels:
            faults.append(f"no {key} is given: write `{key} = ...`, or make it a factor")
    for key in ("transactions", "warmup"):
        low = 1 if key == "transactions" else 0
        bad = [v for v in [*levels.get(key, []), read.get(key, low)] if not _whole(v, low)]
        faults += [f"`{key}` is {value!r}: give a whole number from {low}" for value in bad]
    count = prod(len(of) for of in levels.values())
    if count > MOST_POINTS:
        faults.append(f"the factors have {count:,} combinations: a study takes {MOST_POINTS:,} at most")
        levels = {}
    points = [dict(zip(levels, combination, strict=True)) for combination in product(*levels.values())]
    points = _without(points, read.get("exclude", []), faults)
    if faults:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        raise UsageError(f"{source} cannot be run, for {len(faults)} reason{'s' * (len(faults) > 1)}:{listed}")
    fixed = {key: read[key] for key in (*SPECIAL, "engine", "format") if key in read}
    return Study(str(read.get("name", name)), folder, fixed, settings, levels, points, seeds)


def _whole(value: object, low: int) -> bool:
    """Say whether a value is a whole number from ``low`` that counters can hold."""
    return is_whole(value, low, LARGEST_COUNT - 1)


def _type_faults(read: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the types and forms of the keys."""
    faults = [
        f"`{key}` is {read[key]!r}: give text"
        for key in ("trace", "machine", "checkpoint", "format")
        if key in read and not isinstance(read[key], str)
    ]
    if read.get("engine", "timing") not in ("timing", "functional"):
        faults.append(f"`engine` is {read['engine']!r}: accepted are timing, functional")
    amount = read.get("functional_warmup", 0)
    if not isinstance(amount, str) and not _whole(amount, 0):
        faults.append(
            f"`functional_warmup` is {amount!r}: give a number of transactions, or text such as '5000 references'"
        )
    name = read.get("name", "name")
    # It becomes the name of a folder, and must not lead elsewhere.
    if not isinstance(name, str) or not name.isprintable() or "/" in name or name in ("", ".", ".."):
        faults.append(f"`name` is {name!r}: give a name that a folder can have, without /")
    faults += [
        f"`{key}` is {read[key]!r}: write [{key}] and below it KEY = VALUE"
        for key in ("settings", "factors")
        if key in read and not isinstance(read[key], Mapping)
    ]
    settings = read.get("settings", {})
    faults += [
        f"[settings] `{key}` is {value!r}: give text or a number"
        for key, value in (_flat(settings) if isinstance(settings, Mapping) else {}).items()
        if not is_plain(value)
    ]
    return faults


def _flat(tree: object, prefix: str = "") -> dict[str, Any]:
    """Flatten tables to dotted keys, so that ``cache.size`` needs no quotes."""
    if not isinstance(tree, Mapping):
        return {prefix: tree} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _setting_faults(settings: Mapping[str, Any], factors: Mapping[str, Any], read: Mapping[str, Any]) -> list[str]:
    known = setting_keys()
    faults = []
    for key in settings:
        if key not in known:
            faults.append(f"[settings] unknown setting `{key}`{_nearest(key, known)}")
        if key in factors:
            faults.append(f"`{key}` is both fixed in [settings] and a factor: leave one of them out")
    for key in factors:
        if key in SPECIAL and key in read:
            faults.append(f"`{key}` is both fixed and a factor: leave one of them out")
        elif key not in SPECIAL and key not in known:
            faults.append(f"[factors] unknown setting `{key}`{_nearest(key, [*known, *SPECIAL])}")
    return faults


def _level_faults(key: str, levels: Sequence[object]) -> list[str]:
    if not levels:
        return [f"factor `{key}` has no levels"]
    faults = [
        f"factor `{key}`: the level {value!r} is neither text nor a number" for value in levels if not is_plain(value)
    ]
    texts = [str(value) for value in levels]
    twice = sorted({text for text in texts if texts.count(text) > 1})
    return faults + [f"factor `{key}` has the level {text} twice" for text in twice]


def _seeds(given: object, faults: list[str]) -> list[int]:
    if isinstance(given, Mapping):
        first, count = given.get("first", 1), given.get("count", 10)
        unknown = set(given) - {"first", "count"}
        if (
            unknown
            or not _whole(first, 0)
            or not _whole(count, 1)
            or count > MOST_SEEDS
            or first + count > LARGEST_COUNT
        ):
            faults.append("`seeds` is wrong: write { first = 1, count = 10 }, count at least 1, or a list of seeds")
            return []
        return list(range(first, first + count))
    if not isinstance(given, list) or not given or not all(_whole(seed, 0) for seed in given):
        faults.append("`seeds` is wrong: write { first = 1, count = 10 }, count at least 1, or a list of seeds")
        return []
    if len(set(given)) < len(given):
        faults.append("`seeds` has a seed twice, which would count one run as two")
    return list(given)


def _without(points: list[Levels], excluded: object, faults: list[str]) -> list[Levels]:
    if not isinstance(excluded, list):
        faults.append("`exclude` is wrong: write [[exclude]] tables of factors and levels")
        return points
    if not all(isinstance(rule, Mapping) for rule in excluded):
        faults.append("`exclude` is wrong: write [[exclude]] tables of factors and levels")
        return points
    for rule in map(_flat, excluded):
        matching = [point for point in points if all(str(point.get(k)) == str(v) for k, v in rule.items())]
        if not matching or not rule:
            faults.append(f"[[exclude]] {rule} takes out no point: name factors and levels that occur together")
        points = [point for point in points if point not in matching]
    if not points and not faults:
        faults.append("every point is excluded, so there is nothing to run")
    return points


def _nearest(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f"; did you mean `{close[0]}`?" if close else ""
