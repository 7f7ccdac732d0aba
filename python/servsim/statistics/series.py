"""Signs that replications or a run's series are not what intervals assume.

Warm-up: the marginal standard error rule (MSER, White 1997, with windows joined by five) finds where a
series settles; a paired test over replications says whether what precedes differs at all. Outliers:
the modified z-score (Iglewicz & Hoaglin 1993). Autocorrelation: the lag-1 coefficient against the
bound of white noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

#: Modified z-scores beyond this mark outliers (Iglewicz & Hoaglin 1993).
OUTLYING = 3.5

#: Windows joined into one before the MSER rule is applied (White, Cobb & Spratt 2000: MSER-5).
JOINED = 5


@dataclass(frozen=True)
class WarmUp:
    """A beginning that differs from the rest: share of the run, and its change against the rest."""

    share: float
    change: float


def truncation(series: Sequence[float]) -> int:
    """Return how many leading values the MSER rule would cut, at most half of the series.

    The rule minimises the squared standard error of what is left: sum of squares / n².
    """
    data = np.asarray(series, dtype=float)
    count = data.size
    if count < 4:
        return 0
    scores = [data[cut:].var() / (count - cut) for cut in range(count // 2 + 1)]
    return int(np.argmin(scores))


def warm_up(lines: Sequence[Sequence[float]], least_change: float = 0.05) -> WarmUp | None:
    """Find a warm-up in the series of several runs, one value per window of equal length.

    Parameters
    ----------
    lines : sequence of sequence of float
        One series per replication; they are cut to the shortest.
    least_change : float, default 0.05
        Smaller changes, as a share of the rest, are not reported.

    Returns
    -------
    WarmUp or None
        None when nothing is found, or the series are too short to tell (below 4 x `JOINED` windows).
    """
    length = min(map(len, lines), default=0) // JOINED
    if length < 4:
        return None
    data = np.array([np.asarray(line[: length * JOINED], float).reshape(length, JOINED).mean(axis=1) for line in lines])
    cut = truncation(data.mean(axis=0).tolist())
    if cut == 0:
        return None
    before, after = data[:, :cut].mean(axis=1), data[:, cut:].mean(axis=1)
    rest = float(after.mean())
    change = float(before.mean()) / rest - 1 if rest else 0.0
    if abs(change) < least_change:
        return None
    gaps = before - after
    if gaps.size > 1 and gaps.std() > 0 and float(stats.ttest_1samp(gaps, 0.0).pvalue) > 0.01:
        return None
    return WarmUp(cut / length, change)


def outliers(values: Sequence[float]) -> list[int]:
    """Return the positions of values that lie far from the others."""
    data = np.asarray(values, dtype=float)
    if data.size < 5:
        return []
    distance = np.abs(data - np.median(data))
    spread = float(np.median(distance))
    if spread == 0:
        return []
    return [int(i) for i in np.flatnonzero(0.6745 * distance / spread > OUTLYING)]


def autocorrelation(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation; 0 for fewer than three values or without spread."""
    data = np.asarray(values, dtype=float)
    centred = data - data.mean() if data.size else data
    power = float((centred**2).sum())
    return float((centred[1:] * centred[:-1]).sum()) / power if data.size > 2 and power > 0 else 0.0


def is_autocorrelated(values: Sequence[float]) -> bool:
    """Return whether the lag-1 coefficient is beyond the 99 % bound of independent values."""
    return len(values) >= 8 and abs(autocorrelation(values)) > 2.576 / sqrt(len(values))
