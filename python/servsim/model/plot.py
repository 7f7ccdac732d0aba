"""Plots of a solved model as one self-contained SVG file: no plotting library, no remote resources.

Three panels: throughput against population with its bounds, response against population, and
utilisation per station.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.model.network import Network
from servsim.model.results import Columns, Solution

WIDTH, HEIGHT, MARGIN = 360, 260, 48
INK, LINE, BOUND, BAR = "#222222", "#1f5fa8", "#b9b9b9", "#4a90c2"


def _ticks(high: float) -> list[float]:
    """Round values from 0 to just past ``high``, four to eight of them."""
    if high <= 0.0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high))
    step = next(power * f for f in (0.2, 0.5, 1.0, 2.0) if high / (power * f) <= 7.0)
    return [i * step for i in range(math.ceil(high / step - 1e-9) + 1)]


def _text(x: float, y: float, text: str, anchor: str = "middle", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


class _Panel:
    """One set of axes at a horizontal offset."""

    def __init__(self, offset: float, title: str, x_label: str, x_high: float, y_high: float) -> None:
        self.offset = offset
        self.x_ticks, self.y_ticks = _ticks(x_high), _ticks(y_high)
        self.marks = [
            _text(offset + WIDTH / 2, 20, title, size=13),
            _text(offset + WIDTH / 2, HEIGHT - 8, x_label),
        ]
        for tick in self.y_ticks:
            y = self.y(tick)
            self.marks.append(
                f'<line x1="{self.x(0):.1f}" y1="{y:.1f}" x2="{offset + WIDTH - 12:.1f}" y2="{y:.1f}" '
                'stroke="#e6e6e6"/>'
            )
            self.marks.append(_text(self.x(0) - 5, y + 4, f"{tick:g}", "end"))

    def x(self, value: float) -> float:
        return self.offset + MARGIN + (WIDTH - MARGIN - 12) * value / self.x_ticks[-1]

    def y(self, value: float) -> float:
        return HEIGHT - MARGIN + 6 - (HEIGHT - MARGIN - 26) * value / self.y_ticks[-1]

    def curve(self, xs: Sequence[float], ys: Sequence[float | None], colour: str, dashed: bool = False) -> None:
        """Draw the points that have a value, joined."""
        points = " ".join(
            f"{self.x(x):.1f},{self.y(min(y, self.y_ticks[-1])):.1f}"
            for x, y in zip(xs, ys, strict=True)
            if y is not None
        )
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.marks.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')

    def x_axis(self) -> None:
        """Label the horizontal axis with round numbers."""
        self.marks += [_text(self.x(t), HEIGHT - MARGIN + 22, f"{t:g}") for t in self.x_ticks]

    def bars(self, names: Sequence[str], values: Sequence[float]) -> None:
        """Draw one bar per name."""
        width = (WIDTH - MARGIN - 12) / max(len(names), 1)
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            left, top = self.x(0) + i * width, self.y(value)
            self.marks.append(
                f'<rect x="{left + width * 0.15:.1f}" y="{top:.1f}" width="{width * 0.7:.1f}" '
                f'height="{self.y(0) - top:.1f}" fill="{BAR}">'
                f"<title>{escape(name)}: {value:.1%}</title></rect>"
            )
            short = name if len(name) * 6 < width else name[: max(2, int(width / 6) - 1)] + "…"
            self.marks.append(_text(left + width / 2, HEIGHT - MARGIN + 22, short, size=10))


def draw(solution: Solution, curve: Columns | None) -> str:
    """Return the SVG text for a solution, with curves over population when there are any."""
    panels = []
    if curve:
        xs = curve["population"]
        highs = [h for h in curve["high"] if h is not None]
        top = max([*curve["throughput"], *highs])
        panel = _Panel(0, "throughput (per second)", "customers", max(xs), top)
        panel.curve(xs, curve["low"], BOUND, dashed=True)
        panel.curve(xs, curve["high"], BOUND, dashed=True)
        panel.curve(xs, curve["throughput"], LINE)
        panel.x_axis()
        panels.append(panel)
        panel = _Panel(WIDTH, "response (seconds)", "customers", max(xs), max(curve["response"]))
        panel.curve(xs, curve["response"], LINE)
        panel.x_axis()
        panels.append(panel)
    used = solution.utilization
    panel = _Panel(WIDTH * len(panels), "utilisation", "stations", 1.0, 1.0)
    panel.bars(list(used), list(used.values()))
    panels.append(panel)
    body = "\n".join(mark for p in panels for mark in p.marks)
    width = WIDTH * len(panels)
    frame = f'width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame} font-family="sans-serif" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def save(path: Path, network: Network, solution: Solution, population: int, solver: str) -> None:
    """Solve over populations up to ``population`` (none for an open model) and write the plot.

    Raises
    ------
    UsageError, EnvironmentProblem
        When the name asks for another format, or the file cannot be written.
    """
    if path.suffix.lower() not in (".svg", ""):
        raise UsageError(f"a plot is SVG, which browsers show and {path.suffix} is not; end the name with .svg")
    from servsim.model.solving import curve

    steps = sorted({max(1, round(population * i / 60)) for i in range(1, 61)}) if population > 0 else []
    svg = draw(solution, curve(network, steps, solver) if steps else None)
    atomic_write(path, svg)
