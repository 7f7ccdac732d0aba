"""Commands that scripts run for long, each with its whole process group."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: Seconds between two times that somebody hears how long a command has taken so far.
PAUSE = 1.0


def run(
    command: str,
    root: Path,
    stdout: IO[str],
    stderr: IO[str] | int | None = None,
    *,
    meanwhile: Callable[[float], None] = lambda minutes: None,
) -> int:
    """Run a shell command in folder ``root``; return its exit code. An interrupt ends its whole process group.

    ``meanwhile`` is told every second how many minutes it has taken so far.
    """
    began = time.monotonic()
    child = None
    try:
        with _signals_held():
            child = subprocess.Popen(
                command, shell=True, cwd=root, stdout=stdout, stderr=stderr, start_new_session=True
            )
        while True:
            meanwhile((time.monotonic() - began) / 60)
            try:
                return child.wait(PAUSE)
            except subprocess.TimeoutExpired:
                pass
    except BaseException:
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
        raise


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the end of this block: a command that starts at that moment is not lost.

    They are noted rather than blocked, for a process that is started inherits what is blocked.
    """
    noted = list[int]()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        for arrived in noted:
            signal.raise_signal(arrived)
