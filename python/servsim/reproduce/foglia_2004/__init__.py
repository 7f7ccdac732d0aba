"""Foglia, Giorgi and Prete (2004): SMP memory performance of a TPC-W server.

The paper runs TPC-W on Apache and PostgreSQL. On traces of that (``servsim capture ecommerce``) all rows and Tables 1
to 3 are made; on another, such as the shipped one of a database under TPC-C-derived load, those of sections 5.1
and 5.2, to see where the workloads differ. Nothing is fitted: machine and bus are those of Table 4. Row numbers and
tolerances were fixed before anything was run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from servsim.errors import UsageError
from servsim.progress import Show
from servsim.reproduce.foglia_2004 import caches, protocols, tables
from servsim.reproduce.foglia_2004.study import QUICK_SIZES, Study
from servsim.reproduce.foglia_2004.tiers import Workload, tasks_of, workload_of
from servsim.reproduce.report import Check, Report
from servsim.reproduce.rows import Row, made_until_interrupted
from servsim.reproduce.runs import Runs, runs

__all__ = ["QUICK_SIZES", "run"]

TITLE = "Foglia, Giorgi & Prete 2004: memory performance of SMPs"

#: A trace of each workload may be given.
SEVERAL_TRACES = True
#: Runs and their length may be given.
SIZED = True

#: Runs per configuration, in full and quick; and the most transactions of a quick run.
RUNS, QUICK = 20, (5, 24)
#: Runs of the paper's own workload when quick.
QUICK_SHOP = 3
#: References that each measures: with those of its warm-up as many as the paper's.
REFERENCES = 65_000_000
#: Configurations of the first trace, in full and quick, to tell how far a study is.
CONFIGURATIONS = {False: 121, True: 51}
#: Browsers run on workstations of their own (section 3).
SETTINGS = ("clients.place=elsewhere",)


def run(
    quick: bool = False,
    traces: Sequence[Path] = (),
    say: Show = lambda *_: None,
    count: int | None = None,
    references: int | None = None,
) -> Report:
    """Rerun the study; ``quick`` makes fewer runs, and interpolates critical points between steps.

    Rows F1 to F17 and F19 are made of the first trace; F18 wants one of each of the paper's workloads. ``count`` runs
    of each configuration are made, and each measures so many ``references`` behind as many of warm-up, where these are
    given or the workload is the paper's: an interaction makes millions of references, and 26 processes are in the
    middle of one, so that whole ones would be measured either very long or hardly at all.
    """
    main, workloads = _made(traces, quick, say, count, references)
    study = Study(main, quick, workloads)
    cells = [
        cell for workload, made in workloads.items() for cell in tables.cells(made, workload, tasks_of(made.trace))
    ]
    parts = (*caches.PARTS, *protocols.PARTS)
    rows, interrupted = made_until_interrupted(partial(part, study) for part in parts)
    checks = [Check(f"{row.name}: {row.claim}", row.passed, _failed(row)) for row in rows if row.hard and row.parts]
    counts = {v: sum(row.verdict == v for row in rows) for v in ("reproduced", "missed", "waiting")}
    notes = [
        *dict.fromkeys(made.note() for made in (main, *workloads.values())),
        "Rows: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()) + ".",
        "The paper's tolerances hold for its workload (26 ready processes, warm caches); nothing was fitted to a row.",
        "The source contradicts itself: bus 35 % in the text and 38 % in Table 5; critical point 14 (128 B, affinity) "
        "below 18 (256 B, random) although its GSP is higher.",
    ]
    readings = {"ours": "the traces, kernel included, without the load generator"} if cells else {}
    return Report("foglia-2004", TITLE, readings, cells, [], checks, notes, rows, interrupted)


def _made(
    traces: Sequence[Path], quick: bool, say: Show, count: int | None, references: int | None
) -> tuple[Runs, dict[Workload, Runs]]:
    """Prepare the runs on the first trace, and on those of each workload."""
    found: dict[Workload, Runs] = {}
    made = []
    for path in traces or (None,):
        workload = None if path is None else workload_of(tasks_of(path))
        usual, most = QUICK if quick else (RUNS, None)
        length = references
        if workload:
            usual, length = QUICK_SHOP if quick else RUNS, references or REFERENCES
        made.append(runs(path, count or usual, say, most, length, SETTINGS, cut=True))
        if workload in found or (len(traces) > 1 and workload is None):
            what = f"a second one of {workload.value}" if workload else "of no web server with its database"
            raise UsageError(f"the trace {path} is {what}; give one each of {', '.join(w.value for w in Workload)}")
        if workload:
            found[workload] = made[-1]
    made[0].expected = CONFIGURATIONS[quick]
    return made[0], found


def _failed(row: Row) -> str:
    missed = [part.what for part in row.parts if not part.holds]
    return f"{len(row.parts) - len(missed)} of {len(row.parts)} parts hold" + (f"; not {missed[0]}" if missed else "")
