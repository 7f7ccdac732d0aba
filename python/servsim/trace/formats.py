"""Formats of traces: the registries of the Rust core, for help texts and for ``servsim trace formats``."""

import json
from typing import Any

from servsim import _core

#: Everything about every format, schema ``servsim.trace.formats/1``.
DOCUMENT: dict[str, Any] = json.loads(_core.trace_formats())

#: Names of the formats that are read.
READ: tuple[str, ...] = tuple(entry["name"] for entry in DOCUMENT["formats"])

#: Names of the formats that are written.
WRITTEN: tuple[str, ...] = tuple(entry["name"] for entry in DOCUMENT["formats"] if entry["written"])

#: Help of every ``--format`` that says what a trace is.
HELP = f"Format of the trace when its name does not say: {', '.join(READ)}."


def of_name(path_name: str) -> str | None:
    """Return the format that the end of a file's name tells, or None."""
    parts = path_name.lower().split(".")
    if parts[-1] in DOCUMENT["compressions"]:
        parts.pop()
    return next((entry["name"] for entry in DOCUMENT["formats"] if parts[-1] in entry["extensions"]), None)
