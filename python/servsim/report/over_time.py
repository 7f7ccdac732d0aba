"""How a run went: throughput, idle processors, bus and disk over simulated time, as rates over stated steps.

A result counts in short windows, in most of which no transaction ends; drawn as they are they show
spikes where a reader looks for a rate. Here windows are added up to steps: the same for all designs of
a page, and for throughput so long that several transactions end in each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from servsim.report.charts.lines import Series, line_charts
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, number
from servsim.result import Result, number_at

#: Steps that the shortest run is divided into.
STEPS = 24

#: Transactions that end in a step on average, at least; with fewer a rate shows chance, not the run.
ENDED_PER_STEP = 8

#: Fewer steps than this show no course.
FEWEST_STEPS = 4

#: Counts of one replication by window, or None when not recorded.
Counts = Callable[[Mapping[str, Any]], list[float] | None]


@dataclass(frozen=True)
class _Figure:
    """A figure over time: its counts, and what a step's sum is divided by beside the step's length."""

    title: str
    counts: Counts
    per_second: bool
    by_processors: bool = False


def _in_timeline(key: str) -> Counts:
    def counts(replication: Mapping[str, Any]) -> list[float] | None:
        values = [number_at(window, key) for window in replication["timeline"]]
        return None if all(value is None for value in values) else [value or 0.0 for value in values]

    return counts


def _in_windows(*keys: str) -> Counts:
    def counts(replication: Mapping[str, Any]) -> list[float] | None:
        columns = replication.get("windows")
        if not isinstance(columns, Mapping) or not all(isinstance(columns.get(key), Sequence) for key in keys):
            return None
        rows = zip(*(columns[key] for key in keys), strict=False)
        return [sum(number_at({"count": value}, "count") or 0.0 for value in row) for row in rows]

    return counts


THROUGHPUT = _Figure("transactions ended", _in_timeline("transactions"), True)
OTHERS = (
    _Figure("processors idle", _in_windows("idle"), False, by_processors=True),
    _Figure("bus busy", _in_timeline("bus_busy"), False),
    _Figure("disk requests", _in_windows("disk.reads", "disk.writes"), True),
)


@dataclass(frozen=True)
class _Clock:
    """The unit of the time axis: cycles in it, its name, what rates are per, and cycles in that."""

    cycles: float
    name: str
    rate: str
    rate_cycles: float


def _clock(result: Result) -> _Clock:
    hertz = result.clock_hertz
    if hertz is None:
        return _Clock(1e6, "million cycles", "million cycles", 1e6)
    return _Clock(hertz / 1e3, "ms", "second", hertz)


def over_time(results: Sequence[Result], called: Mapping[int, str]) -> Markup | None:
    """Return the charts of how the runs went, or None when no result records its windows."""
    known = [result for result in results if _recorded(result)]
    if not known or len({_clock(result).name for result in known}) > 1:
        return None
    shortest = min(_length(replication) / _clock(result).cycles for result, replication in _runs(known))
    window = max(replication["window_cycles"] / _clock(result).cycles for result, replication in _runs(known))
    ended = min(number_at(replication, "transactions") or 0 for _, replication in _runs(known))
    steps = min(STEPS, int(ended // ENDED_PER_STEP))
    if steps >= FEWEST_STEPS:
        first = _chart(known, called, THROUGHPUT, _step(shortest, steps, window))
    else:
        first = tag(
            "p",
            f"Throughput over time is not shown: {ended:.0f} transactions make no rate; it needs "
            f"{FEWEST_STEPS * ENDED_PER_STEP} or more in every replication.",
            class_="missing",
        )
    step = _step(shortest, STEPS, window)
    charts = [first, *(_chart(known, called, figure, step) for figure in OTHERS)]
    kept = [(len(_detailed(result)), len(result.replications)) for result in known]
    partly = [f"{some} of {all_of_them}" for some, all_of_them in sorted(set(kept)) if some < all_of_them]
    if partly:
        text = f"Of many replications the windows of the first are kept, and drawn here: {', '.join(partly)}."
        charts.append(tag("p", text))
    missing = [called[id(result)] for result in results if result not in known]
    if missing:
        charts.append(tag("p", f"Not recorded in {', '.join(missing)}.", class_="missing"))
    return tag("div", *(chart for chart in charts if chart), class_="charts")


def ended_by_window(replication: Mapping[str, Any]) -> list[float]:
    """Return how many transactions ended in each window; nothing when that is not recorded."""
    windows = replication.get("timeline")
    return THROUGHPUT.counts(replication) or [] if isinstance(windows, list) else []


def _runs(results: Sequence[Result]) -> list[tuple[Result, Mapping[str, Any]]]:
    return [(result, replication) for result in results for replication in _detailed(result)]


def _detailed(result: Result) -> list[Mapping[str, Any]]:
    """Return the replications that have windows of a known length."""

    def has_windows(replication: Mapping[str, Any]) -> bool:
        windows = replication.get("timeline")
        if not (number_at(replication, "window_cycles") or 0) > 0 or not isinstance(windows, list) or not windows:
            return False
        return all(isinstance(window, Mapping) for window in windows)

    return [replication for replication in result.replications if has_windows(replication)]


def _recorded(result: Result) -> bool:
    """Whether windows can be drawn: some replications have them, or all, where captures are averaged."""
    detailed = len(_detailed(result))
    return detailed > 0 and (not result.captures or detailed == len(result.replications))


def _length(replication: Mapping[str, Any]) -> float:
    return float(len(replication["timeline"]) * replication["window_cycles"])


def _step(shortest: float, steps: int, window: float) -> float:
    """Return the length of a step: a whole number of the longest windows."""
    return max(1, round(shortest / steps / window)) * window


def _chart(results: Sequence[Result], called: Mapping[int, str], figure: _Figure, step: float) -> Markup:
    """Return the chart of one figure for all designs that record it, or nothing."""
    series = []
    for result in results:
        clock = _clock(result)
        lines = [_line(replication, figure, step * clock.cycles, clock) for replication in _detailed(result)]
        if all(lines):
            whole = [line for line in lines if line]
            series.append(Series(called[id(result)], _independent(result, whole), step))
    if not any(value for one in series for line in one.lines for value in line):
        return Markup("")
    clock = _clock(results[0])
    unit = f"per {clock.rate}" if figure.per_second else "%"
    title = f"{figure.title}, {unit}, over steps of {number(step)}{SPACE}{clock.name}"
    across = f"{clock.name} of simulated time" if clock.name == "ms" else clock.name
    return line_charts(series, title, across, None if figure.per_second else 100.0, named=len(results) > 1)


def _independent(result: Result, lines: Sequence[list[float]]) -> list[list[float]]:
    """Return the lines of replications, or of several captures the means of each one's, as far as all reach."""
    if not result.captures:
        return list(lines)
    by_step = [result.independent(values) for values in zip(*lines, strict=False)]
    return [list(line) for line in zip(*by_step, strict=True)]


def _line(replication: Mapping[str, Any], figure: _Figure, step: float, clock: _Clock) -> list[float] | None:
    """Return a replication's figure for each whole step, ``step`` in cycles; None when it is not recorded.

    Replications may count in windows of other lengths than the longest, by which the step was chosen: a
    window that lies in two steps is divided between them.
    """
    counts = figure.counts(replication)
    whole = int(_length(replication) / step + 1e-6)  # whole but for the rounding of a product
    if counts is None or whole == 0:
        return None
    window = float(replication["window_cycles"])
    sums = [0.0] * whole
    for index, count in enumerate(counts):
        first, last = index * window / step, (index + 1) * window / step
        for place in range(int(first), min(whole, int(last) + 1)):
            sums[place] += count * max(0.0, min(last, place + 1) - max(first, place)) * step / window
    if figure.per_second:
        return [count * clock.rate_cycles / step for count in sums]
    processors = replication.get("processors") if figure.by_processors else None
    share = 100 / step / (len(processors) if isinstance(processors, Sequence) and processors else 1)
    return [count * share for count in sums]
