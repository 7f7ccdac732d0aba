"""Counters per window: one column per counter, one row per window of every replication."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.files import atomic_writer

#: What a window must tell to be drawn.
_NEEDED = ("references", "instructions", "misses", "bus_busy", "busy", "transactions")


def windows(replication: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the windows of a replication as columns of equal length.

    Returns
    -------
    dict of str to list
        ``start_cycle`` and ``window_cycles`` (cycles from the start of the measurement), then one
        column per counter: counts, and cycles where the name says time (``busy``, ``memory_stall``).

    Raises
    ------
    UsageError
        When the replication has no timeline, as those of the functional engine.
    """
    timeline = replication.get("timeline")
    if not timeline:
        seed = replication.get("seed")
        raise UsageError(
            "this replication has no timeline: of many the windows of the first are kept (simulate with "
            f"`--seed {seed} --replications 1` to make this one again, with them), its window may be too short, or "
            "the functional engine made it (repeat it with --engine timing)"
        )
    lacking = [key for key in _NEEDED if any(key not in window for window in timeline)]
    lacking += [key for key in ("window_cycles", "seed") if not isinstance(replication.get(key), int)]
    if lacking:
        raise UsageError(f"this result does not record {', '.join(lacking)} along the run: simulate again")
    length = replication["window_cycles"]
    columns: dict[str, list[float]] = {"start_cycle": [w["start"] for w in timeline]}
    columns["window_cycles"] = [length] * len(timeline)
    columns |= {key: [w[key] for w in timeline] for key in timeline[0] if key != "start"}
    return columns | {name: list(values) for name, values in (replication.get("windows") or {}).items()}


def parquet(replications: Sequence[Mapping[str, Any]], output: Path) -> int:
    """Write the windows of the replications that have some as Parquet, and return the number of rows.

    Columns: ``replication`` and ``seed``, then those of `windows`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kept = [(number, one) for number, one in enumerate(replications) if one.get("timeline")]
    tables = []
    for number, replication in kept or [(0, replications[0])]:
        columns = windows(replication)
        count = len(columns["start_cycle"])
        tables.append(pa.table({"replication": [number] * count, "seed": [replication["seed"]] * count, **columns}))
    fields = [set(table.schema) for table in tables]
    if unlike := {field.name for field in set.union(*fields) - set.intersection(*fields)}:
        raise UsageError(
            f"replications of this result do not record {', '.join(sorted(unlike))} alike along the run: simulate again"
        )
    table = pa.concat_tables(tables)
    with atomic_writer(output, "wb") as file:
        pq.write_table(table, file, compression="zstd")
    return int(table.num_rows)
