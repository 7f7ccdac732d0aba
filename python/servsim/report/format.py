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
    return grouped(value, _decimals(value, digits))


def _decimals(value: float, digits: int) -> int:
    """Return the decimals of about so many significant digits of a number that is not 0."""
    return min(max(0, digits - 1 - floor(log10(abs(value)))), 6)


def grouped(value: float, decimals: int = 0) -> str:
    """Write a number with a fixed number of decimals, grouped by three; negative ones round to tens."""
    return f"{round(value, decimals):,.{max(0, decimals)}f}".replace(",", GROUP).replace("-", "\N{MINUS SIGN}")


def _unit(unit: str) -> str:
    """Join a unit to its number; only a short unit must stay on the number's line."""
    return "" if not unit else (" " if " " in unit else SPACE) + unit


def places(known: Estimate) -> int:
    """Return decimals for a mean and its interval: two digits of the half-width, four of a mean that never varied."""
    if known.half_width:
        return decimals_for(known.half_width)
    return 0 if known.mean == round(known.mean) else _decimals(known.mean, 4)


def mean(known: Estimate | None, unit: str = "") -> str:
    """Write a mean with the half-width of its interval, or with n where it has none."""
    if known is None:
        return "not recorded"
    unit = _unit(unit)
    half = known.half_width
    if half is None:
        return f"{number(known.mean, 4)}{unit} (n{SPACE}={SPACE}{known.n})"
    decimals = places(known)
    return f"{grouped(known.mean, decimals)}{SPACE}±{SPACE}{grouped(half, decimals)}{unit}"


def interval(known: Estimate, unit: str = "") -> str:
    """Write mean, interval and number of replications in full."""
    unit = _unit(unit)
    if known.low is None or known.high is None or known.half_width is None:
        return f"{number(known.mean, 4)}{unit} (n{SPACE}={SPACE}{known.n}, no interval)"
    decimals = places(known)
    ends = f"{grouped(known.low, decimals)} to {grouped(known.high, decimals)}"
    basis = f"{100 * known.confidence:.0f}{SPACE}% interval {ends}, n{SPACE}={SPACE}{known.n}"
    return f"{grouped(known.mean, decimals)}{unit} ({basis})"


def clock(hertz: float | None) -> str:
    """Write a clock in its natural unit."""
    if hertz is None:
        return "not recorded"
    for unit, scale in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)):
        if hertz >= scale:
            return f"{number(hertz / scale, 3).removesuffix('.00')}{SPACE}{unit}"
    return f"{hertz:g}{SPACE}Hz"
