"""Runs as jobs of a Slurm cluster, submitted from a host that has ``sbatch``.

Finished runs are collected as they come; a job that Slurm ended is an error, and repeating the
command runs only what is missing. Submitting and collecting are submitit's, so tests use its local
executor in place of Slurm; a real Slurm was not available to test against.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from servsim.errors import EnvironmentProblem
from servsim.sweep.job import Job, execute

#: Jobs of an array that run at once, without ``--workers``.
AT_ONCE = 256


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
    yield from collect(executor, jobs, folder)


def collect(executor: Any, jobs: Sequence[Job], folder: Path) -> Iterator[tuple[Job, str]]:
    """Submit jobs and yield them as they finish; whatever happens, none is left behind.

    Raises
    ------
    EnvironmentProblem
        When a job ended without a result.
    """
    import submitit

    handles = executor.map_array(execute, list(jobs))
    by_id = {handle.job_id: job for handle, job in zip(handles, jobs, strict=True)}
    try:
        for handle in submitit.helpers.as_completed(handles, poll_frequency=1):
            error = handle.exception()
            if error is not None:
                raise EnvironmentProblem(
                    f"job {handle.job_id} failed ({_reason(error)}); its output is in {folder}; finished runs are "
                    "kept: repeat the command to continue"
                )
            yield by_id[handle.job_id], handle.result()
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        for handle in handles:
            if not handle.done():
                handle.cancel(check=False)


def _reason(error: BaseException) -> str:
    """Return the last line of what a job said, which is the error itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -|")]
    return lines[-1] if lines else type(error).__name__
