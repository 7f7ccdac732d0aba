"""Brock et al. (2001): a ccNUMA machine of four four-processor nodes, its probes and its tuned kernels.

Rows B1 to B3 and B8 run generated probes (Figures 5 to 7); B4 to B7 the six kernels, whose captured traces are given
by option (Figures 8 to 10, Tables 2 and 3), and B9 a web server (Figures 11 and 12), whose trace is given so too;
without a trace its parts are left out. Calibrated is one figure of each machine, on a chase that no row judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from servsim import cache
from servsim.errors import UsageError
from servsim.progress import Show
from servsim.reproduce.brock_2001 import kernels, printed, probes, web
from servsim.reproduce.report import Check, Report
from servsim.reproduce.rows import Row, made_until_interrupted

__all__ = ["SEVERAL_TRACES", "run"]

TITLE = "Brock et al. 2001: experience with building a commodity Intel-based ccNUMA system"

#: This study takes a trace of each kernel, and one of a web server.
SEVERAL_TRACES = True


def run(quick: bool = False, traces: Sequence[Path] = (), say: Show = lambda *_: None) -> Report:
    """Rerun the study on probes, and on the kernels and the web server whose traces are given.

    ``quick`` makes one run of each.

    Raises
    ------
    UsageError
        When a trace is of neither, or there are several web servers.
    """
    folder = cache.folder("reproduce")
    measured = probes.Probes(folder, say)
    servers = [trace for trace in traces if web.is_web(trace)]
    if len(servers) > 1:
        raise UsageError(f"brock-2001 runs one web server, and {len(servers)} were given: give one of them")
    several = kernels.kernels([trace for trace in traces if trace not in servers], quick, folder, say)
    served = web.web(servers[0], quick, say) if servers else None
    parts: list[Callable[[], Iterable[Row]]] = [
        *(partial(part, measured) for part in probes.PARTS),
        partial(kernels.rows, several),
        lambda: [web.row(served)],
    ]
    notes = [
        f"Probes: threads bound to processors of one node, regions of {probes.REGION_KIB} KiB each, outer caches of "
        f"{probes.OUTER} in place of 1 MiB; nothing in them is random.",
    ]
    simulated, interrupted = made_until_interrupted(parts)
    rows = sorted(simulated, key=lambda row: row.name)
    checks = [
        Check(f"{row.name}: {row.claim}", row.passed, row.parts[0].ours) for row in rows if row.hard and row.parts
    ]
    cells = [] if interrupted else kernels.cells(several)
    readings = kernels.READINGS if cells else {}
    return Report("brock-2001", TITLE, readings, cells, printed.findings(), checks, notes, rows, interrupted)
