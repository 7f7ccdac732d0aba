"""Plots of models as one self-contained file: SVG by itself, or PNG by way of Pillow; no remote resources.

Curves over the load with their bounds, bands and measured points, response, and utilisation per station. Each mark is
described once; :func:`svg` and :func:`png` draw the same ones.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.errors import EnvironmentProblem, UsageError
from servsim.files import atomic_write
from servsim.model.network import Closed, Network, Open
from servsim.model.results import Columns, Solution
from servsim.progress import Show

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT, MARGIN = 360, 280, 48
INK, LINE, BOUND, BAND, BAR, POINT, GRID = "#222222", "#1f5fa8", "#8a8a8a", "#cfe0f2", "#4a90c2", "#c2410c", "#e6e6e6"
#: Pixels of a PNG per unit of an SVG.
SCALE = 2
#: Points of a curve; of one whose points are simulated.
FINE, COARSE = 60, 8
#: Share of the load that saturates a station up to which open curves are drawn.
NEARLY = 0.97


@dataclass(frozen=True)
class Mark:
    """One thing drawn: ``line`` (of points), ``area``, ``dot`` or ``text``, with its corners and colour."""

    kind: str
    points: Sequence[tuple[float, float]]
    colour: str = INK
    dashed: bool = False
    text: str = ""
    anchor: str = "middle"
    size: int = 11


def _ticks(high: float) -> list[float]:
    """Round values from 0 to just past ``high``, four to eight of them."""
    if not (math.isfinite(high) and high > 0.0):
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high))
    step = next(power * f for f in (0.2, 0.5, 1.0, 2.0) if high / (power * f) <= 7.0)
    return [i * step for i in range(math.ceil(high / step - 1e-9) + 1)]


class _Panel:
    """One set of axes at a horizontal offset."""

    def __init__(self, offset: float, title: str, x_label: str, x_high: float, y_high: float) -> None:
        self.offset = offset
        self.x_ticks, self.y_ticks = _ticks(x_high), _ticks(y_high)
        self.marks = [
            Mark("text", [(offset + WIDTH / 2, 20)], text=title, size=13),
            Mark("text", [(offset + WIDTH / 2, HEIGHT - 8)], text=x_label),
        ]
        self.legend_at = HEIGHT - MARGIN - 8.0
        for tick in self.y_ticks:
            y = self.y(tick)
            self.marks.append(Mark("line", [(self.x(0), y), (offset + WIDTH - 12, y)], GRID))
            self.marks.append(Mark("text", [(self.x(0) - 5, y + 4)], text=f"{tick:g}", anchor="end"))

    def x(self, value: float) -> float:
        return self.offset + MARGIN + (WIDTH - MARGIN - 12) * value / self.x_ticks[-1]

    def y(self, value: float) -> float:
        high = self.y_ticks[-1]
        return HEIGHT - MARGIN + 6 - (HEIGHT - MARGIN - 26) * min(max(value, 0.0), high) / high

    def place(self, xs: Sequence[float], ys: Sequence[float | None]) -> list[tuple[float, float]]:
        """Return where the points lie that have a value."""
        return [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True) if y is not None]

    def curve(self, xs: Sequence[float], ys: Sequence[float | None], colour: str, dashed: bool = False) -> None:
        """Draw the points that have a value, joined."""
        self.marks.append(Mark("line", self.place(xs, ys), colour, dashed))

    def band(self, xs: Sequence[float], low: Sequence[float | None], high: Sequence[float | None]) -> None:
        """Fill what lies between two curves."""
        around = self.place(xs, low) + self.place(xs, high)[::-1]
        self.marks.append(Mark("area", around, BAND))

    def dots(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw measured points, those within the axes."""
        self.marks += [Mark("dot", [(self.x(x), self.y(y))], POINT) for x, y in points if x <= self.x_ticks[-1]]

    def legend(self, text: str, colour: str, dashed: bool = False) -> None:
        """Name a colour, above what was named before."""
        right = self.offset + WIDTH - 16
        self.marks.append(Mark("text", [(right - 24, self.legend_at + 4)], text=text, anchor="end", size=10))
        self.marks.append(Mark("line", [(right - 20, self.legend_at), (right, self.legend_at)], colour, dashed))
        self.legend_at -= 14

    def x_axis(self) -> None:
        """Label the horizontal axis with round numbers."""
        ticks = self.x_ticks
        self.marks += [Mark("text", [(self.x(t), HEIGHT - MARGIN + 22)], text=f"{t:g}") for t in ticks]

    def bars(self, used: Mapping[str, float]) -> None:
        """Draw one bar per name."""
        width = (WIDTH - MARGIN - 12) / max(len(used), 1)
        for i, (name, value) in enumerate(used.items()):
            left = self.x(0) + (i + 0.15) * width
            right, top, bottom = left + 0.7 * width, self.y(value), self.y(0)
            corners = [(left, bottom), (left, top), (right, top), (right, bottom)]
            self.marks.append(Mark("area", corners, BAR, text=f"{name}: {value:.1%}"))
            short = name if len(name) * 6 < width else name[: max(2, int(width / 6) - 1)] + "…"
            at = [(left + 0.35 * width, float(HEIGHT - MARGIN + 22))]
            self.marks.append(Mark("text", at, text=short, size=10))


def draw(solution: Solution, curve: Columns | None, x_label: str = "customers") -> list[Mark]:
    """Return the marks of a solution, with curves over the load when there are any."""
    panels: list[_Panel] = []
    if curve:
        xs = curve["population"]
        highs = [h for h in curve["high"] if h is not None]
        panel = _Panel(0, "throughput (per second)", x_label, max(xs), max([*curve["throughput"], *highs]))
        if highs:
            panel.curve(xs, curve["low"], BOUND, dashed=True)
            panel.curve(xs, curve["high"], BOUND, dashed=True)
        panel.curve(xs, curve["throughput"], LINE)
        if highs:
            panel.legend("bounds", BOUND, dashed=True)
        panel.legend(", ".join(dict.fromkeys(curve["solver"])), LINE)
        panel.x_axis()
        panels.append(panel)
        panel = _Panel(WIDTH, "response (seconds)", x_label, max(xs), max(curve["response"]))
        panel.curve(xs, curve["response"], LINE)
        panel.x_axis()
        panels.append(panel)
    pools = {pool["name"]: pool["utilization"] for pool in solution.data.get("pools", [])}
    places = "stations and pools" if pools else "stations"
    panel = _Panel(WIDTH * len(panels), f"utilisation ({solution.solver})", places, 1.0, 1.0)
    panel.bars(solution.utilization | pools)
    return [mark for p in [*panels, panel] for mark in p.marks]


def draw_prediction(columns: Columns, measured: Sequence[Mapping[str, Any]], x_label: str) -> list[Mark]:
    """Return the marks of predictions over the load, with their bands and the measured points."""
    panels: list[_Panel] = []
    xs = columns["load"]
    for key, title in (("throughput", "throughput (per second)"), ("response", "response (seconds)")):
        low, high = columns[f"{key}_low"], columns[f"{key}_high"]
        points = [(float(p["load"]), float(p[key])) for p in measured if p.get(key) is not None]
        ends = [h for h in high if h is not None and math.isfinite(h)]
        panel = _Panel(
            WIDTH * len(panels), title, x_label, max(xs), max([*columns[key], *ends, *(y for _, y in points)])
        )
        if ends:
            panel.band(xs, low, high)
        panel.curve(xs, columns[key], LINE)
        panel.dots(points)
        if points:
            panel.legend("measured", POINT)
        if ends:
            panel.legend("95 % of demands", BAND)
        panel.legend(", ".join(dict.fromkeys(columns["solver"])), LINE)
        panel.x_axis()
        panels.append(panel)
    return [mark for panel in panels for mark in panel.marks]


def svg(marks: Sequence[Mark]) -> str:
    """Return marks as SVG."""
    body = "\n".join(_svg_mark(mark) for mark in marks)
    width = _width(marks)
    frame = f'width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} font-family="sans-serif" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _width(marks: Sequence[Mark]) -> int:
    return WIDTH * math.ceil(max(x for mark in marks for x, _ in mark.points) / WIDTH)


def _thickness(mark: Mark) -> float:
    return 1.0 if mark.colour == GRID else 1.8


def _svg_mark(mark: Mark) -> str:
    if mark.kind == "text":
        ((x, y),) = mark.points
        style = f'text-anchor="{mark.anchor}" font-size="{mark.size}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(mark.text)}</text>'
    if mark.kind == "dot":
        ((x, y),) = mark.points
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{mark.colour}"/>'
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
    if mark.kind == "area":
        title = f"<title>{escape(mark.text)}</title>" if mark.text else ""
        return f'<polygon points="{points}" fill="{mark.colour}">{title}</polygon>'
    dash = ' stroke-dasharray="4 3"' if mark.dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="{mark.colour}" stroke-width="{_thickness(mark)}"{dash}/>'


def png(marks: Sequence[Mark]) -> bytes:
    """Return marks as PNG.

    Raises
    ------
    EnvironmentProblem
        Without Pillow.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise EnvironmentProblem("PNG needs Pillow: pip install 'servsim[plots]', or end the name with .svg") from None
    image = Image.new("RGB", (SCALE * _width(marks), SCALE * HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    for mark in marks:
        _png_mark(pen, mark, [(SCALE * x, SCALE * y) for x, y in mark.points])
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _png_mark(pen: ImageDraw, mark: Mark, points: list[tuple[float, float]]) -> None:
    from PIL import ImageFont

    if mark.kind == "text":
        anchor = {"middle": "ms", "end": "rs", "start": "ls"}[mark.anchor]
        pen.text(points[0], mark.text, fill=INK, anchor=anchor, font=ImageFont.load_default(SCALE * mark.size))
    elif mark.kind == "dot":
        ((x, y),) = points
        pen.ellipse((x - 3 * SCALE, y - 3 * SCALE, x + 3 * SCALE, y + 3 * SCALE), fill=mark.colour)
    elif mark.kind == "area":
        pen.polygon(points, fill=mark.colour)
    elif not mark.dashed:
        pen.line(points, fill=mark.colour, width=round(SCALE * _thickness(mark)), joint="curve")
    else:
        for dash in _dashes(points, 4.0 * SCALE, 3.0 * SCALE):
            pen.line(dash, fill=mark.colour, width=2 * SCALE)


def _dashes(points: Sequence[tuple[float, float]], drawn: float, left: float) -> list[list[tuple[float, float]]]:
    """Cut a line into dashes."""
    found, at = [], 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length = math.hypot(x1 - x0, y1 - y0)
        done = 0.0
        while done < length:
            within = at % (drawn + left)
            step = min((drawn if within < drawn else drawn + left) - within + 1e-9, length - done)
            if within < drawn:
                ends = [(done + s) / length for s in (0.0, step)]
                found.append([(x0 + (x1 - x0) * e, y0 + (y1 - y0) * e) for e in ends])
            at, done = at + step, done + step
    return found


def write(path: Path, marks: Sequence[Mark]) -> None:
    """Write marks in the format that a name asks for.

    Raises
    ------
    UsageError, EnvironmentProblem
        When it asks for another format than SVG or PNG, or the file cannot be written.
    """
    kind = path.suffix.lower()
    if kind not in (".svg", ".png", ""):
        raise UsageError(f"a plot is SVG or PNG, and {path.suffix} is neither; end the name with .svg or .png")
    atomic_write(path, png(marks) if kind == ".png" else svg(marks))


def plot(network: Network, path: str | Path, *, solver: str = "auto", up_to: float | None = None) -> None:
    """Solve a network over its load and draw it.

    Parameters
    ----------
    network : Network
        The model.
    path : str or Path
        File to write, ending in ``.svg`` or ``.png``.
    solver : str
        Solver; ``"auto"`` is exact where it can be.
    up_to : float, optional
        Largest load; twice the model's users, or nearly what saturates an open one.
    """
    from servsim.model.solving import solve

    save(Path(path), network, solve(network, solver), up_to, solver)


def save(
    path: Path,
    network: Network,
    solution: Solution,
    up_to: float | None,
    solver: str,
    progress: Show = lambda *_: None,
) -> None:
    """Draw a solution, with curves up to a load, and write the plot; see :func:`plot`.

    ``progress`` takes what is being done and the share done.
    """
    kinds = {isinstance(c, Open) for c in network.classes}
    curves, label = None, "customers"
    if kinds == {True}:
        curves, label = _open_curves(network, solution, up_to, solver, progress), "requests per second"
    else:
        from servsim.model.solving import curve

        users = sum(c.population for c in network.classes if isinstance(c, Closed))
        most = int(up_to) if up_to is not None else 2 * users
        if most > 0:
            steps = sorted({max(1, round(most * i / FINE)) for i in range(1, FINE + 1)})
            curves = curve(network, steps, solver)
    write(path, draw(solution, curves, label))


def _open_curves(
    network: Network,
    solution: Solution,
    up_to: float | None,
    solver: str,
    progress: Show,
) -> Columns:
    """Solve an open model at rates up to nearly the one that it cannot bear."""
    from servsim.model.planning import load_of, with_load
    from servsim.model.solving import solve

    # Delays are never full: twice the load of a model of nothing else.
    times = NEARLY / solution.busiest if solution.busiest > 0.0 else 2.0
    most = up_to if up_to is not None else load_of(network) * times
    count = COARSE if solution.solver == "simulation" else FINE
    keys = ("population", "throughput", "response", "low", "high", "solver")
    columns: Columns = {key: [] for key in keys}
    for i in range(1, count + 1):
        load = most * i / count
        progress(f"solving at {load:.6g}", (i - 1) / count)
        found = solve(with_load(network, load), solver)
        for key, value in zip(keys, (load, found.throughput, found.response, None, None, found.solver), strict=True):
            columns[key].append(value)
    return columns


def save_prediction(path: Path, network: Network, columns: Columns, measured: Sequence[Mapping[str, Any]]) -> None:
    """Draw predictions with their bands, and the measured points beside them."""
    label = "requests per second" if isinstance(network.classes[0], Open) else "users"
    write(path, draw_prediction(columns, measured, label))
