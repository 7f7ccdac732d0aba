"""Tables 1 to 3: what the traces hold, per application and per workload, in blocks of 32 bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servsim import _core
from servsim.hashes import file_hash
from servsim.progress import expected_references, of_references
from servsim.reproduce.foglia_2004.tiers import Task, Workload
from servsim.reproduce.report import Cell
from servsim.reproduce.runs import Runs, kept

LINE = 32
#: Columns of Tables 2 and 3; Table 1 has the first five without the number of processes.
COLUMNS = ("processes", "blocks", "code", "data", "stores", "shared blocks", "shared data", "shared stores")
UNITS = ("", "blocks", "%", "%", "%", "blocks", "%", "%")

#: Table 1: one process each, so without what is shared.
UTILITIES: Mapping[str, tuple[float, ...]] = {
    "awk": (1, 9876, 76.23, 23.77, 8.83),
    "cp": (1, 5432, 77.21, 22.79, 8.88),
    "gzip": (1, 7123, 82.32, 17.68, 2.77),
    "rm": (1, 2655, 86.18, 13.82, 2.11),
    "ls": (1, 5860, 80.23, 19.77, 5.79),
}
APACHE = (13, 34311, 73.84, 26.16, 6.99, 1105, 1.84, 0.6)
#: Table 2: PostgreSQL alone on its machine, and beside Apache.
POSTGRES = {
    Workload.DATABASE: (21, 259023, 72.82, 27.18, 10.12, 10515, 2.27, 0.67),
    Workload.BOTH: (8, 24141, 71.94, 28.06, 9.89, 5838, 2.70, 0.79),
}
#: Table 3.
WORKLOADS = {
    Workload.BOTH: (26, 112183, 75.49, 24.51, 7.39, 6101, 1.68, 0.54),
    Workload.DATABASE: (26, 330279, 74.59, 25.41, 9.15, 10516, 1.77, 0.53),
    Workload.WEB: (26, 72550, 73.94, 26.06, 6.92, 1108, 1.54, 0.49),
}


@dataclass(frozen=True)
class _Line:
    """A line of a table: what the paper prints, and whose tasks are ours."""

    table: str
    name: str
    paper: Sequence[float]
    tasks: list[int]
    processes: int


def _lines(workload: Workload, tasks: Sequence[Task]) -> list[_Line]:
    """Return the lines that a workload has something for, the whole of it last."""
    measured = [(number, task) for number, task in enumerate(tasks) if not task["client"]]

    def line(table: str, name: str, paper: Sequence[float], of: str | None) -> _Line:
        chosen = [(number, task) for number, task in measured if of in (None, task["name"])]
        processes = {task["tgid"] for _, task in chosen if task["kind"] == "user"}
        return _Line(table, name, paper, [number for number, _ in chosen], len(processes))

    found = [line("1", f"{name}, {workload.value}", paper, name) for name, paper in UTILITIES.items()]
    if workload is not Workload.DATABASE:
        found.append(line("2", f"Apache, {workload.value}", APACHE, "apache2"))
    if workload in POSTGRES:
        found.append(line("2", f"PostgreSQL, {workload.value}", POSTGRES[workload], "postgres"))
    found.append(line("3", workload.value, WORKLOADS[workload], None))
    return [line for line in found if line.tasks]


def cells(made: Runs, workload: Workload, tasks: Sequence[Task]) -> list[Cell]:
    """Return the lines of Tables 1 to 3 that a trace has something for; nothing is fitted, so nothing is judged.

    Walking the trace takes minutes, so what it found is kept where its runs are.
    """
    lines = _lines(workload, tasks)
    groups = [line.tasks for line in lines]
    what = f"Tables 1 to 3 of {made.trace.name}"
    made.say(what, 0.0)
    inputs = {"footprints": groups, "trace": file_hash(made.trace), "line": LINE}

    def walk() -> Any:
        told = of_references(made.say, what, expected_references(made.trace, transactions="all"))
        return json.loads(_core.trace_footprints(made.trace, LINE, groups, told))

    found = kept(made.folder, inputs, walk)
    return [
        Cell(line.table, line.name, column, unit, paper, {"ours": ours}, "shown")
        for line, footprint in zip(lines, found, strict=True)
        for column, unit, paper, ours in zip(COLUMNS, UNITS, line.paper, _figures(line, footprint), strict=False)
    ]


def _figures(line: _Line, found: Mapping[str, Any]) -> list[float]:
    data = found["loads"] + found["stores"]
    all_references = max(1, found["fetches"] + data)

    def share(count: int) -> float:
        return float(100 * count / all_references)

    return [
        line.processes,
        found["blocks"],
        share(found["fetches"]),
        share(data),
        share(found["stores"]),
        found["shared_blocks"],
        share(found["shared_accesses"]),
        share(found["shared_stores"]),
    ]
