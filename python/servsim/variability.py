"""Where the variability of short runs comes from: seeds, the part of the trace, the capture, the time.

Alameldeen et al. 2003 tell *time* variability (one long run looked at over short intervals, Figure 2)
from *space* variability (the same interval run again, Figure 3). A trace adds two kinds of space: which
transactions of it are run, and which capture it is. Random delays alone show only the first part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import numpy as np

from servsim.errors import UsageError
from servsim.limits import whole
from servsim.progress import Show, expected_references, of_references
from servsim.simulation import simulate
from servsim.statistics.intervals import Estimate, estimate
from servsim.statistics.series import autocorrelation
from servsim.trace.files import trace_file

#: Fewest intervals of a run for which their variation is given.
LEAST_INTERVALS = 8


@dataclass(frozen=True)
class Cell:
    """Runs of one part of one capture: cycles per transaction by seed."""

    trace: str
    warmup: int
    transactions: int
    values: list[float]

    @property
    def known(self) -> Estimate:
        """Their mean with its interval."""
        return estimate(self.values)


@dataclass(frozen=True)
class Interval:
    """Time variability: work done in intervals of one length within the runs.

    ``variation`` is the coefficient of variation in percent, a mean over the runs; ``autocorrelation``
    that of successive intervals, which tells how far they are from independent samples.
    """

    cycles: int
    variation: float
    autocorrelation: float
    intervals: int


@dataclass(frozen=True)
class Variability:
    """Coefficients of variation, in percent of the mean, by source.

    ``seeds`` is the spread of runs that differ in their seed only; ``parts`` and ``captures`` the
    spread beyond that between parts of a trace, and between captures; None where there is only one.
    ``over_captures`` is the mean of the captures' means with the interval that captures, not seeds, give it.
    """

    cells: list[Cell]
    seeds: float
    parts: float | None
    captures: float | None
    over_time: list[Interval]
    over_captures: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data (schema ``servsim.variability/1``)."""
        return {"schema": "servsim.variability/1", **asdict(self)}


def beyond(groups: Sequence[Sequence[float]]) -> float | None:
    """Return the spread between groups beyond that within them, in percent of the grand mean.

    The variance component of a one-way layout: variance of the group means, less the part that the
    spread within the groups explains; 0 when that explains all of it. None for fewer than two groups.

    Examples
    --------
    >>> round(beyond([[9.0, 11.0], [19.0, 21.0]]), 1)
    46.7
    """
    if len(groups) < 2:
        return None
    data = [np.asarray(group, dtype=float) for group in groups]
    means = np.array([group.mean() for group in data])
    within = [group.var(ddof=1) / group.size if group.size > 1 else 0.0 for group in data]
    return float(100 * np.sqrt(max(0.0, means.var(ddof=1) - np.mean(within))) / means.mean())


def over_time(replications: Sequence[Mapping[str, Any]]) -> list[Interval]:
    """Return how the work done varies over intervals of growing length within runs.

    Work is instructions executed. Lengths double from one window of the timeline on, as long as every
    run with a timeline has `LEAST_INTERVALS` of them.
    """
    found: list[Interval] = []
    replications = [replication for replication in replications if replication.get("timeline")]
    length = 1
    while True:
        series = [_joined([w["instructions"] for w in r["timeline"]], length) for r in replications]
        least = min(map(len, series), default=0)
        if least < LEAST_INTERVALS:
            return found
        cycles = max(int(r["window_cycles"]) for r in replications) * length
        spread = [100 * np.std(line, ddof=1) / np.mean(line) for line in series if np.mean(line) > 0]
        related = float(np.mean([autocorrelation(line) for line in series]))
        found.append(Interval(cycles, float(np.mean(spread)), related, least))
        length *= 2


def _joined(values: Sequence[float], length: int) -> list[float]:
    return [float(sum(values[i : i + length])) for i in range(0, len(values) - length + 1, length)]


def variability(
    traces: Sequence[str | Path],
    machine: str,
    *,
    transactions: int,
    parts: int = 1,
    warmup: int = 0,
    replications: int = 10,
    seed: int = 1,
    overrides: Sequence[str] = (),
    say: Show = lambda *_: None,
) -> Variability:
    """Measure the variability of runs by source.

    Parameters
    ----------
    traces : sequence of str or Path
        Captures, one or more.
    machine : str
        Description: file or shipped name.
    transactions : int
        Transactions of each run.
    parts : int, default 1
        Disjoint parts of each trace: part i is measured after ``warmup + i * transactions``.
    warmup : int, default 0
        Transactions before the first part.
    replications : int, default 10
        Seeds of each part, at least 2.

    Returns
    -------
    Variability
        Spread by seed, part, capture and time.

    Raises
    ------
    UsageError
        For no trace, numbers that are not whole, fewer than two replications, or a part that lies beyond the end of
        a trace.
    """
    for name, number, least in (("transactions", transactions, 1), ("parts", parts, 1), ("warm-up", warmup, 0)):
        whole(name, number, least)
    if replications < 2:
        raise UsageError(f"{replications} replications say nothing about variability: use --replications 10 or more")
    if not traces:
        raise UsageError("there is no trace to measure: name one, or several captures of one workload")
    paths = [trace_file(trace) for trace in traces]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise UsageError(f"{twice} is given twice, and would count as two captures: name it once")
    cells: list[Cell] = []
    last: list[Mapping[str, Any]] = []
    for trace in paths:
        for part in range(parts):
            skipped = warmup + part * transactions
            what = f"{trace.name}: {replications} runs of {transactions} transactions after {skipped}"
            expected = expected_references(trace, transactions=transactions, warmup=skipped, replications=replications)
            found = simulate(
                trace,
                machine,
                overrides=list(overrides),
                transactions=transactions,
                warmup=skipped,
                replications=replications,
                seed=seed,
                progress=of_references(say, what, expected),
            )["replications"]
            cells.append(Cell(str(trace), skipped, transactions, [float(r["cycles_per_transaction"]) for r in found]))
            last = last or found
    groups = [cell.values for cell in cells]
    own = [[cell for cell in cells if cell.trace == str(trace)] for trace in paths]
    # Parts of a capture are what is alike within it: their runs differ less, and would make captures seem far apart.
    by_trace = [[mean(c.values) for c in group] if parts > 1 else group[0].values for group in own]
    within = np.sqrt(np.mean([np.var(g, ddof=1) for g in groups])) / np.mean([np.mean(g) for g in groups])
    between = [beyond([cell.values for cell in group]) for group in own]
    known = [value for value in between if value is not None]
    return Variability(
        cells,
        float(100 * within),
        float(np.mean(known)) if known else None,
        beyond(by_trace),
        over_time(last),
        estimate([mean(group) for group in by_trace]) if len(by_trace) > 1 else None,
    )
