"""What the terminal can show: colour only where it is wanted, and no control characters of others."""

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from servsim.text import printable

COLOURS = {"good": "32", "warning": "33", "bad": "31", "dim": "2"}


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Colour a text for a stream (stdout by default), unless it is no terminal or ``NO_COLOR`` is set."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


def say(message: str) -> None:
    """Write a message for a person to stderr."""
    print(printable(message), file=sys.stderr, flush=True)


def warn(warnings: Iterable[object]) -> None:
    """Write warnings to stderr, each once and in their order."""
    for warning in dict.fromkeys(map(str, warnings)):
        say(f"servsim: warning: {warning}")
