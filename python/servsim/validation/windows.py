"""Variability by the length of the observation: native runs beside simulated ones.

Alameldeen et al. 2003, Figure 2: five runs of the real system, looked at over short and long windows.
Natively a window counts transactions. A simulated run is some tenths of a second of the machine, so
its windows are shorter and count the instructions executed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servsim.errors import UsageError
from servsim.variability import Interval

#: Width of the windows that a native run records, in seconds; longer ones are sums of them.
WIDTH_SECONDS = 0.1
#: Windows of these many widths are shown, where a run has at least two: 0.1 s, 1 s, 10 s, 60 s.
LENGTHS = (1, 10, 100, 600)


@dataclass(frozen=True)
class Spread:
    """How much windows of one length differ.

    Attributes
    ----------
    seconds : float
        Length of a window.
    within_percent : float
        Standard deviation of a run's windows in percent of their mean, a mean over the runs.
    smallest, largest : float or None
        Of all windows of all runs, relative to the mean of all; None where only the spread is known.
    windows : int
        Windows of each run.
    runs : int
        Runs.
    """

    seconds: float
    within_percent: float
    smallest: float | None
    largest: float | None
    windows: int
    runs: int


def spreads(runs: Sequence[Sequence[int]], width: float, lengths: Sequence[int] = LENGTHS) -> list[Spread]:
    """Return the spread for each length that gives every run two windows or more.

    Parameters
    ----------
    runs
        Transactions in successive windows, per run.
    width
        Seconds of such a window.
    lengths
        Lengths to look at, in widths.

    Examples
    --------
    >>> [(s.seconds, round(s.within_percent, 1)) for s in spreads([[9, 11, 9, 11]], 1.0, (1, 2))]
    [(1.0, 11.5), (2.0, 0.0)]
    """
    least = min((len(run) for run in runs), default=0)
    if least < 2:
        raise UsageError("the variability of windows needs runs of two windows or more: use a longer --seconds")
    found = []
    for length in lengths:
        count = least // length
        if count < 2:
            continue
        tables = [np.reshape(run[: count * length], (count, length)).sum(axis=1) for run in runs]
        whole = float(np.mean(tables))
        within = [100 * float(np.std(table, ddof=1) / np.mean(table)) for table in tables]
        low, high = float(np.min(tables)) / whole, float(np.max(tables)) / whole
        found.append(Spread(length * width, float(np.mean(within)), low, high, count, len(runs)))
    return found


def between_percent(values: Sequence[float]) -> float:
    """Return the standard deviation of whole runs in percent of their mean."""
    return 100 * float(np.std(values, ddof=1) / np.mean(values))


def simulated(runs: Sequence[Sequence[Interval]], clock_hz: float) -> list[Spread]:
    """Return the mean spread of simulated runs for each length that all of them have."""
    found = []
    for rows in zip(*runs, strict=False):
        variation = float(np.mean([row.variation for row in rows]))
        seconds = float(np.mean([row.cycles for row in rows])) / clock_hz
        windows = min(row.intervals for row in rows)
        found.append(Spread(seconds, variation, None, None, windows, len(runs)))
    return found
