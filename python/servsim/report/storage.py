"""The disks and I/O buses of a result: how busy, how long requests waited, and whose data they moved."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from servsim import registry
from servsim.report.charts.svg import tag
from servsim.report.format import mean
from servsim.report.tables import table
from servsim.result import Result

#: Rows of what was asked for that are shown.
_MOST = 20


def has_storage(result: Result) -> bool:
    """Say whether the result tells its disks apart."""
    return all(isinstance(r.get("storage"), Mapping) for r in result.replications)


def storage(result: Result) -> Markup:
    """Return the tables of disks, buses and what was asked for."""
    found = [dict(r["storage"]) for r in result.replications]
    parts = [_stations(result, found, "disks", "disk")]
    if found[0]["buses"]:
        parts.append(_stations(result, found, "buses", "I/O bus"))
    parts.append(_accesses(result, found))
    return tag("div", *parts)


def columns(key: str) -> list[tuple[str, str, str]]:
    """Return the columns of disks or buses: heading, member, and whether it is a share, a time or a number."""
    found = []
    for known in registry.entries():
        group, _, member = known.path.rpartition(".*.")
        if group == f"storage.{key}" and member.startswith(("utilization", "mean_")):
            kind = {"1": "share", "cycles": "time"}.get(known.unit, "number")
            name = registry.worded(member.removeprefix("mean_").removesuffix("_cycles"))
            found.append((f"{known.unit} {name}" if kind == "number" else name, member, kind))
    return found


def _stations(result: Result, found: Sequence[Mapping[str, Any]], key: str, name: str) -> Markup:
    rows = []
    shown = columns(key)
    for index, station in enumerate(found[0][key]):
        label = f"{index + 1}"
        if key == "disks" and station["bus"] is not None:
            label += f" (bus {station['bus']})"
        cells = [_cell(result, [f[key][index][member] for f in found], kind) for _, member, kind in shown]
        rows.append([label, *cells])
    unit = "ms" if result.clock_hertz else "cycles"
    headings = (f"{heading}, {unit}" if kind == "time" else heading for heading, _, kind in shown)
    return table([name, *headings], rows)


def _cell(result: Result, values: Sequence[float | None], kind: str) -> str:
    if all(value is None for value in values):
        return "no request"
    clock = result.clock_hertz
    factor = {"share": 100.0, "number": 1.0}.get(kind, 1e3 / clock if clock else 1.0)
    known = result.known([None if value is None else value * factor for value in values])
    return mean(known, "%") if kind == "share" else mean(known)


def _accesses(result: Result, found: Sequence[Mapping[str, Any]]) -> Markup:
    """Return reads and writes by relation or file, most first."""
    counts: dict[str, list[list[int]]] = {}
    for index, replication in enumerate(found):
        for row in replication["accesses"]:
            column = counts.setdefault(row["name"], [[0, 0] for _ in found])
            column[index] = [row["reads"], row["writes"]]
    order = sorted(counts, key=lambda name: -sum(sum(pair) for pair in counts[name]))[:_MOST]
    rows = [
        [name, *(mean(result.known([float(pair[way]) for pair in counts[name]])) for way in (0, 1))] for name in order
    ]
    return table(["requests for", "reads", "writes"], rows) if rows else Markup("")
