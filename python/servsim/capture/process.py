"""Child processes that cannot outlive this one.

Every long-running child (emulator, image build) is started in its own session, so that Ctrl-C
reaches only this process, which then ends the child; should this process die without a chance
to clean up (SIGKILL), the kernel ends the child (``PR_SET_PDEATHSIG``, prctl(2)). The parent of
that signal is the *thread* that started the child: start children from a thread that stays.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

#: prctl(2): deliver a signal when the parent dies.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Run in the child before exec: ask for SIGKILL when the parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@contextlib.contextmanager
def child(
    command: Sequence[str | Path],
    output: IO[bytes],
    *,
    pass_fds: Sequence[int] = (),
    env: dict[str, str] | None = None,
    grace_s: float = 3.0,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command for the duration of a ``with`` block; it is gone when the block is left.

    Parameters
    ----------
    command
        Program and arguments.
    output
        File that takes standard output and error.
    pass_fds
        File descriptors the child inherits.
    env
        Environment; the own one by default.
    grace_s
        Seconds between the polite request to end and the kill.

    Yields
    ------
    subprocess.Popen
        The running child.
    """
    with _terminating_raises():
        # The kernel's signal can only be asked for between fork and exec; the function calls nothing
        # but prctl, hence takes no lock another thread might hold.
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            env=env,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
        try:
            yield process
        finally:
            _end(process, grace_s)


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a child and everything in its session, politely first."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def _terminating_raises() -> Iterator[None]:
    """Turn SIGTERM into an exception while a child runs, so that ``finally`` blocks are reached."""

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: PDEATHSIG alone has to do
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
