"""The figures of a sweep as Parquet: one row per figure of a run, and one per window of a run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from servsim.files import atomic_writer
from servsim.registry import unit
from servsim.replication import figures
from servsim.sweep.job import Job
from servsim.sweep.store import Store
from servsim.sweep.study import Study

if TYPE_CHECKING:
    import pyarrow as pa


def write_tables(store: Store, study: Study, jobs: Sequence[Sequence[Job]]) -> None:
    """Write ``results.parquet`` and ``windows.parquet``, each whole or not at all.

    ``results`` has the columns run, replication, seed, one per factor, path, value, unit;
    ``windows`` run, replication, seed, one per factor, start_cycle, window_cycles, and one per counter.
    """
    import pyarrow.parquet as pq

    for name, table in (
        ("results.parquet", _results(store, study, jobs)),
        ("windows.parquet", _windows(store, study, jobs)),
    ):
        with atomic_writer(store.folder / name, "wb") as file:
            pq.write_table(table, file, compression="zstd")


def _head(study: Study, index: int, number: int, job: Job) -> dict[str, Any]:
    levels = {f"factor.{key}": str(value) for key, value in study.points[index].items()}
    return {"run": job.hash, "replication": number, "seed": job.inputs["options"]["seed"], **levels}


def _results(store: Store, study: Study, jobs: Sequence[Sequence[Job]]) -> "pa.Table":
    import pyarrow as pa

    rows = [
        {**_head(study, index, number, job), "path": path, "value": value, "unit": unit(path)}
        for index, point in enumerate(jobs)
        for number, job in enumerate(point)
        for path, value in figures(store.read(job)["replications"][0]).items()
    ]
    table = pa.Table.from_pylist(rows)
    for column in ("run", "path", "unit", *(f"factor.{key}" for key in study.factors)):
        place = table.schema.get_field_index(column)
        table = table.set_column(place, column, table.column(column).dictionary_encode())
    return table


def _windows(store: Store, study: Study, jobs: Sequence[Sequence[Job]]) -> "pa.Table":
    import pyarrow as pa

    rows = []
    for index, point in enumerate(jobs):
        for number, job in enumerate(point):
            replication = store.read(job)["replications"][0]
            for window in replication.get("timeline") or []:
                head = {**_head(study, index, number, job), "start_cycle": window["start"]}
                head["window_cycles"] = replication["window_cycles"]
                rows.append({**head, **{key: value for key, value in window.items() if key != "start"}})
    return pa.Table.from_pylist(rows)
