"""Rows of a study that is rerun by simulation: a claim, its figures beside ours, a computed verdict.

A row is `reproduced` when all its parts hold, `missed` when one does not, `waiting` when it needs
something that is not there yet. A row that only combines figures that the paper prints says nothing of a
system: it is `not measured`, or `contradicted` when those figures disagree. Only hard rows decide the
exit code: tolerances of the others apply to a calibrated workload, and ours is not the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from servsim.report.format import SPACE, mean
from servsim.statistics.intervals import Estimate, estimate


@dataclass(frozen=True)
class Part:
    """One figure or one comparison of a row.

    Attributes
    ----------
    what : str
        What is compared.
    paper, ours : str
        Both sides in words, ours with its interval.
    holds : bool
        Whether ours is as the paper says, within the tolerance.
    """

    what: str
    paper: str
    ours: str
    holds: bool


@dataclass(frozen=True)
class Row:
    """A row of the table of results to reproduce.

    Attributes
    ----------
    name : str
        For example ``F1``.
    claim : str
        What the paper says.
    tolerance : str
        What is accepted.
    hard : bool
        Whether missing it fails the command.
    parts : tuple of Part
        What was checked; empty for a row that waits.
    explanation : str
        Why a missed row was missed, from counters; what a waiting one waits for.
    measured : bool
        Whether anything was simulated, solved or measured for it; without that only printed figures are
        compared with one another.
    """

    name: str
    claim: str
    tolerance: str
    hard: bool
    parts: tuple[Part, ...]
    explanation: str = ""
    measured: bool = True

    @property
    def verdict(self) -> str:
        """`reproduced`, `missed` or `waiting`; without a measurement `not measured` or `contradicted`."""
        if not self.parts:
            return "waiting"
        good, bad = ("reproduced", "missed") if self.measured else ("not measured", "contradicted")
        return good if all(part.holds for part in self.parts) else bad

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against it."""
        return bool(self.parts) and all(part.holds for part in self.parts)


def within(
    what: str, paper: float, values: Sequence[float], *, share: float = 0.0, absolute: float = 0.0, unit: str = ""
) -> Part:
    """Compare the mean of our runs with a printed figure.

    Parameters
    ----------
    what : str
        What is compared.
    paper : float
        The printed figure, in ``unit``.
    values : sequence of float
        One figure per run.
    share, absolute : float
        Accepted distance of our mean: a share of the printed figure, or in its unit; the wider counts.
    """
    known = estimate(list(values))
    accepted = max(share * abs(paper), absolute)
    holds = abs(known.mean - paper) <= accepted
    return Part(what, f"{paper:g}{SPACE * bool(unit)}{unit}", shown(known, unit), holds)


def shown(known: Estimate, unit: str = "") -> str:
    """Write an estimate with its interval and the number of runs."""
    return f"{mean(known, unit)}, n{SPACE}={SPACE}{known.n}" if known.n > 1 else mean(known, unit)


def ordered(what: str, less: Sequence[float], more: Sequence[float], names: tuple[str, str]) -> Part:
    """Check that the second figure is greater than the first, over paired runs, beyond chance.

    It holds only if the 95 % interval of the paired difference lies above zero; an interval that
    holds zero proves nothing and does not pass.
    """
    gap = estimate([b - a for a, b in zip(less, more, strict=True)])
    a, b = estimate(list(less)), estimate(list(more))
    proven = gap.low is not None and gap.low > 0
    state = "" if proven else (" (not proven)" if gap.high is None or gap.high >= 0 else " (the reverse is proven)")
    return Part(what, f"{names[1]} > {names[0]}", f"{mean(b)} against {mean(a)}{state}", proven)


def made_until_interrupted(parts: Iterable[Callable[[], Iterable[Row]]]) -> tuple[list[Row], bool]:
    """Make rows part by part; an interruption keeps those that are made.

    Returns
    -------
    list of Row, bool
        The rows, and whether it was interrupted.

    Raises
    ------
    KeyboardInterrupt
        When no row was made before it.
    """
    rows: list[Row] = []
    try:
        for part in parts:
            rows += part()
    except KeyboardInterrupt:
        if not rows:
            raise
        return rows, True
    return rows, False


def _side(row: Row) -> str:
    """Name the other side of a comparison: our figure, or what the printed figures amount to."""
    return "ours" if row.measured else "from its own figures"


def plain(text: str) -> str:
    """Write a text without the special spaces of the report, for a terminal."""
    return text.replace(SPACE, " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def render(rows: Sequence[Row]) -> list[str]:
    """Return the rows as lines of text."""
    lines = []
    for row in rows:
        kind = "hard" if row.hard else row.tolerance
        lines.append(f"  {row.name:4} {row.verdict:12} {row.claim} [{kind}]")
        lines += [
            f"         {'+' if part.holds else '-'} {part.what}: paper {part.paper}; {_side(row)} {part.ours}"
            for part in row.parts
        ]
        if row.explanation:
            lines.append(f"         {row.explanation}")
    return [plain(line) for line in lines]
