"""Lines over time: single replications thin, their mean thick, the mean's 95 % interval as a band.

Several designs get one chart each, below one another, with the same axes. The axes hold every line and
band whole; only what no run can pass, zero and a given ceiling, ends a band.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servsim.report.charts.svg import Scale, axis, percent, scale, tag
from servsim.statistics.intervals import Estimate, reported

HEIGHT = 132

#: Room for the labels of the upright axis, in pixels.
MARGIN = 40


@dataclass(frozen=True)
class Series:
    """One design's figure: a value for each step of time, one line per replication."""

    name: str
    lines: Sequence[Sequence[float]]
    step: float


def step_estimates(lines: Sequence[Sequence[float]]) -> list[Estimate]:
    """Estimate each step over the replications, as far as all of them reach."""
    return [reported(values) for values in zip(*lines, strict=False)]


def line_charts(
    series: Sequence[Series], title: str, unit_across: str, ceiling: float | None = None, named: bool = True
) -> Markup:
    """Return one chart per design on common axes.

    Parameters
    ----------
    series : sequence of Series
        At least one, each with at least one step.
    title : str
        The figure with its unit.
    unit_across : str
        Unit of the time axis.
    ceiling : float, optional
        Highest value that the figure can have, such as 100 for a share in percent.
    named : bool, default True
        Whether each chart bears its design's name.
    """
    known = [step_estimates(one.lines) for one in series]
    highs = [window.high for windows in known for window in windows if window.high is not None]
    top = max([value for one in series for line in one.lines for value in line] + highs)
    top = min(top, ceiling) if ceiling is not None else top
    up = scale(0, (top or 1.0) * 1.05, ticks=3)
    across = scale(0, max(one.step * len(line) for one in series for line in one.lines), ticks=4)
    charts = [_chart(one, windows, across, up, named) for one, windows in zip(series, known, strict=True)]
    body = tag("div", *charts, tag("span", ""), axis(across, unit_across), class_="framed")
    return tag("div", tag("p", title, class_="axis-title"), body, class_="chart lines")


def _chart(one: Series, known: Sequence[Estimate], across: Scale, up: Scale, named: bool) -> Markup:
    parts = [_band(known, one.step, across, up)]
    parts += [_line(line, one.step, across, up, "single") for line in one.lines]
    parts.append(_line([window.mean for window in known], one.step, across, up, "mean-line"))
    shape = {"viewBox": "0 0 100 100", "preserveAspectRatio": "none", "width": "100%", "height": "100%"}
    levels, labels = _levels(up)
    said = f"{one.name} in {len(known)} steps over {len(one.lines)} replications"
    frame = tag("svg", *levels, tag("svg", *parts, **shape), width="100%", height=HEIGHT, role="img", aria_label=said)
    beside = tag("svg", *labels, width=MARGIN, height=HEIGHT, aria_hidden="true")
    head = [tag("p", one.name, class_="line-name")] if named else []
    return Markup("").join([*head, beside, frame])


def _levels(up: Scale) -> tuple[list[Markup], list[Markup]]:
    """Return the horizontal lines at the ticks, and their labels for the margin."""
    places = [(value, percent(100 - up(value))) for value in up.ticks]
    lines = [tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid") for _, y in places]
    return lines, [tag("text", up.label(value), x=MARGIN, y=y, dy=4, text_anchor="end") for value, y in places]


def _points(values: Sequence[float], step: float, across: Scale, up: Scale) -> list[str]:
    middles = [across((index + 0.5) * step) for index in range(len(values))]
    heights = [100 - up(min(max(up.low, value), up.high)) for value in values]
    return [f"{x:.2f},{y:.2f}" for x, y in zip(middles, heights, strict=True)]


def _line(values: Sequence[float], step: float, across: Scale, up: Scale, kind: str) -> Markup:
    return tag("polyline", points=" ".join(_points(values, step, across, up)), class_=kind)


def _band(known: Sequence[Estimate], step: float, across: Scale, up: Scale) -> Markup:
    low = [window.mean if window.low is None else window.low for window in known]
    high = [window.mean if window.high is None else window.high for window in known]
    outline = _points(high, step, across, up) + _points(low, step, across, up)[::-1]
    return tag("polygon", points=" ".join(outline), class_="band")
