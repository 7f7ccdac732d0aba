"""Commands that compute little start no threads for it, and leave no trace of that."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
from servsim.cli.numbers import load
load("numpy", "scipy.stats")
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


def threads(**asked: str) -> list[str]:
    """Return the threads of a process that has loaded NumPy and SciPy, and what its environment says then."""
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=plain | asked, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_loading_starts_no_threads_and_leaves_the_environment() -> None:
    assert threads() == ["1", "None"]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: linear algebra has one thread anyway")
def test_whoever_wants_threads_has_them() -> None:
    found, told = threads(OPENBLAS_NUM_THREADS="2")
    assert int(found) > 1
    assert told == "2"
