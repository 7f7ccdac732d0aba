"""Commands that compute little start no threads for it, and leave no trace of that."""

import os
import subprocess
import sys
from pathlib import Path

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


DROPS_IT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    os.getpid()
except KeyboardInterrupt:
    pass
"""


def test_ctrl_c_while_a_library_is_loaded_is_heard_when_it_is_there(tmp_path: Path) -> None:
    """Native code takes what is raised in it for a module that is missing, and goes on without."""
    (tmp_path / "drops_it.py").write_text(DROPS_IT)
    command = [sys.executable, "-c", "from servsim.cli.numbers import load; load('drops_it'); print('not heard')"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.stderr.endswith("KeyboardInterrupt\n") and not run.stdout, run
