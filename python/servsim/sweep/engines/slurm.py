"""Runs as jobs of a Slurm cluster, submitted from a host that has ``sbatch``.

Finished runs are collected as they come; a job that Slurm ended is an error, and repeating the
command runs only what is missing. Submitting and collecting are submitit's, so tests use its local
executor in place of Slurm.
"""

import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from servsim.errors import EnvironmentProblem
from servsim.sweep.job import Job, execute

#: Jobs of an array that run at once, without ``--workers``.
AT_ONCE = 256
#: Seconds between looks for results, and between looks at the queue. A job that two looks do not find has
#: had the time to leave its result on a slow network file system.
POLL, QUEUE = 1.0, 15.0


def run(jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
    """Run jobs as one Slurm array of at most ``workers`` at a time; ``target`` names a partition."""
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
    executor.update_parameters(name="servsim", cpus_per_task=1, slurm_array_parallelism=workers or AT_ONCE)
    if target:
        executor.update_parameters(slurm_partition=target)
    # Without accounting it would warn at every look that `sacct` fails; the queue tells us what it cannot.
    logging.getLogger("submitit").setLevel(logging.ERROR)
    yield from collect(executor, jobs, folder, queued)


def queued() -> set[str] | None:
    """Return the jobs of this user that wait or run, as Slurm numbers them; None when it does not say."""
    done = subprocess.run(
        ["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i"],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(done.stdout.split()) if done.returncode == 0 else None


def collect(
    executor: Any, jobs: Sequence[Job], folder: Path, queue: Callable[[], Collection[str] | None] = lambda: None
) -> Iterator[tuple[Job, str]]:
    """Submit jobs and yield them as they finish; whatever happens, none is left behind.

    Parameters
    ----------
    queue
        Tells which jobs still wait or run, or None. Slurm without accounting knows nothing of a job
        that has left its queue, so one that is gone without a result was ended from outside.

    Raises
    ------
    EnvironmentProblem
        When a job ended without a result.
    """
    handles = _submit(executor, jobs, folder)
    by_id = {handle.job_id: job for handle, job in zip(handles, jobs, strict=True)}
    try:
        for handle, reason in _as_they_end(handles, queue):
            if reason is not None:
                raise EnvironmentProblem(
                    f"job {handle.job_id} failed ({reason}); its output is in {folder}; finished runs are "
                    "kept: repeat the command to continue"
                )
            yield by_id[handle.job_id], handle.result()
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
