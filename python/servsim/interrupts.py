"""Ctrl-C held back for a while."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts_held"]


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back until the end of this block; processes that are started meanwhile begin with it held back.

    A worker that is interrupted before it can ignore that prints a stack trace, and a library of native code that is
    being loaded may drop what is raised in it.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
