"""NumPy and SciPy for commands that compute little with them: loaded without threads of their own.

Their linear algebra starts a thread for each core when it is loaded. These turn for a tenth of a second while they wait
for work, and commands have matrices of a few rows. Programs that a command starts find the environment as it was.
"""

import os
from importlib import import_module

from servsim.interrupts import interrupts_held

__all__ = ["load"]

#: What the libraries of linear algebra ask, when they are loaded, for how many threads they may have.
ASKED = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def load(*modules: str) -> None:
    """Load these modules, with one thread for linear algebra unless the environment says how many it may have."""
    ours = not any(name in os.environ for name in ASKED)
    if ours:
        os.environ[ASKED[0]] = "1"
    try:
        with interrupts_held():
            for module in modules:
                import_module(module)
    finally:
        if ours:
            del os.environ[ASKED[0]]
