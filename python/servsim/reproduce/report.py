"""What rerunning a published study yields: cells, findings about the paper itself, hard checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from servsim.reproduce.rows import Row, plain, render
from servsim.text import columns


@dataclass(frozen=True)
class Cell:
    """One printed figure beside ours.

    Attributes
    ----------
    table, row, column : str
        Where it stands in the paper.
    unit : str
        Unit of ``paper`` and ``ours``.
    paper : float
        As printed.
    ours : dict of str to float
        Our figure under each reading.
    verdict : str
        ``calibrated`` (used as input, proves nothing), ``reproduced``, ``missed``, ``contradicted``
        (it breaks a law as printed) or ``conflicting`` (it cannot hold together with other printed
        cells); ``findings`` names the rules.
    findings : tuple of str
        Rules that this cell breaks.
    """

    table: str
    row: str
    column: str
    unit: str
    paper: float
    ours: dict[str, float]
    verdict: str
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A contradiction within the paper, or a remark, with the tables and cells concerned."""

    rule: str
    tables: tuple[str, ...]
    message: str
    cells: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Check:
    """A row that must hold; the command fails when one does not."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Report:
    """Everything one study prints."""

    study: str
    title: str
    readings: dict[str, str]
    cells: list[Cell]
    findings: list[Finding]
    checks: list[Check]
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

    @property
    def passed(self) -> bool:
        """True when every hard check holds."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready data (schema ``servsim.reproduce/1``)."""
        rows = [{**asdict(row), "verdict": row.verdict} for row in self.rows]
        return {"schema": "servsim.reproduce/1", "passed": self.passed, **asdict(self), "rows": rows}

    def render(self) -> str:
        """Return the report as plain text."""
        lines = [self.title, ""]
        lines += [f"  {name}: {meaning}" for name, meaning in self.readings.items()]
        for table in dict.fromkeys(cell.table for cell in self.cells):
            lines += ["", f"Table {table}"]
            lines += _table([cell for cell in self.cells if cell.table == table], list(self.readings))
        lines += render(self.rows)
        if self.findings:
            lines += ["", "What the printed figures say about one another"]
            lines += [f"  [{f.rule}] {f.message}" for f in self.findings]
        lines += ["", "Remarks"] + [f"  {plain(note)}" for note in self.notes]
        lines += ["", "Checks"]
        lines += [f"  {'held  ' if c.passed else 'MISSED'} {c.name}: {c.detail}" for c in self.checks]
        return "\n".join(lines) + "\n"


def _table(cells: list[Cell], readings: list[str]) -> Iterable[str]:
    """Return one line per cell, columns aligned."""
    header = ["row", "column", "paper", *readings, "unit", "verdict"]
    rows = [
        [
            cell.row,
            cell.column,
            f"{cell.paper:.1f}",
            *(f"{cell.ours[r]:.2f}" if r in cell.ours else "-" for r in readings),
            cell.unit,
            cell.verdict + (f" ({', '.join(cell.findings)})" if cell.findings else ""),
        ]
        for cell in cells
    ]
    for line in columns([header, *rows], left=len(header)):
        yield f"  {line}"
