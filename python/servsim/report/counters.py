"""Counters as tables, straight from the registry: what is registered and recorded has its row, per transaction."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from servsim import registry
from servsim.report import figures
from servsim.report.format import mean
from servsim.report.tables import table
from servsim.result import Result

Called = Mapping[int, str]


def of_part(results: Sequence[Result], called: Called, part: str) -> Markup | None:
    """Return the counters of one part of the machine, such as ``tlb``, by their meaning; None without any."""
    known = [result for result in results if all(part in replication for replication in result.replications)]
    entries = [entry for entry in registry.counters(part) if entry.additive]
    if part_of_time := registry.entry(f"{part}.cycles"):
        entries.append(part_of_time)
    return _table(known, called, [(entry.meaning, entry.path) for entry in entries], "per transaction")


def every(results: Sequence[Result], called: Called) -> Markup | None:
    """Return all counters that a replication has once, by their paths; None when none is recorded."""
    names = [name for entry in registry.counters() if entry.additive for name in entry.names]
    return _table(results, called, [(f"{name}, {registry.unit(name)}", name) for name in names], "counter")


def _table(results: Sequence[Result], called: Called, wanted: Sequence[tuple[str, str]], head: str) -> Markup | None:
    """Return a row for each path that a result records, one column per result."""
    rows = []
    for label, path in wanted:
        cells = [figures.per_transaction_of_modes(result, *path.split(".")) for result in results]
        if any(cells):
            rows.append([label, *(mean(cell) for cell in cells)])
    return table([head, *(called[id(result)] for result in results)], rows) if rows else None
