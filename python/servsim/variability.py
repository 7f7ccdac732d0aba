"""Where the variability of short runs comes from: seeds, the part of the trace, the capture, the time.

Alameldeen et al. 2003 tell *time* variability (one long run looked at over short intervals, Figure 2)
from *space* variability (the same interval run again, Figure 3). A trace adds two kinds of space: which
transactions of it are run, and which capture it is. Random delays alone show only the first part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servsim.errors import UsageError
from servsim.limits import whole
from servsim.progress import Show, expected_references, of_references
from servsim.simulation import simulate
from servsim.statistics.intervals import Estimate, estimate
from servsim.statistics.nested import Spread, spreads
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
    """Standard deviations by source, in percent of the mean, each with its interval.

    ``seeds`` is the spread of runs that differ in their seed only; ``parts`` and ``captures`` the
    spread beyond that between parts of a trace, and between captures; None where there is only one.
    ``over_captures`` is the mean of the captures' means with the interval that captures, not seeds, give it.
    """

    cells: list[Cell]
    seeds: Spread
    parts: Spread | None
    captures: Spread | None
    over_time: list[Interval]
    over_captures: Estimate | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data (schema ``servsim.variability/1``)."""
        return {"schema": "servsim.variability/1", **asdict(self)}


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
    by_trace = np.array([cell.values for cell in cells]).reshape(len(paths), parts, replications)
    means = by_trace.mean(axis=(1, 2)).tolist()
    return Variability(cells, *spreads(by_trace), over_time(last), estimate(means) if len(means) > 1 else None)
