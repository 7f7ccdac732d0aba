"""Histograms as tables for other programs: CSV for spreadsheets, Arrow for the rest."""

import csv as csv_text
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servsim.files import atomic_write, atomic_writer

#: Columns of the table, the pass first; addresses are numbers in Arrow and hexadecimal in CSV.
COLUMNS = ("node", "processor", "address", "count", "data", "virtual_address", "process", "offset")


def csv(watched: Mapping[str, Any], output: Path) -> int:
    """Write every counter of every pass as CSV, and return the number of rows."""
    text = io.StringIO()
    writer = csv_text.writer(text, lineterminator="\n")
    writer.writerow(["granularity_bytes", *COLUMNS])
    rows = 0
    for one in watched["passes"]:
        columns = [one["histogram"][name] for name in COLUMNS]
        for row in zip(*columns, strict=True):
            writer.writerow([one["granularity_bytes"], *("" if value is None else value for value in row)])
            rows += 1
    atomic_write(output, text.getvalue())
    return rows


def arrow(watched: Mapping[str, Any], output: Path) -> int:
    """Write every counter of every pass as an Arrow file, and return the number of rows."""
    import pyarrow as pa

    def numbers(values: list[Any]) -> list[int | None]:
        return [int(value, 16) if isinstance(value, str) else value for value in values]

    kinds = {name: pa.uint64() for name in ("address", "count", "virtual_address", "offset")}
    kinds |= {name: pa.uint32() for name in ("node", "processor", "process")}
    tables = []
    for one in watched["passes"]:
        histogram = one["histogram"]
        arrays = {
            name: pa.array(numbers(histogram[name]) if name in kinds else histogram[name], kinds.get(name, pa.string()))
            for name in COLUMNS
        }
        granularity = pa.array([one["granularity_bytes"]] * len(histogram["count"]), pa.uint32())
        tables.append(pa.table({"granularity_bytes": granularity, **arrays}))
    table = pa.concat_tables(tables)
    with atomic_writer(output, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return int(table.num_rows)
