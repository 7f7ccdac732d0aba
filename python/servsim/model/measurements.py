"""Measurements as spreadsheets and monitors export them: a CSV file with one row per interval of time.

Columns are named ``throughput`` (or ``throughput CLASS`` for several classes, per second), ``utilization STATION`` (a
share of one, or with a per cent sign in the value), and ``response`` (seconds) if it was measured; ``time`` and columns
whose name begins with ``#`` are passed over.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servsim.documents import text_of
from servsim.errors import UsageError

WANTED = "throughput, `throughput CLASS`, `utilization STATION`, response, time, or a name that begins with #"


def csv_measurements(path: str | Path, servers: Mapping[str, int] | None = None) -> str:
    """Return the JSON description of the measurements in a CSV file, as :func:`servsim.model.fit` takes it.

    Parameters
    ----------
    path : str or Path
        The file.
    servers : mapping of str to int, optional
        Servers by station, 1 by default.

    Raises
    ------
    UsageError
        For a column or a value that is not understood: the line and the column are named.
    """
    rows = list(csv.reader(text_of(path).splitlines()))
    if len(rows) < 2:
        raise UsageError(f"{path} has no measurements; give a line of names and one line per interval")
    names = [name.strip() for name in rows[0]]
    classes: dict[str, int] = {}
    stations: dict[str, int] = {}
    response = None
    for at, name in enumerate(names):
        kind, _, of = name.partition(" ")
        kind, of = kind.lower(), of.strip()
        if kind == "throughput":
            _add(path, classes, of or "requests", at)
        elif kind in ("utilization", "utilisation") and of:
            _add(path, stations, of, at)
        elif name.lower() == "response":
            response = at
        elif name and name.lower() != "time" and not name.startswith("#"):
            raise UsageError(f"{path}, line 1: column {name!r} is not understood; name it {WANTED}")
    if not classes or not stations:
        missing = "`throughput`" if not classes else "`utilization STATION`"
        raise UsageError(f"{path}, line 1: there is no column {missing}; add one to estimate demands from")
    samples = []
    for line, row in enumerate(rows[1:], start=2):
        if not any(value.strip() for value in row):
            continue
        if len(row) != len(names):
            raise UsageError(f"{path}, line {line}: {len(row)} values for {len(names)} columns; give one for each")

        def value(at: int, line: int = line, row: list[str] = row) -> float:
            return _number(path, line, names[at], row[at])

        sample: dict[str, Any] = {
            "throughput": [value(at) for at in classes.values()],
            "utilization": [value(at) for at in stations.values()],
        }
        if response is not None and row[response].strip():
            sample["response"] = value(response)
        samples.append(sample)
    count = [(servers or {}).get(name, 1) for name in stations]
    return json.dumps({"classes": list(classes), "stations": list(stations), "servers": count, "sample": samples})


def _add(path: str | Path, columns: dict[str, int], name: str, at: int) -> None:
    """Remember a column, unless another has its name."""
    if name in columns:
        raise UsageError(f"{path}, line 1: two columns are about {name!r}; rename or remove one")
    columns[name] = at


def _number(path: str | Path, line: int, name: str, text: str) -> float:
    """Return a number, or a share from a percentage."""
    plain = text.strip()
    try:
        number = float(plain.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{path}, line {line}, column {name!r}: {text!r} is no number; correct it or remove the line")
    return number / 100.0 if plain.endswith("%") else number
