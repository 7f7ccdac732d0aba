"""Horizontal bars from zero, in one or two parts, each with the interval of its total as a whisker.

All bars of a chart share one axis. Bars of several designs stand in groups, one group per kind, so
that what is to be compared lies side by side on one scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servsim.report.charts.stacked import legend
from servsim.report.charts.svg import Scale, axis, grid, percent, scale, tag
from servsim.report.format import mean
from servsim.statistics.intervals import Estimate

HEIGHT = 24


@dataclass(frozen=True)
class Bar:
    """A bar: its name, the total with its interval, and the means of its parts by kind."""

    name: str
    total: Estimate
    parts: Mapping[str, float]


def bars(groups: Mapping[str, Sequence[Bar]], names: Mapping[str, str], unit: str) -> Markup:
    """Return the bars on a common axis from zero.

    Parameters
    ----------
    groups : mapping of str to sequence of Bar
        Bars by the heading of their group; an empty heading is not shown.
    names : mapping of str to str
        Wording of the parts; more than one part gets a legend.
    unit : str
        What the axis counts.
    """
    longest = max(max(row.total.high or 0.0, row.total.mean) for rows in groups.values() for row in rows)
    across = scale(0, longest * 1.02, ticks=2)
    parts: list[Markup] = []
    for heading, rows in groups.items():
        parts += [tag("span", heading, class_="bar-group")] if heading else []
        for row in rows:
            label, value = (
                tag("span", row.name, class_="bar-label"),
                tag("span", mean(row.total), class_="bar-value"),
            )
            parts += [label, _bar(row, heading, across, unit), value]
    parts += [tag("span", ""), axis(across, unit), tag("span", "")]
    head = [legend(names)] if len(names) > 1 else []
    return tag("div", *head, tag("div", *parts, class_="bars three"), class_="chart")


def _bar(row: Bar, heading: str, across: Scale, unit: str) -> Markup:
    parts, left = grid(across, HEIGHT), 0.0
    for kind, value in row.parts.items():
        right = left + value
        start, width = across(left), across(right) - across(left)
        shape = tag("rect", x=percent(start), width=percent(width), y=4, height=16, class_=f"segment {kind}")
        parts.append(shape)
        left = right
    if row.total.low is not None and row.total.high is not None:
        low, high = percent(across(max(0.0, row.total.low))), percent(across(row.total.high))
        parts.append(tag("line", x1=low, x2=high, y1=HEIGHT / 2, y2=HEIGHT / 2, class_="whisker"))
    name = f"{row.name}, {heading}" if heading else row.name
    return tag("svg", *parts, width="100%", height=HEIGHT, role="img", aria_label=f"{name}: {mean(row.total, unit)}")
