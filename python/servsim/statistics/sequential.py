"""Run until the interval is narrow enough, without spoiling the interval by looking.

Stopping as soon as an interval happens to be narrow favours samples whose spread happens to be small,
and such intervals cover less than they say. Stein's two stages (Ann. Math. Stat. 16, 1945, 243-258)
avoid that: the spread of a first stage alone fixes the number of runs and the interval's width, the
mean uses all runs; for normal figures the coverage is exactly nominal whatever number was run.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from scipy import stats

from servsim.errors import UsageError
from servsim.statistics.comparison import Difference, runs_for_absolute
from servsim.statistics.intervals import Estimate, estimate, student_quantile

#: Runs of the first stage: fewer leave Student's factor so large that the second stage gets long.
FIRST_STAGE = 10


def wished_runs(first: Sequence[float], precision: float, confidence: float = 0.95) -> int:
    """Return how many runs in all Stein's rule asks for after the first stage.

    Parameters
    ----------
    first : sequence of float
        Figures of the first stage, at least two.
    precision : float
        Wished half-width as a share of the mean, for example 0.01.
    confidence : float, default 0.95
        Coverage of the interval.

    Raises
    ------
    UsageError
        With fewer than two runs, a mean of zero, or a precision that is not positive.
    """
    known = estimate(first, confidence)
    if known.sd is None:
        raise UsageError("a first stage needs at least two runs")
    return runs_for_absolute(known.sd, known.n, precision * abs(known.mean), confidence)


def two_stage(values: Sequence[float], first: int, confidence: float = 0.95) -> Estimate:
    """Estimate the mean of all values with the spread of the first ``first`` alone.

    Returns an `Estimate` whose ``sd`` is that of the first stage.
    """
    data = np.asarray(values, dtype=float)
    known = estimate(data[:first].tolist(), confidence)
    if known.sd is None:
        raise UsageError("a first stage needs at least two runs")
    half = student_quantile(confidence, first - 1) * known.sd / sqrt(data.size)
    mean = float(data.mean())
    return Estimate(int(data.size), mean, known.sd, mean - half, mean + half, confidence)


def two_stage_difference(a: Sequence[float], b: Sequence[float], first: int, confidence: float = 0.95) -> Difference:
    """Estimate a paired difference as `two_stage` estimates a mean: spread of the first stage only."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    gaps = x - y
    known = two_stage(gaps.tolist(), first, confidence)
    assert known.sd is not None and known.low is not None and known.high is not None
    error = known.sd / sqrt(known.n)
    p = 2 * float(stats.t.sf(abs(known.mean) / error, first - 1)) if error else float(known.mean == 0)
    related = x.std() > 0 and y.std() > 0
    correlation = float(np.corrcoef(x, y)[0, 1]) if related else None
    return Difference(known.mean, known.low, known.high, p, True, correlation)
