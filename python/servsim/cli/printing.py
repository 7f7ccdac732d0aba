"""Where the document of a command goes: onto stdout, into a file, or neither, when people want to read it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from servsim.files import atomic_write
from servsim.json_text import json_text


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document."""
    print(json_text(document), end="")


def deliver(
    document: Mapping[str, Any],
    as_json: bool,
    for_people: Callable[[], str] | None = None,
    output: Path | None = None,
) -> None:
    """Write a document into a file, if one is named, and print it, or else what people read of it, if anything."""
    text = json_text(document) if as_json or output is not None else ""
    if output is not None:
        atomic_write(output, text)
    if as_json:
        print(text, end="")
    elif for_people is not None:
        print(for_people())
