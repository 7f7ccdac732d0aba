"""Ratios of a change to its base: with their interval, and how far a prediction is off.

A ratio is taken on logarithms, where it is a difference: symmetric in base and change, and never
negative. Runs of one round (natively) or of one capture seed (simulated) share what drifts, so they
are paired wherever every run of the change has its partner in the base.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from servsim.errors import UsageError
from servsim.statistics.comparison import difference


@dataclass(frozen=True)
class Ratio:
    """A ratio of two throughputs.

    Attributes
    ----------
    mean : float
        Ratio of the geometric means.
    low, high : float or None
        Ends of its 95 % interval; None with fewer than two runs of either.
    n : int
        Runs of the change.
    paired : bool
        Whether runs were paired.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    paired: bool

    def within(self, other: "Ratio") -> bool | None:
        """Return whether the two intervals share a point; None where one has none."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low <= other.high and other.low <= self.high


def ratio(changed: Sequence[float], base: Sequence[float], *, paired: bool) -> Ratio:
    """Return the ratio of two series of throughputs with its 95 % interval.

    Parameters
    ----------
    changed, base : sequence of float
        Throughput of each run, in one unit, all positive; at least one each.
    paired : bool
        Whether the i-th runs of both belong together.

    Examples
    --------
    >>> found = ratio([20.0, 22.0, 21.0], [10.0, 11.0, 10.5], paired=True)
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (2.0, 2.0, 2.0)
    """
    if not changed or not base or min(*changed, *base) <= 0:
        raise UsageError("a ratio needs at least one run of each, and throughputs above zero")
    up, down = [log(value) for value in changed], [log(value) for value in base]
    together = paired and len(up) == len(down)
    if min(len(up), len(down)) < 2:
        middle = exp(sum(up) / len(up) - sum(down) / len(down))
        return Ratio(middle, None, None, len(up), together)
    found = difference(up, down, paired=together)
    return Ratio(exp(found.mean), exp(found.low), exp(found.high), len(up), together)


def error_percent(predicted: Ratio, measured: Ratio) -> float:
    """Return how far a predicted ratio is from the measured one, in percent of the latter, with its sign."""
    return 100 * (predicted.mean / measured.mean - 1)
