"""Thornock, Tu & Flanagan (1997): tables of service times drawn from a disk trace.

Table 1, the models of sections 3.1 and 3.2 with their errors, the capture of section 2.2 and the move of
section 4, on two traces of our own: the disk of a busy server and a benchmark run. The paper's traces are
no longer to be had; its printed sums are checked exactly, its errors are put beside ours.
"""

from __future__ import annotations

from pathlib import Path

from servsim.progress import Show
from servsim.reproduce.report import Check, Report
from servsim.reproduce.thornock_1997.rows import claims, cross_checks
from servsim.reproduce.thornock_1997.traces import both

TITLE = "Thornock, Tu & Flanagan 1997: a stochastic disk I/O simulation technique"


def run(quick: bool = False, trace: Path | None = None, say: Show = lambda *_: None) -> Report:
    """Rerun the study: on ``trace`` (a guest's ``.svt`` or any block trace) as the server, if given."""
    seeds = 3 if quick else 10
    with both(trace) as measured:
        rows, notes = cross_checks()
        more, remarks = claims(measured, seeds, say)
    rows += more
    checks = [
        Check(f"{row.name}: {row.claim}", row.passed, "; ".join(part.ours for part in row.parts))
        for row in rows
        if row.hard and row.parts
    ]
    return Report("thornock-1997", TITLE, {}, [], [], checks, [*notes, *remarks], rows)
