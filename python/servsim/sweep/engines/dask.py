"""Runs on a Dask cluster, ``dask:HOST:PORT``; the workers read traces under the same path.

A run whose worker dies is given to another worker by Dask's scheduler.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from servsim.errors import EnvironmentProblem, ServsimError, UsageError
from servsim.sweep.job import Job, execute

#: Seconds to wait for the scheduler, and for its first worker.
PATIENCE = 20


def run(jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
    """Run jobs on the cluster at ``target`` and yield them as they finish."""
    try:
        import distributed
    except ImportError:
        raise EnvironmentProblem("Dask is not installed: pip install 'servsim[dask]'") from None
    if not target:
        raise UsageError("name the scheduler of the Dask cluster: --on dask:HOST:PORT")
    if workers is not None:
        raise UsageError("--workers counts processes of this host; a Dask cluster has its own")
    # Dask carries no types.
    dask: Any = distributed
    try:
        client = dask.Client(target, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise EnvironmentProblem(f"no Dask scheduler answers at {target}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise EnvironmentProblem(f"the Dask cluster at {target} has no workers: start some") from None
        waiting = {client.submit(execute, job, key=f"servsim-{job.hash}", pure=False): job for job in jobs}
        try:
            for future in dask.as_completed(list(waiting), loop=client.loop):
                yield waiting[future], future.result()
                future.release()
        except dask.KilledWorker as error:
            raise EnvironmentProblem(
                f"the workers that tried one run died ({error}), perhaps for want of memory; finished runs are kept: "
                "repeat the command to continue"
            ) from None
        except (OSError, RuntimeError) as error:
            if isinstance(error, ServsimError):
                raise
            raise EnvironmentProblem(
                f"the Dask cluster at {target} was lost ({error}); finished runs are kept: repeat the command"
            ) from None
        finally:
            client.cancel(list(waiting), force=True)
