"""Commands that scripts run for long, each with its whole process group."""

import os
import signal
import subprocess
from pathlib import Path
from typing import IO


def run(command: str, root: Path, stdout: IO[str], stderr: IO[str] | int | None = None) -> int:
    """Run a shell command in folder ``root``; return its exit code. An interrupt ends its whole process group."""
    child = subprocess.Popen(command, shell=True, cwd=root, stdout=stdout, stderr=stderr, start_new_session=True)
    try:
        return child.wait()
    except BaseException:
        os.killpg(child.pid, signal.SIGTERM)
        child.wait()
        raise
