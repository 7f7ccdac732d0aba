"""The command as disk tests run it, and the trace that most of them are about."""

import subprocess
import sys
from pathlib import Path

from example_files import requests


def write_trace(folder: Path) -> Path:
    """Write requests to a FCFS disk: sequential ones take 1 ms, jumps 5 to 9 ms."""
    path = folder / "trace.csv"
    requests(path, 3000)
    return path


def servsim(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with ``given`` on its standard input."""
    command = [sys.executable, "-c", "from servsim.cli import main; main()", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)
