"""The histograms as Brock et al. (2001, Figures 8 and 9) draw them: accesses over memory, one colour for each node.

Memory is drawn without the parts that nobody touched, what belongs together side by side; where there are more
granules than columns a column shows the highest of its granules.
"""

from collections.abc import Mapping
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.monitor.filters import size
from servsim.report.charts.svg import scale, tag

#: Pixels: the plot itself, and what is around it.
WIDTH, HEIGHT, LEFT, TOP, BELOW = 900, 200, 70, 40, 64
#: Colours of nodes, told apart by the colour-blind too (Okabe and Ito 2008); they begin again after eight.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
#: Names below the axis stand for at least this share of its length.
NAMED = 0.06
#: Characters of a name per pixel of its room.
PER_PIXEL = 0.17


def _columns(histogram: Mapping[str, Any]) -> tuple[list[tuple[str, dict[int, int]]], int]:
    """Return for each column of the plot what lies there and the highest count by node, and the granules in all."""
    granules: dict[str, tuple[tuple[Any, ...], str, dict[int, int]]] = {}
    totals: dict[str, int] = {}
    names = ("address", "virtual_address", "process", "data", "node", "count")
    for address, virtual, process, data, node, count in zip(*(histogram[name] for name in names), strict=True):
        name = data or "(unknown)"
        place = (process or 0, int(virtual or address, 16), int(address, 16))
        nodes = granules.setdefault(address, (place, name, {}))[2]
        nodes[node] = nodes.get(node, 0) + count
        totals[name] = totals.get(name, 0) + count
    ordered = sorted(granules.values(), key=lambda granule: (-totals[granule[1]], granule[1], granule[0]))
    each = max(1, -(-len(ordered) // WIDTH))
    columns = []
    for at in range(0, len(ordered), each):
        highest: dict[int, int] = {}
        for _, _, nodes in ordered[at : at + each]:
            for node, count in nodes.items():
                highest[node] = max(highest.get(node, 0), count)
        columns.append((ordered[at][1], highest))
    return columns, len(ordered)


def panel(one: Mapping[str, Any]) -> Markup:
    """Draw one pass."""
    columns, granules = _columns(one["histogram"])
    nodes = sorted({node for _, counts in columns for node in counts})
    top = max((count for _, counts in columns for count in counts.values()), default=1)
    up, wide = scale(0, top * 1.02, ticks=4), WIDTH / max(1, len(columns))
    title = f"{size(one['granularity_bytes'])} granules: {granules:,} counted, {one['counted']:,} accesses"
    parts = [_text(LEFT, 16, title, weight="bold"), *_legend(nodes), *_ticks(up)]
    for index, (_, counts) in enumerate(columns):
        # The lowest in front, so that none hides another.
        for node, count in sorted(counts.items(), key=lambda item: -item[1]):
            high = HEIGHT * up(count) / 100
            parts.append(
                tag("rect", x=LEFT + index * wide, y=TOP + HEIGHT - high, width=max(wide, 0.6), height=high,
                    fill=_colour(node))
            )  # fmt: skip
    first = 0
    for name, group in groupby(column[0] for column in columns):
        count = len(list(group))
        left, room = LEFT + first * wide, count * wide
        parts.append(tag("line", x1=left, x2=left, y1=TOP + HEIGHT, y2=TOP + HEIGHT + 6, stroke="#666"))
        if room >= NAMED * WIDTH:
            most = max(3, int(room * PER_PIXEL))
            short = name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
            parts.append(tag("g", tag("title", name), _text(left + room / 2, TOP + HEIGHT + 20, short, "middle")))
        first += count
    parts.append(tag("line", x1=LEFT, x2=LEFT + WIDTH, y1=TOP + HEIGHT, y2=TOP + HEIGHT, stroke="#666"))
    below = "memory, by data structure and address; what nobody touched is left out"
    parts.append(_text(LEFT + WIDTH / 2, TOP + HEIGHT + 46, below, "middle"))
    whole, high = LEFT + WIDTH + 20, TOP + HEIGHT + BELOW
    background = tag("rect", width=whole, height=high, fill="#ffffff")
    return tag(
        "svg", background, *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {whole} {high}", width="100%",
        font_family="sans-serif", font_size=12, role="img", aria_label=title
    )  # fmt: skip


def _colour(node: int) -> str:
    return COLOURS[(node - 1) % len(COLOURS)]


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, font_weight=weight, fill="#333333")


def _legend(nodes: list[int]) -> list[Markup]:
    parts, right = [], LEFT + WIDTH
    for place, node in enumerate(reversed(nodes[: len(COLOURS)])):
        left = right - 70 * (place + 1)
        parts += [
            tag("rect", x=left, y=22, width=10, height=10, fill=_colour(node)),
            _text(left + 14, 31, f"node {node}"),
        ]
    return parts


def _ticks(up: Any) -> list[Markup]:
    parts = []
    for value in up.ticks:
        y = TOP + HEIGHT * (1 - up(value) / 100)
        parts += [
            tag("line", x1=LEFT, x2=LEFT + WIDTH, y1=y, y2=y, stroke="#dddddd"),
            _text(LEFT - 6, y + 4, up.label(value), "end"),
        ]
    named = "accesses" if up.factor == 1 else "million accesses"
    return [*parts, _text(LEFT - 6, 31, named, "end")]


def write(watched: Mapping[str, Any], output: Path) -> None:
    """Write the plots of all passes, as one SVG or, by the name's ending, as an HTML page.

    Raises
    ------
    UsageError
        When the name ends neither with ``.svg`` nor with ``.html``.
    """
    panels = [panel(one) for one in watched["passes"]]
    title = f"{watched['trace']['name']} on {watched['machine']['name']}: accesses that a {watched['mode']} sees"
    whole, high = LEFT + WIDTH + 20, TOP + HEIGHT + BELOW
    if output.suffix == ".svg":
        moved = [tag("g", one, transform=f"translate(0 {24 + place * high})") for place, one in enumerate(panels)]
        sized = [str(one).replace('width="100%"', f'width="{whole}" height="{high}"') for one in moved]
        head = f'<text x="{LEFT}" y="18" font-family="sans-serif" font-size="14">{escape(title)}</text>'
        box = f'width="{whole}" height="{24 + high * len(panels)}"'
        background = '<rect width="100%" height="100%" fill="#ffffff"/>'
        text = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{background}{head}{"".join(sized)}</svg>\n'
    elif output.suffix == ".html":
        charset = '<meta charset="utf-8">'
        style = "<style>body{font-family:sans-serif;max-width:64rem;margin:1rem auto}</style>"
        head = f"<head>{charset}<title>{escape(title)}</title>{style}</head>"
        figures = "".join(f"<figure>{one}</figure>" for one in panels)
        text = f'<!doctype html>\n<html lang="en">{head}<body><h1>{escape(title)}</h1>{figures}</body></html>\n'
    else:
        raise UsageError(f"--plot {output}: write it as .svg or .html")
    atomic_write(output, text)
