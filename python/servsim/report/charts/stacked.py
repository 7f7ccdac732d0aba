"""Stacked bars: shares of a whole, one bar per row, labelled inside where there is room."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from servsim.report.charts.svg import axis, percent, scale, tag

HEIGHT = 26

#: A segment narrower than this, in percent, has no room for its label on a phone.
LABEL_FROM = 9.5


def legend(names: Mapping[str, str]) -> Markup:
    """Return a legend: class of the swatch, and wording."""
    items = [tag("li", tag("i", "", class_=f"swatch {kind}"), text) for kind, text in names.items()]
    return tag("ul", *items, class_="legend")


def stacked_bars(rows: Sequence[tuple[str, Mapping[str, float]]], names: Mapping[str, str]) -> Markup:
    """Return bars of shares in percent, each row a name and its share by kind (0-100, summing to 100)."""
    parts: list[Markup] = []
    for name, shares in rows:
        parts += [tag("span", name, class_="bar-label"), _bar(name, shares, names)]
    parts += [tag("span", ""), axis(scale(0, 100), "% of processor time")]
    return tag("div", legend(names), tag("div", *parts, class_="bars two"), class_="chart stacked")


def _bar(name: str, shares: Mapping[str, float], names: Mapping[str, str]) -> Markup:
    parts, left = [], 0.0
    for kind in names:
        width = shares.get(kind, 0.0)
        parts.append(tag("rect", x=percent(left), width=percent(width), y=0, height=HEIGHT, class_=f"segment {kind}"))
        if width >= LABEL_FROM:
            at = percent(left + width / 2)
            parts.append(tag("text", f"{width:.0f}%", x=at, y=17, text_anchor="middle", class_=f"in {kind}"))
        left += width
    said = ", ".join(f"{text} {shares.get(kind, 0.0):.1f}%" for kind, text in names.items())
    return tag("svg", *parts, width="100%", height=HEIGHT, role="img", aria_label=f"{name}: {said}")
