"""What the commands of ``servsim model`` print with: columns, times, estimates and their intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from servsim.cli import terminal
from servsim.text import columns

if TYPE_CHECKING:
    from servsim.statistics.intervals import Estimate


def say(text: str) -> None:
    """Print progress, on standard error."""
    terminal.say(f"servsim: {text}")


def table(header: list[str], rows: list[list[str]]) -> None:
    """Print aligned columns; the first is text, the rest are numbers."""
    for line in columns([header, *rows]):
        typer.echo(line)


def note_solvers(by: Sequence[str | None]) -> None:
    """Say which solvers answered, each once, and what their figures are worth."""
    for how in dict.fromkeys(filter(None, by)):
        typer.echo(f"note: by {how}", err=True)


def time_text(seconds: float | None) -> str:
    """Write seconds with a unit that suits their size."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= scale or unit == "us":
            return f"{seconds / scale:.4g} {unit}"
    raise AssertionError("the last unit takes everything")


def interval(value: "Estimate | None", digits: int = 4) -> str:
    """Write an estimate with its interval, or say that there is none."""
    if value is None:
        return "-"
    if value.half_width is None:
        return f"{value.mean:.{digits}g} (n = {value.n}, no interval)"
    return f"{value.mean:.{digits}g} ± {value.half_width:.2g} (n = {value.n})"


def milliseconds(seconds: "Estimate") -> str:
    """Write an estimate of seconds in milliseconds."""
    names = ("mean", "low", "high", "sd")
    scaled: dict[str, Any] = {name: None if (v := getattr(seconds, name)) is None else v * 1e3 for name in names}
    return interval(replace(seconds, **scaled))


def spread(value: "Estimate", scale: float = 1.0) -> str:
    """Write an estimate in columns: the last digits that its interval leaves, and its interval."""
    mean, half = scale * value.mean, None if value.half_width is None else scale * value.half_width
    digits = min(3, max(0, 2 - math.floor(math.log10(max(abs(mean), 1e-2)))))
    if half is None:
        return f"{mean:,.{digits}f} (n = {value.n})"
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"
