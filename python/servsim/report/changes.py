"""What each setting changes, drawn: the designs of each level as dots on one axis, the mean change beside its name."""

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from servsim.comparison.factors import Change, Factor, changes, of_machine
from servsim.comparison.judge import seeds_apart
from servsim.comparison.metrics import Metric
from servsim.report.charts.dots import Row, dot_plot
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, grouped
from servsim.report.sections import Section
from servsim.result import Result
from servsim.statistics.intervals import reported
from servsim.text import decimals_for


def of_settings(results: Sequence[Result], every: Sequence[Factor], metric: Metric, unit: str) -> list[Section]:
    """Return the section of what settings change; none unless several pairs of designs differ in one setting alone."""
    values = [metric.values(result) for result in results]
    apart = seeds_apart(results)
    found = {
        factor.key: (factor, changes(factor, every, values, paired=apart is None))
        for factor in filter(of_machine, every)
    }
    charts = [_chart(factor, of, values, unit) for factor, of in found.values() if any(c.pairs > 1 for c in of)]
    if not charts:
        return []
    has_interval = any(change.low is not None for _, of in found.values() for change in of)
    why = (
        f", without interval because {apart}" if apart else "" if has_interval else ", of runs too few for an interval"
    )
    lead = (
        f"Each dot is one design's {unit}. Beside a level stands the mean change against the first level over pairs of "
        f"designs that differ in nothing else (the geometric mean of their ratios{why}), and the range of pairs: "
        "where that is wide, the change depends on the other settings."
    )
    return [Section("settings", "What each setting changes", lead, tag("div", *charts))]


def _chart(factor: Factor, of: Sequence[Change], values: Sequence[Sequence[float]], unit: str) -> Markup:
    told = {change.level: _told(change) for change in of}
    base, *_ = factor.distinct
    rows = []
    for level in factor.distinct:
        means = [reported(mine).mean for mine, held in zip(values, factor.levels, strict=True) if held == level]
        without = replace(reported(means), low=None, high=None)
        said = "what the others are held against" if level == base else told.get(level, "no design differs in it alone")
        rows.append(Row(level, means, without, said, "designs"))
    also = f" (and with it {', '.join(factor.also)})" if factor.also else ""
    return tag("div", tag("h3", factor.key + also), dot_plot(rows, unit), class_="block")


def _told(change: Change) -> str:
    spans = f"pairs {_percent(change.least)} to {_percent(change.most)}{SPACE}%, n{SPACE}={SPACE}{change.pairs}"
    if change.low is None or change.high is None:
        return f"{_percent(change.ratio)}{SPACE}% ({spans})"
    decimals = decimals_for(50 * (change.high - change.low), most=2)
    low, high = (_percent(end, decimals) for end in (change.low, change.high))
    return f"{_percent(change.ratio, decimals)}{SPACE}% (95{SPACE}% interval {low} to {high}{SPACE}%; {spans})"


def _percent(ratio: float, decimals: int = 1) -> str:
    """Write a change in percent with its sign."""
    value = round(100 * (ratio - 1), decimals) or 0.0
    return f"{'+' * (value > 0)}{grouped(value, decimals)}"
