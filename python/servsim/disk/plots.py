"""Plots of disks as SVG, without a plotting library: panels with axes, alone in a file or within a page.

A panel keeps its size, so that its text is readable on a phone too; in a page it takes the page's colours, light or
dark. Each says in words what it shows.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 340, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 48, 46
#: Colours by name: the page's variable, and what stands for it elsewhere.
_COLOURS = {
    "ink": ("--ink", "#1c2228"),
    "muted": ("--muted", "#5c6670"),
    "rule": ("--rule", "#dfe3e7"),
    "real": ("--memory", "#c8701f"),
    "simulated": ("--user", "#2b6797"),
    "lighter": ("--kernel", "#92bfe0"),
}


def _style(what: str, colour: str, more: str = "") -> str:
    variable, otherwise = _COLOURS[colour]
    return f'style="{what}:var({variable},{otherwise});{more}"'


@dataclass(frozen=True)
class Axis:
    """What an axis shows, from where to where; ``log`` for a logarithmic one."""

    name: str
    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return how far along the axis a value lies: 0 to 1."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return round values, three to nine of them."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1, 2, 5), (1, 3), (1,)):
                found = [10.0**k * step for k in decades for step in steps]
                found = [value for value in found if self.low <= value * 1.001 and value <= self.high * 1.001]
                if len(found) <= 8:
                    return found
            return found[:: math.ceil(len(found) / 8)]
        power = 10.0 ** math.floor(math.log10(self.high - self.low))
        step = next(power * f for f in (0.2, 0.25, 0.5, 1, 2) if (self.high - self.low) / (power * f) <= 6.01)
        return [i * step for i in range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)]


def positive(name: str, values: Iterable[float | None]) -> Axis:
    """Return a logarithmic axis that holds what is above zero of ``values``, and some room."""
    known = [value for value in values if value is not None and value > 0] or [1.0]
    return Axis(name, min(known) / 1.15, max(known) * 1.15, log=True)


def from_zero(name: str, values: Iterable[float]) -> Axis:
    """Return a linear axis from zero to beyond ``values``."""
    return Axis(name, 0.0, 1.06 * max([*values, 1e-12]))


@dataclass
class Panel:
    """One plot with its axes; marks are added by its methods."""

    title: str
    x: Axis
    y: Axis
    marks: list[str] = field(default_factory=list)
    legends: list[tuple[str, str]] = field(default_factory=list)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        across, up = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * self.x.place(x), HEIGHT - _BOTTOM - up * self.y.place(y)

    def line(
        self, xs: Sequence[float], ys: Sequence[float | None], colour: str, name: str = "", dashed: bool = False
    ) -> None:
        """Join the points that have a value; ``name`` stands in the legend."""
        places = [self._at(x, y) for x, y in zip(xs, ys, strict=True) if y is not None]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dash = "stroke-dasharray:5 4;" if dashed else ""
        self.marks.append(
            f'<polyline points="{points}" {_style("stroke", colour, f"fill:none;stroke-width:1.8;{dash}")}/>'
        )
        if name:
            self.legends.append((name, colour))

    def dots(self, points: Iterable[tuple[float, float, float]], colour: str, name: str = "") -> None:
        """Draw a circle of a radius at each point."""
        for x, y, radius in points:
            cx, cy = self._at(x, y)
            self.marks.append(
                f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}" {_style("fill", colour, "opacity:.75")}/>'
            )
        if name:
            self.legends.append((name, colour))

    def diagonal(self) -> None:
        """Draw where both axes say the same."""
        low, high = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        if low < high:
            self.line([low, high], [low, high], "muted", dashed=True)

    def upright(self, x: float, name: str) -> None:
        """Mark a place on the axis across, by name."""
        self.line([x, x], [self.y.low, self.y.high], "muted", dashed=True)
        at, top = self._at(x, self.y.high)
        end = "end" if self.x.place(x) > 0.6 else "start"
        self.marks.append(_text(at + (-5 if end == "end" else 5), top + 14, name, end, "muted"))

    def svg(self, said: str) -> str:
        """Return the panel; ``said`` is what it shows, in words."""
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        parts = [_text(WIDTH / 2, 17, self.title, colour="ink", weight=600)]
        for tick in self.x.ticks():
            x, _ = self._at(tick, self.y.low)
            parts += [_grid(x, _TOP, x, bottom), _text(x, bottom + 17, f"{tick:g}")]
        for tick in self.y.ticks():
            _, y = self._at(self.x.low, tick)
            parts += [_grid(_LEFT, y, right, y), _text(_LEFT - 6, y + 4, f"{tick:g}", "end")]
        parts += [_text((_LEFT + right) / 2, HEIGHT - 8, self.x.name), *self.marks]
        middle = (_TOP + bottom) / 2
        parts.append(f'<g transform="rotate(-90 11 {middle})">{_text(11, middle, self.y.name)}</g>')
        parts += self._legend()
        size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        font = 'font-size="12" font-family="system-ui, sans-serif"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-label={quoteattr(said)}>'
        return "\n".join([head, *parts, "</svg>"])

    def _legend(self) -> list[str]:
        parts, left = [], float(_LEFT)
        for name, colour in self.legends:
            parts.append(f'<rect x="{left:.1f}" y="29" width="10" height="10" {_style("fill", colour)}/>')
            parts.append(_text(left + 14, 38, name, "start"))
            left += 30 + 6.6 * len(name)
        return parts


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "muted", weight: int = 400) -> str:
    said = _style("fill", colour, f"font-weight:{weight}")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {said}>{escape(text)}</text>'


def _grid(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {_style("stroke", "rule")}/>'


def cumulative(device: dict[str, Any]) -> str:
    """Draw the cumulative distributions of an entry of ``evaluate()["devices"]``."""
    known = device["quantiles"]
    percent = [100 * share for share in known["probability"]]
    times = {"measured": known["real_ms"], "simulated": known["free_running_ms"]}
    axis = positive("response, ms", [ms for values in times.values() for ms in values])
    panel = Panel("Cumulative distribution", axis, Axis("requests, %", 0, 100))
    for (name, values), colour in zip(times.items(), ("real", "simulated"), strict=True):
        panel.line([max(ms, axis.low) for ms in values], percent, colour, name)
    return panel.svg("Share of requests with at most a response time, measured and simulated")


def quantiles(device: dict[str, Any]) -> str:
    """Draw simulated quantiles over measured ones; on the diagonal they agree."""
    known = device["quantiles"]
    axis = positive("measured, ms", [*known["real_ms"], *known["free_running_ms"], *known["one_step_ms"]])
    panel = Panel("Quantiles, .5 to 99.9 %", axis, Axis("simulated, ms", axis.low, axis.high, log=True))
    panel.diagonal()
    panel.line(known["real_ms"], known["one_step_ms"], "lighter", "one step")
    panel.line(known["real_ms"], known["free_running_ms"], "simulated", "run freely")
    return panel.svg("Quantiles of simulated responses over those of measured ones")


def slices(device: dict[str, Any]) -> str:
    """Draw the mean of each slice of alike requests, simulated over measured; areas go by requests."""
    each = device["free_running"]["slice"]["each"]
    axis = positive("measured mean, ms", [s[key] for s in each for key in ("real_mean", "simulated_mean")])
    panel = Panel("Slices of alike requests", axis, Axis("simulated mean, ms", axis.low, axis.high, log=True))
    panel.diagonal()
    most = max([s["requests"] for s in each], default=1)
    for name, writes, colour in (("reads", False, "simulated"), ("writes", True, "real")):
        of = [s for s in each if s["is_write"] == writes]
        points = [(s["real_mean"], s["simulated_mean"], 2.5 + 6 * math.sqrt(s["requests"] / most)) for s in of]
        panel.dots(points, colour, name)
    return panel.svg(f"Simulated over measured means of {len(each)} slices")


def over_load(sweep: dict[str, Any]) -> list[str]:
    """Draw responses and throughput over the load, of ``sweep()["devices"][i]["sweep"]``."""
    known = [point for point in sweep["points"] if point["figures"]]
    if not known:
        return []
    loads = [point["load"] for point in known]
    figures = [point["figures"] for point in known]
    across = Axis("load factor", 0.0, 1.03 * loads[-1])
    times: dict[str, list[float]] = {
        key: [f["response"][f"{key}_ms"] for f in figures] for key in ("mean", "p95", "p99")
    }
    responses = Panel(
        "Response over load", across, positive("response, ms", [ms for of in times.values() for ms in of])
    )
    for (name, values), colour in zip(times.items(), ("simulated", "lighter", "real"), strict=True):
        responses.line(loads, values, colour, name)
    arriving = [f["arrivals_per_second"] for f in figures]
    completed = [f["throughput_per_second"] for f in figures]
    throughput = Panel("Throughput over load", across, from_zero("requests/s", arriving))
    throughput.line(loads, arriving, "lighter", "arriving")
    throughput.line(loads, completed, "simulated", "completed")
    for panel in (responses, throughput):
        if knee := sweep["knee"]:
            panel.upright(knee["load"], "knee")
    return [
        responses.svg("Mean, 95th and 99th percentile of the response over the load"),
        throughput.svg("Requests arriving and completed a second over the load"),
    ]


#: Panels of an evaluation, in order.
OF_EVALUATION: tuple[Callable[[dict[str, Any]], str], ...] = (cumulative, quantiles, slices)


def evaluation_svg(device: dict[str, Any]) -> str:
    """Draw one device of an evaluation as one file: distribution, quantiles, slices.

    Parameters
    ----------
    device
        An entry of ``evaluate()["devices"]``.

    Returns
    -------
    str
        A complete SVG document.
    """
    panels = [draw(device) for draw in OF_EVALUATION]
    beside = [panel.replace("<svg ", f'<svg x="{at * WIDTH}" y="24" ', 1) for at, panel in enumerate(panels)]
    title = _text(len(panels) * WIDTH / 2, 18, f"{device['device']}: {device['model']}", colour="ink", weight=600)
    body = "\n".join([title, *beside])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(panels) * WIDTH}" height="{HEIGHT + 24}" font-size="13" '
        f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
