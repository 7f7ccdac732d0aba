"""Designs to compare: machines that are run now, and results of earlier runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servsim.captures import simulate_captures
from servsim.comparison.grouping import designs
from servsim.comparison.metrics import Metric
from servsim.errors import Interrupted, UsageError
from servsim.files import atomic_write, make_folder
from servsim.json_text import json_text
from servsim.machines import machine_path
from servsim.progress import Show, expected_references, of_references
from servsim.replication import joined
from servsim.result import Result, check, load
from servsim.statistics.sequential import FIRST_STAGE, wished_runs

Say = Callable[[str], None]


@dataclass(frozen=True)
class Design:
    """A design with its runs: its name in answers, and its result."""

    name: str
    result: Result


@dataclass(frozen=True)
class Machine:
    """A machine as the command line names it: ``NAME`` or ``NAME:KEY=VALUE,KEY=VALUE``."""

    label: str
    description: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Runs:
    """How designs are run: common to all of them, so that they differ in the machine only."""

    traces: tuple[Path, ...]
    replications: int
    seed: int = 1
    transactions: int | str | None = None
    warmup: int | None = None
    format: str | None = None
    overrides: tuple[str, ...] = ()
    threads: int | None = None
    functional_warmup: str | None = None
    from_checkpoint: Path | None = None
    show: Show | None = None

    def make(self, machine: Machine, metric: Metric, first: int, count: int) -> dict[str, Any]:
        """Run ``count`` replications of one machine, the seeds from number ``first`` on."""
        result = simulate_captures(
            self.traces,
            machine.description,
            format=self.format,
            overrides=[*self.overrides, *machine.overrides],
            transactions=self.transactions,
            warmup=self.warmup,
            replications=count,
            seed=self.seed + first,
            threads=self.threads,
            functional_warmup=self.functional_warmup,
            from_checkpoint=self.from_checkpoint,
            progress=self._progress(machine, count),
        )
        _complete(result, metric, self)
        return result

    def _progress(self, machine: Machine, count: int) -> Callable[[int], None] | None:
        """Return what takes the references so far of ``count`` runs, if anything is shown."""
        if self.show is None:
            return None
        expected = expected_references(
            self.traces,
            transactions=self.transactions,
            warmup=self.warmup,
            functional_warmup=self.functional_warmup,
            replications=count,
        )
        return of_references(self.show, f"{count} runs of {machine.label}", expected)


def _complete(result: dict[str, Any], metric: Metric, runs: Runs) -> None:
    """Refuse runs in which no transaction ended, when the figure is per transaction."""
    if "transactions" in metric.needs and any(r["transactions"] == 0 for r in result["replications"]):
        raise UsageError(
            f"no transaction ended in the measured window of {runs.traces[0].name}, so there are no {metric.title}: "
            "use a shorter --warm-up or a longer trace, or compare by another figure, for example --by gsp"
        )


def parse_machine(text: str) -> Machine:
    """Read a machine as the command line names it.

    Raises
    ------
    UsageError
        When there is no such description, or a replaced setting has no value.

    Examples
    --------
    >>> parse_machine("foglia-2004-4p:cache.size=64 KiB,cache.line=32 B").overrides
    ('cache.size=64 KiB', 'cache.line=32 B')
    """
    name, colon, settings = (text, "", "") if Path(text).is_file() else text.partition(":")
    machine_path(name)
    overrides = tuple(part.strip() for part in settings.split(",")) if colon else ()
    for part in overrides:
        if not all(part.partition("=")):
            raise UsageError(f"--machine {text!r}: write what it replaces as NAME:KEY=VALUE,KEY=VALUE, not {part!r}")
    label = Path(name).stem + "".join(f", {part}" for part in overrides)
    return Machine(label, name, overrides)


def told_apart(machines: Sequence[Machine]) -> list[Machine]:
    """Leave out of the labels what all machines replace alike."""
    common = set.intersection(*(set(machine.overrides) for machine in machines)) if machines else set()
    return [
        replace(m, label=", ".join([Path(m.description).stem, *(o for o in m.overrides if o not in common)]))
        for m in machines
    ]


def from_files(paths: Sequence[Path], metric: Metric) -> list[Design]:
    """Read results of earlier runs as designs; those that differ in their seeds alone are one."""
    joined = designs([load(path, metric.needs) for path in paths])
    return [Design(result.machine, result) for result in joined]


class InterruptedDesigns(KeyboardInterrupt):
    """A comparison was interrupted after some replications had ended; ``designs`` are those with all their runs."""

    def __init__(self, designs: list[Design]) -> None:
        super().__init__("interrupted")
        self.designs = designs

    def sentence(self, *, kept: bool) -> str:
        """Say what had ended, and whether it is kept."""
        ended = ", ".join(f"{len(design.result.replications)} of {design.name}" for design in self.designs)
        return f"interrupted: replications that had ended: {ended}" + (
            "" if kept else "; --keep FOLDER would keep them"
        )


class _Made:
    """Runs made so far, of each machine; what an interruption leaves of them is kept."""

    def __init__(self, machines: Sequence[Machine], runs: Runs, metric: Metric) -> None:
        self._runs, self._metric = runs, metric
        # Two machines may be equal, so they go by their place.
        self._documents: list[tuple[Machine, list[dict[str, Any]]]] = [(machine, []) for machine in machines]

    def more(self, place: int, first: int, count: int) -> None:
        """Run ``count`` replications of a machine, the seeds from number ``first`` on."""
        machine, kept = self._documents[place]
        try:
            kept.append(self._runs.make(machine, self._metric, first, count))
        except KeyboardInterrupt as stop:
            if isinstance(stop, Interrupted):
                kept.append(stop.result)
            found = self.designs()
            if not found:
                raise
            raise InterruptedDesigns(found) from None

    def designs(self) -> list[Design]:
        """Return each machine with its runs, joined."""
        return [
            Design(
                machine.label,
                check(parts[0] if len(parts) == 1 else joined(parts), machine.label, self._metric.needs),
            )
            for machine, parts in self._documents
            if parts
        ]


def run_designs(machines: Sequence[Machine], runs: Runs, metric: Metric, say: Say) -> list[Design]:
    """Run a fixed number of replications of each machine.

    Raises
    ------
    InterruptedDesigns
        When it was interrupted after the first replication had ended.
    """
    made = _Made(machines, runs, metric)
    for place, machine in enumerate(machines):
        say(f"running {runs.replications} replications of {machine.label}")
        made.more(place, 0, runs.replications)
    return made.designs()


@dataclass(frozen=True)
class Stopped:
    """How a sequential comparison ended: first stage, runs wished for and made, per machine."""

    precision: float
    first_stage: int
    wished: int
    made: int

    @property
    def reached(self) -> bool:
        """Whether the wished precision was reached within the budget."""
        return self.made >= self.wished


def run_until(
    machines: Sequence[Machine], runs: Runs, metric: Metric, precision: float, budget: int, say: Say
) -> tuple[list[Design], Stopped]:
    """Run until every interval is narrow enough or the budget is spent.

    Parameters
    ----------
    precision : float
        Wished half-width of every 95 % interval, as a share of the mean.
    budget : int
        Most replications per machine, at least the first stage of `FIRST_STAGE`.

    Returns
    -------
    list of Design, Stopped
        All designs have the same seeds, so that they stay paired.

    Raises
    ------
    UsageError
        When the budget is smaller than the first stage, or the precision is out of range.
    InterruptedDesigns
        When it was interrupted after the first replication had ended.
    """
    if budget < FIRST_STAGE:
        raise UsageError(
            f"a budget of {budget} replications is less than the first stage of {FIRST_STAGE}, which tells how "
            f"variable the runs are: use --budget {FIRST_STAGE} or more"
        )
    if not 0 < precision < 1:
        raise UsageError(f"a precision of {precision} is out of range: give a share of the mean, for example 0.01")
    made = _Made(machines, runs, metric)
    for place, machine in enumerate(machines):
        say(f"first stage: {FIRST_STAGE} replications of {machine.label}")
        made.more(place, 0, FIRST_STAGE)
    wished = max(wished_runs(metric.values(design.result), precision) for design in made.designs())
    count = min(wished, budget)
    for place, machine in enumerate(machines):
        if count > FIRST_STAGE:
            say(f"second stage: {count - FIRST_STAGE} more of {machine.label}, {wished} wished for")
            made.more(place, FIRST_STAGE, count - FIRST_STAGE)
    return made.designs(), Stopped(precision, FIRST_STAGE, wished, count)


def run(
    machines: Sequence[Machine], runs: Runs, metric: Metric, precision: float | None, budget: int, say: Say
) -> tuple[list[Design], Stopped | None]:
    """Run a fixed number of replications, or until a wished precision: see `run_designs` and `run_until`."""
    if precision is None:
        return run_designs(machines, runs, metric, say), None
    return run_until(machines, runs, metric, precision, budget, say)


def keep(designs: Sequence[Design], folder: Path) -> list[Path]:
    """Write each design's result into a folder, to be compared again later; nothing is overwritten.

    Raises
    ------
    UsageError
        When one of the files exists.
    """
    make_folder(folder)
    paths = [folder / f"{_file_name(design.name)}.json" for design in designs]
    taken = [str(path) for path in paths if path.exists()]
    if taken:
        raise UsageError(f"{', '.join(taken)} exists already: choose another folder for --keep")
    for design, path in zip(designs, paths, strict=True):
        atomic_write(path, json_text(design.result.document))
    return paths


def _file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in ".=-" else "_" for c in label).replace("__", "_")
