"""Commands that scripts run for long, each with its whole process group."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
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
    child = subprocess.Popen(command, shell=True, cwd=root, stdout=stdout, stderr=stderr, start_new_session=True)
    try:
        while True:
            meanwhile((time.monotonic() - began) / 60)
            try:
                return child.wait(PAUSE)
            except subprocess.TimeoutExpired:
                pass
    except BaseException:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()
        raise
