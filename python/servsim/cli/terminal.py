"""What the terminal can show: colour only where it is wanted, progress only where it is seen."""

import os
import sys
import time
from typing import TextIO

COLOURS = {"good": "32", "warning": "33", "bad": "31", "dim": "2"}


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Colour a text for a stream (stdout by default), unless it is no terminal or ``NO_COLOR`` is set."""
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


def say(message: str) -> None:
    """Write a message for a person to stderr."""
    print(message, file=sys.stderr, flush=True)


class Progress:
    """Shows what is being done on one line of a terminal's stderr; silent elsewhere.

    Called with what is being done and, when known, the fraction done (0 to 1). Used as a context
    manager it leaves a clean line behind.
    """

    #: Seconds between two updates; a faster caller costs nothing.
    PAUSE = 0.1

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._last = 0.0

    def __call__(self, what: str, fraction: float | None = None) -> None:
        """Show the present state."""
        now = time.monotonic()
        if not self._shown or now - self._last < self.PAUSE:
            return
        self._last = now
        share = "" if fraction is None else f" {100 * min(1.0, max(0.0, fraction)):3.0f} %"
        print(f"\r\x1b[K{what}{share}", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
