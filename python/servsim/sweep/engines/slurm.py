"""Runs as jobs of a Slurm cluster, submitted from a host that has ``sbatch``.

Finished runs are collected as they come; a job that Slurm ended is an error, and repeating the
command runs only what is missing.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from servsim.errors import EnvironmentProblem
from servsim.sweep.job import Job, execute


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
    executor.update_parameters(name="servsim", cpus_per_task=1, slurm_array_parallelism=workers or 256)
    if target:
        executor.update_parameters(slurm_partition=target)
    handles = executor.map_array(execute, list(jobs))
    by_id = {handle.job_id: job for handle, job in zip(handles, jobs, strict=True)}
    try:
        for handle in submitit.helpers.as_completed(handles):
            try:
                text = handle.result()
            except submitit.core.utils.FailedJobError as error:
                raise EnvironmentProblem(
                    f"Slurm job {handle.job_id} failed ({str(error).splitlines()[0]}); its output is in {folder}; "
                    "finished runs are kept: repeat the command to continue"
                ) from None
            yield by_id[handle.job_id], text
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        for handle in handles:
            if not handle.done():
                handle.cancel(check=False)
