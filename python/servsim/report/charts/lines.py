"""Lines over time: single replications thin, their mean thick, the mean's 95 % interval as a band."""

from collections.abc import Sequence
from itertools import zip_longest

from markupsafe import Markup

from servsim.report.charts.svg import Scale, axis, percent, scale, tag
from servsim.statistics.intervals import Estimate, estimate

HEIGHT = 132

#: Room for the labels of the upright axis, in pixels.
MARGIN = 40


def window_estimates(lines: Sequence[Sequence[float]]) -> list[Estimate]:
    """Estimate each window over the replications, as far as at least half of them reach."""
    known = []
    for window in zip_longest(*lines):
        reached = [value for value in window if value is not None]
        if 2 * len(reached) < len(lines):
            break
        known.append(estimate(reached))
    return known


def line_chart(lines: Sequence[Sequence[float]], step: float, title: str, unit_across: str) -> Markup:
    """Return a chart of one value per window of ``step`` units across, one line per replication."""
    windows = max(len(line) for line in lines)
    across = scale(0, windows * step, ticks=4)
    top = max(value for line in lines for value in line) or 1.0
    up = scale(0, top * 1.05, ticks=3)
    known = window_estimates(lines)
    parts = [_band(known, windows, up)]
    parts += [_line(line, windows, up, "single") for line in lines]
    parts.append(_line([window.mean for window in known], windows, up, "mean-line"))
    shape = {"viewBox": "0 0 100 100", "preserveAspectRatio": "none", "width": "100%", "height": "100%"}
    levels, labels = _levels(up)
    plot = tag("svg", *parts, **shape)
    said = f"{title} in {windows} windows over {len(lines)} replications"
    frame = tag("svg", *levels, plot, width="100%", height=HEIGHT, role="img", aria_label=said)
    beside = tag("svg", *labels, width=MARGIN, height=HEIGHT, aria_hidden="true")
    body = tag("div", beside, frame, tag("span", ""), axis(across, unit_across), class_="framed")
    return tag("div", tag("p", title, class_="axis-title"), body, class_="chart lines")


def _levels(up: Scale) -> tuple[list[Markup], list[Markup]]:
    """Return the horizontal lines at the ticks, and their labels for the margin."""
    places = [(value, percent(100 - up(value))) for value in up.ticks]
    lines = [tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid") for _, y in places]
    return lines, [tag("text", up.label(value), x=MARGIN, y=y, dy=4, text_anchor="end") for value, y in places]


def _points(values: Sequence[float], windows: int, up: Scale) -> list[str]:
    middles = [100 * (index + 0.5) / windows for index in range(len(values))]
    return [f"{x:.2f},{100 - up(max(0.0, y)):.2f}" for x, y in zip(middles, values, strict=True)]


def _line(values: Sequence[float], windows: int, up: Scale, kind: str) -> Markup:
    return tag("polyline", points=" ".join(_points(values, windows, up)), class_=kind)


def _band(known: Sequence[Estimate], windows: int, up: Scale) -> Markup:
    low = [window.mean if window.low is None else window.low for window in known]
    high = [window.mean if window.high is None else min(window.high, up.high) for window in known]
    outline = _points(high, windows, up) + _points(low, windows, up)[::-1]
    return tag("polygon", points=" ".join(outline), class_="band")
