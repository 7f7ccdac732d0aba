"""Two designs from few runs each: their difference, and how often a single run picks the wrong one.

The probability of a wrong conclusion is estimated as in Alameldeen et al. 2003: take one run of each
design at random; in what share of all such pairs does the design that is worse on average look
better? That share is the Mann-Whitney statistic over n m, so it gets Newcombe's interval for it
(Stat. Med. 25, 2006, 559-573, method 5). Assumes independent runs within each design.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, sqrt

import numpy as np
from scipy import optimize, stats

from servsim.errors import UsageError
from servsim.statistics.intervals import Estimate, student_quantile

#: More runs than this nobody makes; searches for a number of runs end here.
MOST_RUNS = 1_000_000


@dataclass(frozen=True)
class Difference:
    """Mean of a minus mean of b.

    Attributes
    ----------
    mean, low, high : float
        Difference and its interval, in the unit of the values; the ends coincide without spread.
    p : float
        Two-sided probability of a difference at least as large if the designs were equal.
    paired : bool
        Whether runs were paired by seed (paired t) or not (Welch's t).
    correlation : float or None
        Pearson correlation of paired runs; None unpaired or without spread.
    """

    mean: float
    low: float
    high: float
    p: float
    paired: bool
    correlation: float | None

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes equality."""
        return self.low > 0 or self.high < 0


def difference(a: Sequence[float], b: Sequence[float], *, paired: bool, confidence: float = 0.95) -> Difference:
    """Estimate the difference of two means, paired by position or by Welch's t.

    Parameters
    ----------
    a, b : sequence of float
        One figure per run; at least two each, and equally many when paired.
    paired : bool
        Whether the i-th runs belong together (same trace, same seed).
    confidence : float, default 0.95
        Coverage of the interval.

    Returns
    -------
    Difference
        In the unit of the values.

    Raises
    ------
    UsageError
        With fewer than two runs of either, or unequal numbers of paired ones.
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if min(x.size, y.size) < 2:
        raise UsageError("a difference needs at least two runs of each design: use --replications 2 or more")
    if paired and x.size != y.size:
        raise UsageError(f"paired runs must be equally many, not {x.size} and {y.size}")
    gap = float(x.mean() - y.mean())
    if paired:
        error, freedom = float((x - y).std(ddof=1)) / sqrt(x.size), float(x.size - 1)
    else:
        error, freedom = _welch(x, y)
    related = paired and x.std() > 0 and y.std() > 0
    correlation = float(np.corrcoef(x, y)[0, 1]) if related else None
    if error == 0:
        return Difference(gap, gap, gap, 1.0 if gap == 0 else 0.0, paired, correlation)
    half = student_quantile(confidence, freedom) * error
    p = 2 * float(stats.t.sf(abs(gap) / error, freedom))
    return Difference(gap, gap - half, gap + half, p, paired, correlation)


def _welch(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the standard error of the difference and Satterthwaite's degrees of freedom."""
    u, v = x.var(ddof=1) / x.size, y.var(ddof=1) / y.size
    if u + v == 0:
        return 0.0, 1.0
    freedom = (u + v) ** 2 / (u**2 / (x.size - 1) + v**2 / (y.size - 1))
    return sqrt(u + v), float(freedom)


def holm(p: Sequence[float]) -> list[float]:
    """Return Holm's adjusted probabilities of several tests, in the order given (Holm 1979)."""
    adjusted, floor = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        floor = max(floor, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = floor
    return adjusted


@dataclass(frozen=True)
class WrongConclusion:
    """How often one run of each design picks the wrong one.

    Attributes
    ----------
    probability : float
        Share of all pairs of runs, ties counted half; 0.5 when the means are equal.
    low, high : float
        95 % interval of that probability.
    normal : float or None
        The same from means and standard deviations, for normal runs; None without spread.
    """

    probability: float
    low: float
    high: float
    normal: float | None

    def consistent_with(self, other: "WrongConclusion", runs: tuple[int, int], other_runs: tuple[int, int]) -> float:
        """Return the distance to another, independent estimate, in standard errors of both."""
        pooled = min(max((self.probability + other.probability) / 2, 1e-9), 1 - 1e-9)
        spread = _variance(pooled, *runs) + _variance(pooled, *other_runs)
        return (other.probability - self.probability) / sqrt(spread)


def wrong_conclusion(
    a: Sequence[float], b: Sequence[float], *, a_is_better: bool | None = None, lower_is_better: bool = True
) -> WrongConclusion:
    """Estimate how often one run of each design picks the wrong one.

    Parameters
    ----------
    a, b : sequence of float
        One figure per run, at least one each.
    a_is_better : bool, optional
        Which design is truly better; without it, the one with the better mean.
    lower_is_better : bool, default True
        Whether a small figure is good, as cycles per transaction are.

    Returns
    -------
    WrongConclusion
        The share of wrong pairs with its interval.

    Examples
    --------
    >>> wrong_conclusion([1.0, 2.0, 6.0], [4.0, 5.0, 7.0]).probability  # 6 > 4 and 6 > 5: two of nine
    0.2222222222222222
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if not x.size or not y.size:
        raise UsageError("the probability of a wrong conclusion needs at least one run of each design")
    if not lower_is_better:
        x, y = -x, -y
    gap = float(y.mean() - x.mean())
    if a_is_better is None and gap == 0:
        share, sign = 0.5, 1.0
    else:
        right = gap > 0 if a_is_better is None else a_is_better
        sign = 1.0 if right else -1.0
        beats = sign * (x[:, None] - y[None, :])
        share = float(((beats > 0) + 0.5 * (beats == 0)).mean())
    low, high = _newcombe(share, x.size, y.size)
    normal = None
    if min(x.size, y.size) > 1 and (spread := sqrt(x.var(ddof=1) + y.var(ddof=1))) > 0:
        normal = float(stats.norm.cdf(-sign * gap / spread))
    return WrongConclusion(share, low, high, normal)


def _variance(share: float, n: int, m: int) -> float:
    """Variance of the Mann-Whitney share (Hanley & McNeil 1982, with Newcombe's mean sample size)."""
    extra = (n + m) / 2 - 1
    part = extra * ((1 - share) / (2 - share) + share / (1 + share))
    return share * (1 - share) * (1 + part) / (n * m)


def _newcombe(share: float, n: int, m: int, z: float = 1.959964) -> tuple[float, float]:
    """Return the score interval: the shares from which the observed one is z errors away."""

    def beyond(candidate: float) -> float:
        return abs(share - candidate) - z * sqrt(_variance(candidate, n, m))

    def end(limit: float) -> float:
        if share == limit:
            return limit
        # At a share of 0 or 1 the share itself is a root, and not the one wanted.
        return float(optimize.brentq(beyond, limit, share + (limit - share) * 1e-9))

    return end(0.0), end(1.0)


def wrong_with_means(a: Estimate, b: Estimate, runs: int) -> float | None:
    """Return the probability that means of ``runs`` runs each pick the wrong design, for normal runs."""
    if a.sd is None or b.sd is None or a.sd + b.sd == 0:
        return None
    return float(stats.norm.cdf(-abs(a.mean - b.mean) / sqrt((a.sd**2 + b.sd**2) / runs)))


def runs_for_precision(known: Estimate, precision: float) -> int | None:
    """Return how many runs in all give an interval of ± ``precision`` (a share of the mean).

    None when nothing is known of the spread or the mean is zero, or beyond a million runs.
    """
    if known.sd is None or known.mean == 0:
        return None
    wish = precision * abs(known.mean)
    return _fewest(lambda n: _half(known.sd or 0.0, n, known.confidence) <= wish)


def runs_to_separate(a: Estimate, b: Estimate) -> int | None:
    """Return how many runs of each design let their intervals part, at the present means and spreads."""
    if a.sd is None or b.sd is None or a.mean == b.mean:
        return None
    gap, (s, t), confidence = abs(a.mean - b.mean), (a.sd, b.sd), a.confidence
    return _fewest(lambda n: _half(s, n, confidence) + _half(t, n, confidence) < gap)


def _half(sd: float, n: int, confidence: float) -> float:
    return student_quantile(confidence, n - 1) * sd / sqrt(n)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """Return the smallest n from 2 that is enough; the half-width falls with n, so bisection holds."""
    if not enough(MOST_RUNS):
        return None
    low, high = 1, MOST_RUNS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def runs_for_absolute(sd: float, freedom_from: int, half_width: float, confidence: float = 0.95) -> int:
    """Return Stein's (1945) number of runs: a first stage of ``freedom_from`` runs fixes it for good."""
    quantile = student_quantile(confidence, freedom_from - 1)
    if half_width <= 0 or not isfinite(half_width):
        raise UsageError("the wished precision must be a positive share of the mean, for example 0.01")
    return max(freedom_from, ceil((quantile * sd / half_width) ** 2))
