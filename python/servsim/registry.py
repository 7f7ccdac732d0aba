"""The registry of figures: every number of a result by path, with unit and meaning, as the simulator states them.

Figures are computed, and counters counted, in the simulator; what is known of them stands there once. Here nothing
is added but wording: names without their underscores.
"""

import difflib
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from servsim import _core
from servsim.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """What is known of a number of a result.

    Attributes
    ----------
    path : str
        Its path; ``*`` stands for a number or for one of `parts`.
    unit, meaning : str
        ``1`` for shares and ratios; one sentence without a full stop.
    title : str or None
        What it is called where its path says too little.
    better : str or None
        ``lower`` or ``higher``, where designs can be judged by it.
    needs : tuple of str
        What every replication must have, and greater than zero, to tell it.
    summarised, counter, windowed, additive : bool
        Whether summaries describe it, whether it is a counter, whether windows of a run have it, and whether it is a
        counter that grows with what is run, so that it can be given per transaction.
    parts : tuple of str
        What the ``*`` stands for, where that is always the same.
    """

    path: str
    unit: str
    meaning: str
    title: str | None
    better: str | None
    needs: tuple[str, ...]
    summarised: bool
    counter: bool
    windowed: bool
    additive: bool
    parts: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The full paths that it stands for, as far as they are always the same."""
        return [self.path.replace("*", part) for part in self.parts] or [self.path]


def _read(fields: dict[str, Any]) -> Entry:
    return Entry(**{**fields, "needs": tuple(fields["needs"]), "parts": tuple(fields["parts"])})


@cache
def entries() -> tuple[Entry, ...]:
    """Return everything that is known, figures of summaries first."""
    return tuple(map(_read, json.loads(_core.figures())))


@cache
def entry(path: str) -> Entry | None:
    """Return what is known of the number with this full path, or None."""
    found = _core.figure(path)
    return None if found is None else _read(json.loads(found))


def counters(group: str = "") -> list[Entry]:
    """Return the counters of a part of a replication, such as ``tlb``; without it, all that it has once."""
    if group:
        return [known for known in entries() if known.counter and known.path.startswith(f"{group}.")]
    return [known for known in entries() if known.counter and ("*" not in known.path or known.parts)]


def parts(counter: str) -> dict[str, str]:
    """Return the parts of a counter without their total, each with its wording.

    Examples
    --------
    >>> parts("misses")["true_sharing"]
    'true sharing'
    """
    return {part: worded(part) for known in counters(counter) for part in known.parts if part != "total"}


def processor_times() -> list[str]:
    """Return the kinds of processor time, in the order of results: together all that passes.

    Examples
    --------
    >>> processor_times()[0], processor_times()[-1]
    ('busy_user', 'idle')
    """
    return [known.path.rpartition(".")[2] for known in counters("processors")]


def worded(name: str) -> str:
    """Return a name as a reader writes it."""
    return name.replace("_", " ")


def title(path: str) -> str:
    """Return what a figure is called in a sentence.

    Examples
    --------
    >>> title("cycles_per_transaction"), title("gsp"), title("misses.cold")
    ('cycles per transaction', 'global system power', 'misses (cold)')
    """
    known = entry(path)
    if known is not None and known.title is not None:
        return known.title
    head, *rest = map(worded, path.split("."))
    return f"{head} ({', '.join(rest)})" if rest else head


def unit(path: str) -> str:
    """Return the unit of a number by its path; ``count`` for one that is not known."""
    known = entry(path)
    return "count" if known is None else known.unit


def choose(path: str, purpose: str) -> Entry:
    """Return the entry of a figure that somebody asks for by its path.

    Raises
    ------
    UsageError
        When there is none of this path; ``purpose`` says for what it was wanted.
    """
    known = entry(path)
    if known is not None and "*" not in path:
        return known
    offered = [name for one in entries() if one.summarised for name in one.names if "*" not in name]
    if known is not None:
        offered = known.names if known.parts else offered
    near = difflib.get_close_matches(path, [*offered, *(n for one in entries() for n in one.names)], 1)
    hint = f"did you mean {near[0]!r}? " if near and "*" not in near[0] else ""
    raise UsageError(f"{purpose} {path!r}: {hint}choose one of {', '.join(offered)}, or see docs/reference/figures.md")


def explained(path: str) -> list[str]:
    """Return what a number means, or all those below a path, as `servsim explain` prints it."""
    known = entry(path)
    found = [(path, known)] if known else [(e.path, e) for e in entries() if e.path.startswith(f"{path}.")]
    return [_text(name, one) for name, one in found]


def _text(path: str, known: Entry) -> str:
    lines = [path, f"  meaning: {known.meaning}.", f"  unit: {known.unit}"]
    if known.parts and "*" in path:
        lines.append(f"  parts: {', '.join(known.parts)}")
    if known.better:
        lines.append(f"  better: {known.better}")
    where = "in the measured window of each replication" + (
        ", and in every window of the run" if known.windowed else ""
    )
    return "\n".join([*lines, f"  counted: {where}"])
