"""Waiting for an event with a bound, the one place where tests pause; and for the end of a process."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(
    happened: Callable[[], object],
    *,
    during: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None,
    seconds: float = 60.0,
) -> None:
    """Return as soon as something has happened; fail when it has not in time, or the process `during` ended before."""
    ends = time.monotonic() + seconds
    while not happened():
        assert during is None or during.poll() is None, "the process ended before it happened"
        assert time.monotonic() < ends, f"it did not happen within {seconds:.0f} s"
        time.sleep(0.01)


def has_ended(process: int) -> bool:
    """Whether a process runs no more; its parent may not have fetched its exit code yet."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rsplit(")", 1)[1].split()[0] == "Z"
