"""Where what grows with the load passes a limit: the last number within it, in few steps, for each may take seconds."""

import math
from collections.abc import Callable


def nearly_last_within(beyond: Callable[[float], float], low: float, high: float) -> float:
    """Return a number within 0.5 % of the largest where `beyond` is not above zero, as at `low` and unlike `high`."""
    while high - low > 0.005 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if beyond(middle) <= 0.0 else (low, middle)
    return low


def last_within(beyond: Callable[[float], float], low: float, high: float) -> float:
    """Return the largest whole number at which `beyond` is not above zero, as at `low` and unlike `high`.

    Response times hardly grow at first, and in a straight line beyond saturation: the line through two numbers that are
    too large leads to one of millions of users in a few steps. Where it does not, the middle is next.
    """
    above = (high, beyond(high))
    root, idle = math.nan, 0
    while (width := high - low) > 1.0:
        guess = root if low < root <= high and idle < 3 else low + width / 2.0
        number = min(max(guess // 1.0, low + 1.0), high - 1.0)
        found = beyond(number)
        if found <= 0.0:
            low = number
        else:
            slope = (above[1] - found) / (high - number)
            root = number - found / slope if 0.0 < slope < math.inf else math.nan
            high, above = number, (number, found)
        idle = idle + 1 if idle < 3 and high - low > width / 2.0 else 0
    return low
