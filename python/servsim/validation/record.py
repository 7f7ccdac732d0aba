"""The record of native runs: a file that keeps them, so that predictions can be made again without them."""

from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from servsim.documents import read_json
from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.json_text import json_text
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
        atomic_write(path, json_text(document))


def read(path: Path) -> Record:
    """Read a record.

    Raises
    ------
    UsageError
        When the file is none.
    """
    try:
        document = read_json(path.read_bytes())
        if isinstance(document, dict) and document.get("schema", SCHEMA) != SCHEMA:
            raise UsageError(f"{path} holds {document['schema']}, not {SCHEMA}: name another file")
        return TypeAdapter(Record).validate_python(document)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        what = f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
    except (OSError, ValueError) as error:
        what = str(error)
    raise UsageError(f"{path} is no record of native runs ({what}): remove it, and it is measured anew")
