"""Where runs of a sweep are made: one file per place, one line below.

Each has ``run(jobs, target, workers)``, which yields ``(job, result text)`` as runs finish, in any order.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol, cast

from servsim.errors import UsageError
from servsim.sweep.job import Job

#: What ``--on`` begins with, to module.
ENGINES: dict[str, str] = {
    "local": "servsim.sweep.engines.local",
    "dask": "servsim.sweep.engines.dask",
    "slurm": "servsim.sweep.engines.slurm",
}


class Engine(Protocol):
    """What a place to run offers."""

    def run(self, jobs: Sequence[Job], target: str, workers: int | None) -> Iterator[tuple[Job, str]]:
        """Run jobs and yield each with its result as it finishes."""


def engine(place: str) -> tuple[Engine, str]:
    """Return the engine of ``--on PLACE`` and what follows the colon.

    Raises
    ------
    UsageError
        When there is no such place.
    """
    name, _, target = place.partition(":")
    if name not in ENGINES:
        raise UsageError(f"runs cannot be made on {place!r}: choose local, dask:ADDRESS or slurm")
    return cast(Engine, import_module(ENGINES[name])), target
