"""Traces by the names that callers give, and what captured ones say of themselves."""

import json
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.errors import UsageError
from servsim.text import require_utf8


def is_there(path: Path) -> bool:
    """Return whether there is a file or folder of a name, which may be none that a file can have."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def trace_file(name: str | Path) -> Path:
    """Return the path of a trace.

    Raises
    ------
    UsageError
        When there is nothing of that name, or results could not hold it.
    """
    path = Path(name)
    require_utf8(str(path))
    if not is_there(path):
        raise UsageError(f"there is no trace {str(name)!r}")
    return path


def captured_facts(trace: str | Path) -> dict[str, Any]:
    """Return what the tables of a captured trace say, schema ``servsim.trace.info/1``; its streams are not read.

    Raises
    ------
    UsageError
        When it is none, or cannot be read.
    """
    found: dict[str, Any] = json.loads(_core.trace_info(Path(trace)))
    return found
