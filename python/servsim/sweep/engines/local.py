"""Runs on this host's cores, one process each, so that a run cannot take the others down."""

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess

from servsim.errors import EnvironmentProblem, UsageError
from servsim.interrupts import interrupts_held
from servsim.sweep.job import Job, execute


def run(jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
    """Run jobs on ``workers`` processes (all cores without it) and yield them as they finish.

    Each process has a pipe of its own and no thread serves it: a pool with shared queues can wait for ever for the
    rest of a message whose sender was stopped, and these processes are stopped whenever an interruption says so.
    """
    if target:
        raise UsageError(f"local takes no address, and {target!r} was given")
    waiting = deque(jobs)
    at_work: dict[Connection, Job] = {}
    processes: list[BaseProcess] = []
    try:
        with interrupts_held():
            for _ in range(min(workers or len(os.sched_getaffinity(0)), len(jobs))):
                connection, process = _start()
                processes.append(process)
                at_work[connection] = waiting.popleft()
        for connection, job in at_work.items():
            _give(connection, job)
        while at_work:
            # `wait` promises whatever it was given, which here are connections alone.
            for connection in [c for c in wait(list(at_work)) if isinstance(c, Connection)]:
                answer = received(connection)
                job = at_work.pop(connection)
                if waiting:
                    at_work[connection] = waiting.popleft()
                    _give(connection, at_work[connection])
                if isinstance(answer, BaseException):
                    raise answer
                yield job, answer
    finally:
        # Whether all is done or something failed: nothing may go on in the background.
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(10)


def _start() -> tuple[Connection, BaseProcess]:
    here, there = Pipe()
    process = get_context("spawn").Process(target=_work, args=(there, os.getpid()), daemon=True)
    process.start()
    there.close()  # the worker's copy is the only one left, so that its end is seen as the end of the pipe
    return here, process


def _give(connection: Connection, job: Job) -> None:
    try:
        connection.send(job)
    except OSError:
        raise _killed() from None


def received(connection: Connection) -> str | BaseException:
    """Return what a worker sent: the text of a result, or what was raised instead.

    Raises
    ------
    EnvironmentProblem
        When the worker ended before it had sent all of it.
    """
    try:
        answer: str | BaseException = connection.recv()
    except (EOFError, OSError):
        raise _killed() from None
    return answer


def _killed() -> EnvironmentProblem:
    return EnvironmentProblem(
        "a worker process was killed, perhaps for want of memory; finished runs are kept: repeat the command to "
        "continue, with fewer --workers if memory is short"
    )


def _work(connection: Connection, parent: int) -> None:
    """Make the runs that are asked for: the parent alone answers Ctrl-C, and no worker outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    try:
        while True:
            connection.send(_made(connection.recv()))
    except (EOFError, OSError):
        return  # whoever asked was killed


def _made(job: Job) -> str | BaseException:
    try:
        return execute(job)
    except Exception as error:
        error.add_note("raised in a worker process:\n" + traceback.format_exc())
        return error


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)
