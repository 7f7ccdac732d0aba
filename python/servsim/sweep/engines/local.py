"""Runs on this host's cores, one process each, so that a run cannot take the others down."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from servsim.errors import EnvironmentProblem, UsageError
from servsim.interrupts import interrupts_held
from servsim.sweep.job import Job, execute


def run(jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
    """Run jobs on ``workers`` processes (all cores without it) and yield them as they finish."""
    if target:
        raise UsageError(f"local takes no address, and {target!r} was given")
    count = min(workers or len(os.sched_getaffinity(0)), len(jobs))
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin, (os.getpid(),))
    try:
        with interrupts_held():
            waiting = {pool.submit(execute, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BrokenProcessPool:
        raise EnvironmentProblem(
            "a worker process was killed, perhaps for want of memory; finished runs are kept: repeat the command to "
            "continue, with fewer --workers if memory is short"
        ) from None
    finally:
        # Whether all is done or something failed: nothing may go on in the background.
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(10)


def _begin(parent: int) -> None:
    """Prepare a worker: the parent alone answers Ctrl-C, and no worker outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
