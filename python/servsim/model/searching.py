"""Where what grows with the load passes a limit: the last number within it, in few steps, for each may take seconds."""

import math
from collections.abc import Callable


def nearly_last_within(beyond: Callable[[float], float], low: float, high: float, share: float) -> float:
    """Return a number so near the largest where `beyond` is not above zero, as at `low` and unlike `high`."""
    while high - low > share * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if beyond(middle) <= 0.0 else (low, middle)
    return low


def last_within(
    beyond: Callable[[float], float],
    low: float,
    high: float,
    *,
    further: float | None = None,
    leave: Callable[[float], float] = lambda _: 1.0,
) -> float:
    """Return the largest whole number at which `beyond` is not above zero, as at `low` and unlike `high`.

    Response times hardly grow at first, and in a straight line beyond saturation: the line through two numbers that are
    too large leads to one of millions of users in a few steps. Where it does not, the middle is next.

    Parameters
    ----------
    beyond : callable
        Takes a number.
    low, high : float
        Whole numbers.
    further : float, optional
        Another that is too large, beyond `high`.
    leave : callable
        How far from the largest to leave off, at a number that is too large; at least 1.
    """

    def line_meets_zero() -> float:
        if further is None:
            return math.nan
        here, there = beyond(high), beyond(further)
        return high - here * (further - high) / (there - here) if here < there < math.inf else math.nan

    root, idle = line_meets_zero(), 0
    while (width := high - low) > leave(high):
        guess = root if low < root <= high and idle < 3 else low + width / 2.0
        number = min(max(guess // 1.0, low + 1.0), high - 1.0)
        if beyond(number) <= 0.0:
            low = number
        else:
            further, high = high, number
            root = line_meets_zero()
        idle = idle + 1 if idle < 3 and high - low > width / 2.0 else 0
    return low
