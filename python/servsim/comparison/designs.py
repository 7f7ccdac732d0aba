"""Designs to compare: machines that are run now, and results of earlier runs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servsim.comparison.metrics import Metric
from servsim.errors import UsageError
from servsim.files import atomic_write, make_folder
from servsim.progress import Show, expected_references, of_references
from servsim.replication import joined
from servsim.result import Result, check, load
from servsim.simulation import machine_path, simulate
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

    trace: Path
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
        result = simulate(
            self.trace,
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
            self.trace, transactions=self.transactions, warmup=self.warmup, replications=count
        )
        return of_references(self.show, f"{count} runs of {machine.label}", expected)


def _complete(result: dict[str, Any], metric: Metric, runs: Runs) -> None:
    """Refuse runs in which no transaction ended, when the figure is per transaction."""
    if "transactions" in metric.needs and any(r["transactions"] == 0 for r in result["replications"]):
        raise UsageError(
            f"no transaction ended in the measured window of {runs.trace.name}, so there are no {metric.title}: "
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


def from_file(path: Path, metric: Metric) -> Design:
    """Read the result of an earlier run as a design."""
    result = load(path, metric.needs)
    return Design(result.machine, result)


def run_designs(machines: Sequence[Machine], runs: Runs, metric: Metric, say: Say) -> list[Design]:
    """Run a fixed number of replications of each machine."""
    designs = []
    for machine in machines:
        say(f"running {runs.replications} replications of {machine.label}")
        document = runs.make(machine, metric, 0, runs.replications)
        designs.append(Design(machine.label, check(document, machine.label, metric.needs)))
    return designs


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
    """
    if budget < FIRST_STAGE:
        raise UsageError(
            f"a budget of {budget} replications is less than the first stage of {FIRST_STAGE}, which tells how "
            f"variable the runs are: use --budget {FIRST_STAGE} or more"
        )
    if not 0 < precision < 1:
        raise UsageError(f"a precision of {precision} is out of range: give a share of the mean, for example 0.01")
    parts = []
    for machine in machines:
        say(f"first stage: {FIRST_STAGE} replications of {machine.label}")
        parts.append([runs.make(machine, metric, 0, FIRST_STAGE)])
    needs = []
    for machine, (part,) in zip(machines, parts, strict=True):
        needs.append(wished_runs(metric.values(check(part, machine.label, metric.needs)), precision))
    wished = max(needs)
    made = min(wished, budget)
    for machine, documents in zip(machines, parts, strict=True):
        if made > FIRST_STAGE:
            say(f"second stage: {made - FIRST_STAGE} more of {machine.label}, {wished} wished for")
            documents.append(runs.make(machine, metric, FIRST_STAGE, made - FIRST_STAGE))
    designs = [
        Design(machine.label, check(joined(documents), machine.label, metric.needs))
        for machine, documents in zip(machines, parts, strict=True)
    ]
    return designs, Stopped(precision, FIRST_STAGE, wished, made)


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
        atomic_write(path, json.dumps(design.result.document, indent=1) + "\n")
    return paths


def _file_name(label: str) -> str:
    return "".join(c if c.isalnum() or c in ".=-" else "_" for c in label).replace("__", "_")
