"""Building blocks of charts: escaped elements, and a linear scale with round ticks."""

from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup, escape


def tag(name: str, *content: str, **attributes: object) -> Markup:
    """Return an element; content that is not markup is escaped, ``_`` in names becomes ``-``."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"' for key, value in attributes.items()
    )
    inner = "".join(escape(part) for part in content)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def _text(value: object) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    """Return a position across the chart, as SVG writes it."""
    return f"{value:.3f}%"


#: From here on ticks are written with an exponent.
_LONGEST = 1e21

#: Ends of an axis lie within this, so that its steps are numbers too.
_LARGEST = 1e308


@dataclass(frozen=True)
class Scale:
    """A linear scale from ``low`` to ``high``, mapped to 0-100, with ticks at round values."""

    low: float
    high: float
    step: float

    @property
    def ticks(self) -> list[float]:
        """Return the multiples of the step inside the scale."""
        first, last = ceil(self.low / self.step - 1e-9), floor(self.high / self.step + 1e-9)
        return [index * self.step for index in range(first, last + 1)]

    def __call__(self, value: float) -> float:
        """Return the position of a value, in percent of the scale."""
        # Halves, because the ends of the largest numbers are further apart than a number can be.
        return 100 * ((value / 2 - self.low / 2) / (self.high / 2 - self.low / 2))

    @property
    def factor(self) -> float:
        """Return what tick labels are divided by: a million where the numbers would be long."""
        return 1e6 if self.high >= 1e6 else 1.0

    def label(self, value: float) -> str:
        """Write a tick's value, divided by `factor`, with the decimals that its step needs."""
        if max(abs(self.low), abs(self.high)) >= _LONGEST:
            return f"{value / self.factor:.3g}"
        step = self.step / self.factor
        decimals = next(d for d in range(16) if d == 15 or abs(step * 10**d - round(step * 10**d)) < 1e-6)
        return f"{value / self.factor:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def scale(low: float, high: float, ticks: int = 5) -> Scale:
    """Return a scale that covers ``low`` to ``high`` with about ``ticks`` ticks."""
    low, high = (max(-_LARGEST, min(_LARGEST, end)) for end in (low, high))
    if high <= low:
        high = low + (abs(low) or 1.0) * 0.1
    raw = high / ticks - low / ticks
    size = 10.0 ** floor(log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.75)
    return Scale(low, high, step)


def axis(across: Scale, unit: str) -> Markup:
    """Return the axis under a chart: tick labels, and the unit below them."""
    labels = [
        tag("text", across.label(value), x=percent(across(value)), y=12, text_anchor=_anchor(across(value)))
        for value in across.ticks
    ]
    named = unit if across.factor == 1 else f"million {unit}"
    unit_label = tag("text", named, x="100%", y=29, text_anchor="end", class_="unit")
    return tag("svg", *labels, unit_label, class_="axis", width="100%", height=34, aria_hidden="true")


def _anchor(position: float) -> str:
    return "start" if position < 3 else "end" if position > 97 else "middle"


def grid(across: Scale, height: float) -> list[Markup]:
    """Return faint vertical lines at the ticks."""
    places = [percent(across(value)) for value in across.ticks]
    return [tag("line", x1=x, x2=x, y1=0, y2=height, class_="grid") for x in places]
