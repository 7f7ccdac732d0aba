"""Dot plot: every raw replication as a dot, the interval of the mean as a bar behind them.

One row per result on a common axis. The axis need not begin at zero: dots show position, not length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servsim.report.charts.svg import Scale, axis, grid, percent, scale, tag
from servsim.report.format import interval
from servsim.statistics.intervals import Estimate

HEIGHT = 44
RADIUS = 3.5

#: Distance across, in percent, under which two dots would touch on a page of common width.
TOUCHING = 1.3


@dataclass(frozen=True)
class Row:
    """One result: its name, raw values and estimate; what is said beside the name, and what each dot is."""

    name: str
    values: Sequence[float]
    known: Estimate
    told: str | None = None
    dots: str = "replications"


def dot_plot(rows: Sequence[Row], unit: str) -> Markup:
    """Return the dot plot of one figure for one or several results."""
    ends = [value for row in rows for value in (*row.values, row.known.low, row.known.high) if value is not None]
    margin = max(ends) * 0.06 - min(ends) * 0.06 or abs(max(ends)) * 0.06 or 0.06
    across = scale(min(ends) - margin, max(ends) + margin, ticks=4)
    named = len(rows) > 1
    parts = [part for row in rows for part in (_label(row, unit, named), _plot(row, across, unit))]
    return tag("div", *parts, axis(across, unit), class_="chart dots")


def _label(row: Row, unit: str, named: bool) -> Markup:
    name = [tag("b", row.name), " "] if named else []
    return tag("p", *name, tag("span", _told(row, unit)), class_="row-label")


def _told(row: Row, unit: str) -> str:
    return interval(row.known, unit) if row.told is None else row.told


def _plot(row: Row, across: Scale, unit: str) -> Markup:
    middle = HEIGHT / 2
    parts = grid(across, HEIGHT)
    if row.known.low is not None and row.known.high is not None:
        left, right = across(row.known.low), across(row.known.high)
        parts.append(
            tag(
                "rect",
                x=percent(left),
                width=percent(right - left),
                y=middle - 13,
                height=26,
                class_="interval",
            )
        )
        at = percent(across(row.known.mean))
        parts.append(tag("line", x1=at, x2=at, y1=middle - 13, y2=middle + 13, class_="mean"))
    for place, offset in spread([across(value) for value in row.values]):
        parts.append(tag("circle", cx=percent(place), cy=middle + offset, r=RADIUS, class_="dot"))
    said = f"{row.name}: {_told(row, unit)}; {len(row.values)} {row.dots} drawn as dots"
    return tag("svg", *parts, width="100%", height=HEIGHT, role="img", aria_label=said)


def spread(places: Sequence[float]) -> list[tuple[float, float]]:
    """Move dots that would touch off the middle line, in turn above and below it.

    Returns pairs of position across (percent) and offset down (pixels), from left to right.
    """
    steps = [0.0, -2 * RADIUS - 1, 2 * RADIUS + 1]
    last = [float("-inf")] * len(steps)
    placed = []
    for place in sorted(places):
        free = [lane for lane, taken in enumerate(last) if place - taken >= TOUCHING]
        lane = free[0] if free else min(range(len(last)), key=lambda lane: last[lane])
        last[lane] = place
        placed.append((place, steps[lane]))
    return placed
