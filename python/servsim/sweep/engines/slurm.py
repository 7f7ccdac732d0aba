"""Runs as jobs of a Slurm cluster, submitted from a host that has ``sbatch``.

Finished runs are collected as they come. A job that Slurm ended leaves the others running and is an error
in the end; repeating the command runs only what is missing. Submitting and collecting are submitit's, so
tests use its local executor in place of Slurm.
"""

import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from servsim.errors import EnvironmentProblem, UsageError
from servsim.sweep.job import Job, execute

#: Jobs of an array that run at once, without ``--workers``.
AT_ONCE = 256
#: Seconds between looks for results, and between looks at the queue. A job that two looks do not find has
#: had the time to leave its result on a slow network file system.
POLL, QUEUE = 1.0, 15.0
#: Jobs of an array where the cluster does not say how many it takes: Slurm's own default (slurm.conf, MaxArraySize).
ARRAY = 1001
#: Minutes that a job may run where neither the user nor the partition sets a limit.
DAY = 24 * 60
#: Minutes in the units of a time limit.
UNITS = {"min": 1, "h": 60, "d": DAY}


def run(jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
    """Run jobs as Slurm arrays of about ``workers`` at a time; ``target`` is ``PARTITION[,time=LIMIT]``."""
    partition, minutes = parse(target)
    try:
        import submitit
    except ImportError:
        raise EnvironmentProblem("submitit is not installed: pip install 'servsim[slurm]'") from None
    if shutil.which("sbatch") is None:
        raise EnvironmentProblem(
            "this host has no `sbatch`: submit from a login node of the cluster, or use --on local"
        )
    # Job files must be seen by the compute nodes: the present folder is, a node's /tmp is not.
    folder = Path(tempfile.mkdtemp(prefix=".servsim-slurm-", dir=Path.cwd()))
    executor = submitit.AutoExecutor(folder, cluster="slurm")
    parts = arrays(len(jobs), largest_array())
    at_once = max(1, (workers or AT_ONCE) // max(1, len(parts)))
    executor.update_parameters(name="servsim", cpus_per_task=1, slurm_array_parallelism=at_once)
    executor.update_parameters(timeout_min=minutes or partition_limit(partition) or DAY)
    if partition:
        executor.update_parameters(slurm_partition=partition)
    # Without accounting it would warn at every look that `sacct` fails; the queue tells us what it cannot.
    logging.getLogger("submitit").setLevel(logging.ERROR)
    yield from collect(executor, jobs, folder, queued, parts)


def parse(target: str) -> tuple[str, int | None]:
    """Return partition and time limit in minutes of ``PARTITION[,time=LIMIT]``.

    Raises
    ------
    UsageError
        When it is something else.
    """
    partition, comma, rest = target.partition(",")
    if not comma:
        return partition, None
    found = re.fullmatch(r"time=(\d{1,4}) ?(min|h|d)", rest.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--on slurm:{target}: after the partition write a time limit such as time=90min, time=12h")
    return partition, int(found[1]) * UNITS[found[2]]


def arrays(count: int, largest: int) -> list[range]:
    """Return the jobs of each array: as few arrays as the cluster's limit allows, of about one size."""
    number = -(-count // largest)
    return [range(count * part // number, count * (part + 1) // number) for part in range(number)]


def largest_array() -> int:
    """Return how many jobs the cluster takes as one array."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", _told("scontrol", "show", "config") or "", re.M)
    # The setting bounds the indices, which begin at 0; a cluster without arrays has 0.
    return max(1, int(found[1])) if found else ARRAY


def partition_limit(partition: str) -> int | None:
    """Return the longest time in minutes that a partition lets a job run; None when it does not say or has no limit."""
    # Without a name the default partition counts, which is marked by a star.
    chosen = ("--partition", partition) if partition else ()
    lines = [line.split() for line in (_told("sinfo", "--noheader", "--format", "%P %l", *chosen) or "").splitlines()]
    limits = [limit for name, limit in lines if partition or name.endswith("*")]
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):\d+", limits[0]) if limits else None
    if found is None:
        return None
    days, hours, minutes = (int(part or 0) for part in found.groups())
    return max(1, days * DAY + hours * 60 + minutes)


def _told(*command: str) -> str | None:
    """Return what a command of Slurm prints; None when it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def queued() -> set[str] | None:
    """Return the jobs of this user that wait or run, as Slurm numbers them; None when it does not say."""
    text = _told("squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i")
    return None if text is None else set(text.split())


def collect(
    executor: Any,
    jobs: Sequence[Job],
    folder: Path,
    queue: Callable[[], Collection[str] | None] = lambda: None,
    parts: Sequence[range] | None = None,
) -> Iterator[tuple[Job, str]]:
    """Submit jobs and yield them as they finish; one that fails leaves the others running, an interrupt none.

    Parameters
    ----------
    queue
        Tells which jobs still wait or run, or None. Slurm without accounting knows nothing of a job
        that has left its queue, so one that is gone without a result was ended from outside.
    parts
        The jobs of each array; all in one without it.

    Raises
    ------
    EnvironmentProblem
        When all have ended, if one ended without a result.
    """
    handles: list[Any] = []
    failed: list[str] = []
    try:
        for part in parts or [range(len(jobs))]:
            handles += _submit(executor, [jobs[at] for at in part], folder)
        by_id = {handle.job_id: job for handle, job in zip(handles, jobs, strict=True)}
        for handle, reason in _as_they_end(handles, queue):
            if reason is None:
                yield by_id[handle.job_id], handle.result()
            else:
                failed.append(f"job {handle.job_id} failed ({reason})")
        if failed:
            others = f" and {len(failed) - 1} more of {len(jobs)}" if len(failed) > 1 else ""
            raise EnvironmentProblem(
                f"{failed[0]}{others}; the output of jobs is in {folder}; finished runs are kept: repeat the command "
                "to continue, with a longer limit (--on slurm:PARTITION,time=12h) if the time was up"
            )
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        for handle in handles:
            if not handle.done():
                handle.cancel(check=False)


def _submit(executor: Any, jobs: Sequence[Job], folder: Path) -> list[Any]:
    """Hand all jobs in; a cluster that refuses them says why in its last line."""
    import submitit

    try:
        return list(executor.map_array(execute, list(jobs)))
    except submitit.core.utils.FailedJobError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentProblem(
            f"`sbatch` did not take the jobs ({_reason(error)}); try it by hand on this host, or use --on local"
        ) from None


def _as_they_end(
    handles: Sequence[Any], queue: Callable[[], Collection[str] | None]
) -> Iterator[tuple[Any, str | None]]:
    """Yield jobs as they end, with the reason if one ended without a result."""
    waiting, missed = list(handles), set[str]()
    looked = time.monotonic()
    while waiting:
        for handle in [each for each in waiting if each.done()]:
            waiting.remove(handle)
            error = handle.exception()
            yield handle, None if error is None else _reason(error)
        if time.monotonic() - looked >= QUEUE and (present := queue()) is not None:
            looked = time.monotonic()
            gone = {handle.job_id for handle in waiting if handle.job_id not in present}
            for handle in [each for each in waiting if each.job_id in gone & missed and not each.done()]:
                waiting.remove(handle)
                yield handle, "it left the queue without a result; it was cancelled, or its node was lost"
            missed = gone
        if waiting:
            time.sleep(POLL)


def _reason(error: BaseException) -> str:
    """Return the last line of what a job said, which is the error itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -|")]
    return lines[-1] if lines else type(error).__name__
