"""Coarse runs: the whole trace without caches, at the pace that windows tell for the tasks of each name.

Which are asked for, and what they found (ADR 0707). What follows of them for a trace: `servsim.sampling.estimates`.
"""

from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean, stdev
from typing import Any

from servsim.statistics.intervals import student_quantile

#: Groups of tasks that make less of the windows' instructions than this are taken together.
SMALL = 0.02
#: Coarse runs at the paces of the windows, and further ones for each group with its pace changed by `CHANGE`: at first,
#: and where their spread is a good part of the precision, so that it has to be known well.
FEW_RUNS, FEW_CHANGED = 4, 1
MANY_RUNS, MANY_CHANGED = 12, 2
GOOD_PART = 0.25
CHANGE = 0.1
#: By how much paces of single pieces of work differ from their group's: it makes coarse runs differ as full runs do.
JITTER = 0.02


Known = dict[str, Any]
#: Seed, jitter, and the paces of groups: cycles for a reference, and further ones for an instruction.
CoarseRun = tuple[int, float, dict[str, list[float]]]


@dataclass(frozen=True)
class Group:
    """What the tasks of one name did in the windows: instructions and cycles beyond those of references, by window.

    Attributes
    ----------
    instructions, beyond : tuple of float
        In each window.
    known : float
        Cycles for an instruction that follow from the references alone.
    """

    instructions: tuple[float, ...]
    beyond: tuple[float, ...]
    known: float

    @property
    def pace(self) -> float:
        """Cycles for an instruction beyond those of references."""
        return max(0.0, sum(self.beyond) / max(1.0, sum(self.instructions)))


def groups_of(known: Known) -> dict[str, Group]:
    """Return the groups of tasks, small ones together under the empty name."""
    windows, each = known["windows"], known["range"]["cycles_per_reference"]
    totals: dict[str, int] = {}
    for window in windows:
        for name, (instructions, _, _) in window["groups"].items():
            totals[name] = totals.get(name, 0) + instructions
    least = SMALL * sum(totals.values())
    named = {name for name, count in totals.items() if count >= least}
    found: dict[str, list[list[float]]] = {name: [] for name in [*sorted(named), ""]}
    for window in windows:
        of_window = {name: [0.0, 0.0, 0.0] for name in found}
        for name, counts in window["groups"].items():
            sums = of_window[name if name in named else ""]
            for place, count in enumerate(counts):
                sums[place] += count
        for name, sums in of_window.items():
            found[name].append(sums)
    groups = {}
    for name, rows in found.items():
        instructions = tuple(row[0] for row in rows)
        references = sum(row[1] for row in rows)
        beyond = tuple(row[2] - each * row[1] for row in rows)
        groups[name] = Group(instructions, beyond, each * references / max(1.0, sum(instructions)))
    return groups


def coarse_runs(known: Known, seed: int, precision: float) -> list[CoarseRun]:
    """Return the coarse runs to make next, at the paces of the windows timed by the first of them; none if they do."""
    made = known["coarse"]
    if not made:
        few = (0, 0)
        many = (FEW_RUNS, FEW_CHANGED)
        each = float(known["range"]["cycles_per_reference"])
        paces = {name: [each, group.pace] for name, group in groups_of(known).items()}
    else:
        few, many = (FEW_RUNS, FEW_CHANGED), (MANY_RUNS, MANY_CHANGED)
        paces = made[0]["paces"]
        if sum(run["paces"] == paces for run in made) >= MANY_RUNS or order_of(known) <= GOOD_PART * precision:
            return []
    runs: list[CoarseRun] = [(seed + number, JITTER, paces) for number in range(few[0], many[0])]
    for name, pace in paces.items():
        # The others together, which hardly do anything: what follows of them is taken for nothing.
        if name or sum(groups_of(known)[name].instructions) > SMALL * _instructions(known):
            changed = paces | {name: [part * (1 + CHANGE) for part in pace]}
            runs += [(seed + number, JITTER, changed) for number in range(few[1], many[1])]
    return runs


def _instructions(known: Known) -> int:
    """Return the instructions of the windows."""
    return sum(int(window["instructions"]) for window in known["windows"])


@dataclass(frozen=True)
class Coarse:
    """What coarse runs found.

    Attributes
    ----------
    cycles : float
        Cycles for an instruction of the whole machine.
    work : float
        Instructions for a transaction.
    spread : float
        Standard deviation of single runs in cycles for a transaction, as a share.
    spread_per_instruction, spread_of_work : float
        The same in cycles for an instruction and in instructions for a transaction.
    paces : dict
        The paces of groups, cycles for an instruction beyond those of references.
    follows : dict
        By what share cycles for an instruction change where the pace of a group does by the share one; of the groups
        that take cycles, and more than a small part of all instructions.
    idle : float
        Share of processors' time without work.
    without_work : float
        Share of the users' time in which the trace had no more work for them.
    n : int
        Runs of which the spread is known.
    """

    cycles: float
    work: float
    spread: float
    spread_per_instruction: float
    spread_of_work: float
    paces: dict[str, float]
    follows: dict[str, float]
    idle: float
    without_work: float
    n: int


def coarse_of(known: Known) -> Coarse:
    """Sum up the coarse runs."""
    runs = known["coarse"]
    paces = runs[0]["paces"]
    base = [run for run in runs if run["paces"] == paces]
    per_instruction = {run["seed"]: log(run["cycles"] / run["instructions"]) for run in base}
    follows = {}
    for name in paces:
        changed = [run for run in runs if run["paces"][name] != paces[name]]
        gaps = [log(run["cycles"] / run["instructions"]) - per_instruction[run["seed"]] for run in changed]
        # No run is changed by a tenth more of nothing, or asked for where the group hardly does anything.
        if gaps:
            follows[name] = fmean(gaps) / log(1 + CHANGE)
    per_transaction = [log(run["cycles"] / run["transactions"]) for run in base]
    work = [log(run["instructions"] / run["transactions"]) for run in base]
    processors = known["range"]["processors"]
    return Coarse(
        cycles=fmean(run["cycles"] / run["instructions"] for run in base),
        work=fmean(run["instructions"] / run["transactions"] for run in base),
        spread=stdev(per_transaction),
        spread_per_instruction=stdev(per_instruction.values()),
        spread_of_work=stdev(work),
        paces={name: pace[1] for name, pace in paces.items()},
        follows=follows,
        idle=fmean(run["idle"] / (run["cycles"] * processors) for run in base),
        without_work=fmean(run["without_work"] for run in base),
        n=len(base),
    )


def of_one_run(spread: float, n: int) -> float:
    """Return half of the 95 % interval of one run more beside the mean of ``n`` others, as a share."""
    return student_quantile(0.95, n - 1) * spread * sqrt(1 + 1 / n)


def order_of(known: Known) -> float:
    """Return half of the interval of a single run in cycles for a transaction, the paces being right, as a share."""
    coarse = coarse_of(known)
    return of_one_run(coarse.spread, coarse.n)
