"""Brock et al. (2001): a ccNUMA machine of four four-processor nodes, its probes and its tuned kernels.

Rows B1 to B3 and B8 run generated probes (Figures 5 to 7); B4 to B7 the six kernels, whose captured traces are given by
option (Figures 8 to 10, Tables 2 and 3); without a kernel's trace its parts are left out. Calibrated is one figure of
each machine, on a chase of pointers that no row judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from servsim import cache
from servsim.progress import Show
from servsim.reproduce.brock_2001 import kernels, printed, probes
from servsim.reproduce.report import Check, Report
from servsim.reproduce.rows import Row, made_until_interrupted

__all__ = ["SEVERAL_TRACES", "run"]

TITLE = "Brock et al. 2001: experience with building a commodity Intel-based ccNUMA system"

#: This study takes a trace of each kernel.
SEVERAL_TRACES = True

#: What is not rerun.
WEB = Row(
    "B9",
    "a web server on one node scales only from one to two processors; more nodes of fewer processors are better",
    "shape",
    False,
    (),
    "waits for a capture of a web server whose clients keep sixteen processors busy",
)


def run(quick: bool = False, traces: Sequence[Path] = (), say: Show = lambda *_: None) -> Report:
    """Rerun the study on probes, and on the kernels whose traces are given; ``quick`` makes one run of each."""
    folder = cache.folder("reproduce")
    measured = probes.Probes(folder, say)
    several = kernels.kernels(traces, quick, folder, say)
    parts = [*(partial(part, measured) for part in probes.PARTS), partial(kernels.rows, several)]
    notes = [
        f"Probes: threads bound to processors of one node, regions of {probes.REGION_KIB} KiB each, outer caches of "
        f"{probes.OUTER} in place of 1 MiB; nothing in them is random.",
    ]
    simulated, interrupted = made_until_interrupted(parts)
    rows = sorted([*simulated, WEB], key=lambda row: row.name)
    checks = [
        Check(f"{row.name}: {row.claim}", row.passed, row.parts[0].ours) for row in rows if row.hard and row.parts
    ]
    cells = [] if interrupted else kernels.cells(several)
    readings = kernels.READINGS if cells else {}
    return Report("brock-2001", TITLE, readings, cells, printed.findings(), checks, notes, rows, interrupted)
