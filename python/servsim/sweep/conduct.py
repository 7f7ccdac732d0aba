"""Conducting a sweep: plan the runs, make those that are missing, put the figures into tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.hashes import file_hash
from servsim.json_text import json_text
from servsim.machines import machine_text, resolve
from servsim.replication import summary
from servsim.result_warnings import ResultWarning, gathered
from servsim.sweep.engines import engine
from servsim.sweep.job import Job, versions
from servsim.sweep.store import Store, opened
from servsim.sweep.study import Levels, Study
from servsim.sweep.tables import write_tables
from servsim.trace.files import trace_file

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Point:
    """A point of the study with its finished runs, in the order of the seeds."""

    levels: Levels
    replications: list[dict[str, Any]]
    warnings: list[ResultWarning]

    def summary(self, also: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
        """Return mean, standard deviation, interval and n of each figure, and of further ones by their paths."""
        return summary(self.replications, also)


@dataclass(frozen=True)
class Outcome:
    """A conducted sweep: its points, its folder, and how many runs were made now."""

    study: Study
    folder: Path
    points: list[Point]
    made: int
    kept: int

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data (schema ``servsim.sweep/1``)."""
        return {
            "schema": "servsim.sweep/1",
            "study": self.study.name,
            "folder": str(self.folder),
            "runs": {"made": self.made, "kept": self.kept},
            "factors": self.study.factors,
            "seeds": self.study.seeds,
            "tables": [str(self.folder / name) for name in ("results.parquet", "windows.parquet")],
            "points": [
                {"factors": p.levels, "summary": p.summary(), "warnings": [w.to_dict() for w in p.warnings]}
                for p in self.points
            ],
        }


def plan(study: Study) -> list[list[Job]]:
    """Return the runs of every point, one per seed; one in all where seeds change nothing.

    Raises
    ------
    UsageError
        When a trace is missing or a combination of levels is no possible machine; all at once.
    """
    jobs = []
    faults: dict[str, list[str]] = {}
    traces: dict[str, str] = {}
    for point in study.points:
        try:
            jobs.append(_jobs(study, point, traces))
        except UsageError as error:
            where = ", ".join(f"{key} = {value}" for key, value in point.items()) or "the only point"
            faults.setdefault(str(error), []).append(where)
    if faults:
        count = len(study.points) - len(jobs)
        listed = "".join(f"\n  - {_where(points)}: {fault}" for fault, points in faults.items())
        raise UsageError(f"{count} of {len(study.points)} points cannot be run:{listed}")
    return jobs


def _where(points: Sequence[str]) -> str:
    """Name the points of one fault: the first, and how many more there are."""
    more = len(points) - 1
    return points[0] + (f" (and {more} more point{'s' * (more > 1)})" if more else "")


def _jobs(study: Study, point: Levels, traces: dict[str, str]) -> list[Job]:
    trace = trace_file(study.path(str(study.at(point, "trace"))))
    if str(trace) not in traces:
        traces[str(trace)] = file_hash(trace)
    name = str(study.at(point, "machine"))
    description = machine_text(study.path(name))
    overrides = study.overrides(point)
    machine = resolve(description, name, overrides)
    options = {
        "transactions": study.at(point, "transactions"),
        "warmup": study.at(point, "warmup"),
        "engine": study.fixed.get("engine", "timing"),
        "format": study.fixed.get("format"),
    }
    # Only where they are given: a run without a warm start keeps the hash that it always had.
    if (amount := study.at(point, "functional_warmup")) is not None:
        options["functional_warmup"] = str(amount)
    checkpoint = study.at(point, "checkpoint")
    if checkpoint is not None:
        checkpoint = study.path(str(checkpoint))
        if not checkpoint.is_file():
            raise UsageError(f"there is no checkpoint {str(checkpoint)!r}")
        options["checkpoint"] = file_hash(checkpoint)
    return [
        Job(
            {"trace": traces[str(trace)], "machine": machine, "options": {**options, "seed": seed}, **versions()},
            str(trace.resolve()),
            description,
            name,
            tuple(overrides),
            None if checkpoint is None else str(checkpoint.resolve()),
        )
        for seed in (study.seeds if options["engine"] == "timing" or _is_drawn(machine) else study.seeds[:1])
    ]


def _is_drawn(described: object) -> bool:
    """Return whether anything of a machine is drawn at random; the functional engine draws nothing else."""
    if isinstance(described, Mapping):
        # A trace's own order of tasks stands for the scheduler.
        return any(_is_drawn(part) for key, part in described.items() if key != "scheduler")
    if isinstance(described, list):
        return any(map(_is_drawn, described))
    return described == "random"


def conduct(
    study: Study, folder: Path, *, on: str = "local", workers: int | None = None, progress: Progress | None = None
) -> Outcome:
    """Make the runs of a study that are not made yet, and write its tables.

    Parameters
    ----------
    study : Study
        What to run.
    folder : Path
        The sweep's directory; runs in it are kept, and never made again.
    on : str, default "local"
        ``local``, ``dask:ADDRESS`` or ``slurm``.
    workers : int, optional
        Processes of this host; all cores without it.
    progress : callable, optional
        Called with a sentence and the fraction done.

    Returns
    -------
    Outcome
        All points with their runs.

    Raises
    ------
    UsageError
        For a wrong study, or a folder that belongs to something else.
    EnvironmentProblem
        When runs failed for want of a worker; finished ones are kept.
    """
    place, target = engine(on)
    jobs = plan(study)
    every = {job.hash: job for point in jobs for job in point}
    with opened(folder, study.name) as store:
        missing = [job for job in every.values() if not store.has(job)]
        if missing:
            for job in missing:
                store.note("planned", job)
            _make(store, place.run(missing, target, workers), len(every), len(every) - len(missing), progress)
        points = [_point(store, levels, of) for levels, of in zip(study.points, jobs, strict=True)]
        write_tables(store, study, jobs)
        outcome = Outcome(study, folder, points, len(missing), len(every) - len(missing))
        store.replace("summary.json", json_text(outcome.to_dict()))
    return outcome


def _make(store: Store, finished: Any, total: int, done: int, progress: Progress | None) -> None:
    for job, text in finished:
        store.put(job, text)
        done += 1
        if progress is not None:
            progress(f"{done} of {total} runs", done / total)


def _point(store: Store, levels: Levels, jobs: list[Job]) -> Point:
    results = [store.read(job) for job in jobs]
    return Point(levels, [result["replications"][0] for result in results], gathered(results))
