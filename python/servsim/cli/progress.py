"""How far a command is: one line that changes on a terminal, and a line now and then in a log.

Commands say what they are doing and, when it is known, the share done; the time left follows from the pace so far.
A quick command stays silent off a terminal, and no caller has to be slow to be seen: the line is drawn anew while
nothing is said. Everything goes to stderr.
"""

import sys
import threading
import time
from collections.abc import Callable

from servsim.text import printable

#: Seconds between two drawings of the line on a terminal.
PAUSE = 0.2
#: Seconds before the first line off a terminal, and between two of them.
QUIET, EVERY = 10.0, 30.0
#: Below this share, or before so many seconds, the pace says little about the time left.
LEAST_SHARE, LEAST_SECONDS = 0.02, 2.0


def duration(seconds: float) -> str:
    """Write a length of time for people: the two largest units that matter.

    Examples
    --------
    >>> duration(7.4), duration(95), duration(4000)
    ('7 s', '1 min 35 s', '1 h 6 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress:
    """Shows on stderr what is being done, the share done and the time left; a context manager.

    Called with what is being done and, when known, the fraction done (0 to 1). Entering it starts the drawing, leaving
    it leaves a clean line behind.

    Parameters
    ----------
    clock
        Seconds that only grow; tests put their own here.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._terminal = sys.stderr.isatty()
        self._began = self._drawn = clock()
        self._what, self._stage = "", ""
        self._fraction: float | None = None
        #: When the present stage began and the share it began with: a sweep goes on from what is kept.
        self._from: tuple[float, float] = (self._began, 0.0)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._said_something = False

    def __call__(self, what: str, fraction: float | None = None) -> None:
        """Say what is being done now."""
        with self._lock:
            share = None if fraction is None else min(1.0, max(0.0, fraction))
            fresh = share is not None and (self._fraction is None or share < self._fraction)
            if fresh and share is not None:
                self._from = (self._clock(), share)
            self._what, self._fraction = what, share
        self._draw()

    def tell(self, line: str, fraction: float | None = None) -> None:
        """Print a line that stays; or, with the fraction done, say what is being done now."""
        if fraction is None:
            self.note(line)
        else:
            self(line, fraction)

    def note(self, sentence: str) -> None:
        """Print a sentence that stays."""
        with self._lock:
            self._wipe()
            print(printable(sentence), file=sys.stderr, flush=True)

    def line(self) -> str:
        """Return the present line."""
        now = self._clock()
        text = self._what
        if self._fraction is None:
            return f"{text}, {duration(now - self._began)} so far"
        began, first = self._from
        gained, passed = self._fraction - first, now - began
        text += f", {100 * self._fraction:.0f} %"
        if gained >= LEAST_SHARE and passed >= LEAST_SECONDS and self._fraction < 1:
            text += f", about {duration(passed * (1 - self._fraction) / gained)} left"
        return text

    def _draw(self) -> None:
        with self._lock:
            now = self._clock()
            pause = PAUSE if self._terminal else (EVERY if self._said_something else QUIET)
            if not self._what or now - self._drawn < pause:
                return
            self._drawn, self._said_something = now, True
            text = printable(self.line())
            if self._terminal:
                print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            else:
                print(f"servsim: {text}", file=sys.stderr, flush=True)

    def _wipe(self) -> None:
        if self._terminal and self._said_something:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _keep_drawing(self) -> None:
        while not self._ended.wait(1.0):
            self._draw()

    def __enter__(self) -> "Progress":
        threading.Thread(target=self._keep_drawing, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with self._lock:
            self._wipe()
            self._what = ""
