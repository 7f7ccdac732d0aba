"""Plots of an evaluation as SVG text, without a plotting library.

Two panels: response-time quantiles (simulated against real; the diagonal is perfect) and densities
on a logarithmic time axis. Data come from ``evaluate()``'s ``quantiles``.
"""

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _MARGIN = 420, 340, 52
_COLOURS = {"real": "#222222", "one-step": "#1f77b4", "free-running": "#d62728"}


def _path(points: Sequence[tuple[float, float]], colour: str) -> str:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{joined}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" {extra}>{escape(text)}</text>'


class _LogAxis:
    """Maps positive values to pixels on a logarithmic scale."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high = math.log10(low), math.log10(max(high, low * 1.01))
        self.begin, self.end = begin, end

    def __call__(self, value: float) -> float:
        share = (math.log10(max(value, 10**self.low)) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[float]:
        return [10.0**k for k in range(math.ceil(self.low), math.floor(self.high) + 1)]


def _frame(left: float, title: str, x_name: str, y_name: str) -> list[str]:
    inner = _WIDTH - 2 * _MARGIN
    return [
        f'<rect x="{left + _MARGIN}" y="{_MARGIN}" width="{inner}" height="{_HEIGHT - 2 * _MARGIN}" '
        'fill="none" stroke="#999"/>',
        _text(left + _WIDTH / 2, 30, title, extra='font-weight="bold"'),
        _text(left + _WIDTH / 2, _HEIGHT - 14, x_name),
        _text(left + 14, _HEIGHT / 2, y_name, extra=f'transform="rotate(-90 {left + 14} {_HEIGHT / 2})"'),
    ]


def _density(probability: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """Probability per decade between quantiles some way apart, which smooths the steps."""
    step = 4
    points = []
    for at in range(0, len(values) - step, 2):
        width = math.log10(max(values[at + step], 1e-9)) - math.log10(max(values[at], 1e-9))
        middle = math.sqrt(max(values[at], 1e-9) * max(values[at + step], 1e-9))
        points.append((middle, (probability[at + step] - probability[at]) / max(width, 0.01)))
    return points


def evaluation_svg(device: dict[str, Any]) -> str:
    """Draw one device of an evaluation.

    Parameters
    ----------
    device
        An entry of ``evaluate()["devices"]``.

    Returns
    -------
    str
        A complete SVG document.
    """
    quantiles = device["quantiles"]
    probability = quantiles["probability"]
    series = {
        "real": quantiles["real_ms"],
        "one-step": quantiles["one_step_ms"],
        "free-running": quantiles["free_running_ms"],
    }
    low = max(min(min(values) for values in series.values()), 1e-4)
    high = max(max(values) for values in series.values())
    bottom, top, inner = _HEIGHT - _MARGIN, _MARGIN, _WIDTH - _MARGIN
    parts = _frame(0, f"{device['device']}: quantiles, {device['model']}", "real, ms", "simulated, ms")
    x, y = _LogAxis(low, high, _MARGIN, inner), _LogAxis(low, high, bottom, top)
    parts.append(_path([(x(low), y(low)), (x(high), y(high))], "#bbbbbb"))
    for tick in x.ticks():
        parts.append(_text(x(tick), bottom + 14, f"{tick:g}"))
        parts.append(_text(_MARGIN - 4, y(tick) + 4, f"{tick:g}", "end"))
    for name in ("one-step", "free-running"):
        points = [(x(real), y(ours)) for real, ours in zip(series["real"], series[name], strict=True)]
        parts.append(_path(points, _COLOURS[name]))
    parts += _frame(_WIDTH, f"{device['device']}: densities", "response, ms", "probability per decade")
    x = _LogAxis(low, high, _WIDTH + _MARGIN, _WIDTH + inner)
    densities = {name: _density(probability, values) for name, values in series.items()}
    highest = max(height for points in densities.values() for _, height in points)
    for tick in x.ticks():
        parts.append(_text(x(tick), bottom + 14, f"{tick:g}"))
    for row, (name, points) in enumerate(densities.items()):
        pixels = [(x(value), bottom - height / highest * (bottom - top)) for value, height in points]
        parts.append(_path(pixels, _COLOURS[name]))
        parts.append(_text(_WIDTH + inner - 6, top + 14 + 14 * row, name, "end", f'fill="{_COLOURS[name]}"'))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
