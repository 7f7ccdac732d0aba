"""Means with their Student-t interval.

Alameldeen et al. 2003 run every configuration several times, each with other small random memory
delays, and take the standard deviation of the runs for a confidence interval. Replications are few
(ten, say), so the interval is Student's with n - 1 degrees of freedom rather than the normal one.
Assumes independent replications and a roughly normal mean; a bootstrap interval is for skewed ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from servsim.errors import UsageError

#: Fewest independent values whose interval is shown: with one degree of freedom it reaches 13 standard errors.
LEAST = 3


@dataclass(frozen=True)
class Estimate:
    """A mean, with how well it is known.

    Attributes
    ----------
    n : int
        Number of replications, at least 1.
    mean : float
        Arithmetic mean, in the unit of the values.
    sd : float or None
        Sample standard deviation (divisor n - 1); None when n is 1.
    low, high : float or None
        Ends of the interval; None when n is 1, for one value says nothing about its spread,
        and where `reported` withholds them.
    confidence : float
        Coverage of the interval, for example 0.95.
    """

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None
    confidence: float = 0.95

    @property
    def half_width(self) -> float | None:
        """Half the interval's width, or None when there is no interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def document(self) -> dict[str, object]:
        """Return mean, interval (None where there is none) and n, as JSON of all commands has them."""
        interval = None if self.low is None else [self.low, self.high]
        return {"mean": self.mean, "interval_95": interval, "n": self.n}

    def overlaps(self, other: "Estimate") -> bool:
        """Return whether the intervals share a point; one without interval overlaps everything."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return True
        return self.low <= other.high and other.low <= self.high


def student_quantile(confidence: float, freedom: float) -> float:
    """Return how many standard errors an interval reaches to each side of its middle, by Student's t.

    Parameters
    ----------
    confidence : float
        Coverage of the interval, between 0 and 1.
    freedom : float
        Degrees of freedom, more than 0.
    """
    # `scipy.stats` takes ten times as long to load, and every simulation of several runs has intervals.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Estimate the mean of replications with a Student-t interval.

    Parameters
    ----------
    values : sequence of float
        One figure per replication; all finite, at least one.
    confidence : float, default 0.95
        Coverage of the interval, between 0 and 1, both exclusive.

    Returns
    -------
    Estimate
        Mean, standard deviation and interval in the unit of ``values``.

    Raises
    ------
    UsageError
        If ``values`` is empty or holds a value that is not finite, or ``confidence`` is out of range.

    Examples
    --------
    >>> known = estimate([9.0, 10.0, 11.0])
    >>> known.n, known.mean, round(known.half_width, 3)
    (3, 10.0, 2.484)
    """
    data = np.asarray(values, dtype=float)
    if data.size == 0 or not np.isfinite(data).all():
        raise UsageError("a mean needs at least one value, and every value finite")
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence} is out of range: give one between 0 and 1")
    # Of equal values a rounded mean may differ from each, and that is no spread.
    mean = float(data.mean()) if np.ptp(data) else float(data[0])
    if data.size == 1:
        return Estimate(1, mean, None, None, None, confidence)
    sd = float(data.std(ddof=1)) if np.ptp(data) else 0.0
    half = student_quantile(confidence, data.size - 1) * sd / sqrt(data.size)
    return Estimate(int(data.size), mean, sd, mean - half, mean + half, confidence)


def reported(values: Sequence[float]) -> Estimate:
    """Return the `estimate` that summaries, tables and pages show: without an interval of fewer than `LEAST` values.

    Examples
    --------
    >>> reported([9.0, 11.0]).half_width, reported([9.0, 10.0, 11.0]).n
    (None, 3)
    """
    known = estimate(values)
    return known if known.n >= LEAST else replace(known, low=None, high=None)
