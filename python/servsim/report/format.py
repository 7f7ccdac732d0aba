"""Numbers as text: no digit that the interval does not justify, and never a mean without interval."""

from math import floor, log10

from servsim.statistics.intervals import Estimate
from servsim.text import decimals_for

#: Narrow no-break space, which groups digits by three.
GROUP = "\N{NARROW NO-BREAK SPACE}"
SPACE = "\N{NO-BREAK SPACE}"


def number(value: float, digits: int = 3) -> str:
    """Write a number with about ``digits`` significant digits, and whole above that."""
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - floor(log10(abs(value))))
    return grouped(value, min(decimals, 6))


def grouped(value: float, decimals: int = 0) -> str:
    """Write a number with a fixed number of decimals, grouped by three; negative ones round to tens."""
    return f"{round(value, decimals):,.{max(0, decimals)}f}".replace(",", GROUP).replace("-", "\N{MINUS SIGN}")


def _unit(unit: str) -> str:
    """Join a unit to its number; only a short unit must stay on the number's line."""
    return "" if not unit else (" " if " " in unit else SPACE) + unit


def mean(known: Estimate | None, unit: str = "") -> str:
    """Write a mean with the half-width of its interval, or with n where it has none."""
    if known is None:
        return "not recorded"
    unit = _unit(unit)
    half = known.half_width
    if half is None:
        return f"{number(known.mean, 4)}{unit} (n{SPACE}={SPACE}{known.n})"
    places = decimals_for(half) if half else (0 if known.mean == round(known.mean) else 2)
    return f"{grouped(known.mean, places)}{SPACE}±{SPACE}{grouped(half, places)}{unit}"


def interval(known: Estimate, unit: str = "") -> str:
    """Write mean, interval and number of replications in full."""
    unit = _unit(unit)
    if known.low is None or known.high is None or known.half_width is None:
        return f"{number(known.mean, 4)}{unit} (n{SPACE}={SPACE}{known.n}, no interval)"
    places = decimals_for(known.half_width) if known.half_width else 0
    ends = f"{grouped(known.low, places)} to {grouped(known.high, places)}"
    basis = f"{100 * known.confidence:.0f}{SPACE}% interval {ends}, n{SPACE}={SPACE}{known.n}"
    return f"{grouped(known.mean, places)}{unit} ({basis})"


def clock(hertz: float | None) -> str:
    """Write a clock in its natural unit."""
    if hertz is None:
        return "not recorded"
    for unit, scale in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if hertz >= scale:
            return f"{number(hertz / scale, 3).removesuffix('.00')}{SPACE}{unit}"
    return f"{hertz:g}{SPACE}Hz"
