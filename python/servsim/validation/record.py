"""The record of native runs: a file that keeps them, so that predictions can be made again without them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.validation.host import Host
from servsim.validation.native import NativeRun

SCHEMA = "servsim.validate.native/1"


@dataclass(frozen=True)
class Record:
    """What was measured natively: the host, the runs of the configurations, and the long runs of the base."""

    host: Host
    runs: list[NativeRun]
    long: list[NativeRun]

    def write(self, path: Path) -> None:
        """Write it as JSON, whole or not at all."""
        document = {"schema": SCHEMA, **asdict(self)}
        atomic_write(path, json.dumps(document, indent=1) + "\n")


def read(path: Path) -> Record:
    """Read a record.

    Raises
    ------
    UsageError
        When the file is none.
    """
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path} holds {document['schema']}, not {SCHEMA}")
        # JSON has no tuples.
        host: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document["host"].items()
        }
        runs, long = ([NativeRun(**run) for run in document[key]] for key in ("runs", "long"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no record of native runs ({error}): remove it, and it is measured anew") from error
    return Record(Host(**host), runs, long)
