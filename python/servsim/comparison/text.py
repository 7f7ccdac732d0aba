"""A comparison as text for a terminal."""

from servsim.comparison.judge import Comparison, Known, Pair
from servsim.report.format import interval, number


def answer(comparison: Comparison) -> str:
    """Return the verdict in one sentence."""
    title = comparison.metric.title
    if comparison.ranked:
        order = [known.name for known, _, _ in comparison.ranks()]
        if comparison.metric.lower_is_better is None:
            return f"{order[0]} has lower {title} than {_listed(order[1:])}; which is better, this figure does not say."
        better = "lower" if comparison.metric.lower_is_better else "higher"
        return f"{order[0]} is better: its {title} are {better} than those of {_listed(order[1:])}."
    open_pairs = [pair for pair in comparison.pairs if pair.better is None]
    if len(comparison.pairs) == 1:
        return f"{open_pairs[0].a} and {open_pairs[0].b} cannot be ranked by {title}: {open_pairs[0].reason}."
    return f"{len(open_pairs)} of {len(comparison.pairs)} pairs of designs cannot be ranked by {title}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def render(comparison: Comparison) -> str:
    """Return the comparison as plain text."""
    metric = comparison.metric
    unit = f", {metric.unit}" if metric.unit else ""
    lines = [_plain(answer(comparison)), "", f"{metric.title}{unit} (mean, 95 % interval, {comparison.unit}s)"]
    precision = comparison.method.precision
    width = max(len(known.name) for known in comparison.known)
    for known, best, worst in comparison.ranks():
        rank = str(best) if best == worst else f"{best}-{worst}"
        lines.append(_plain(f"  {rank:>4}  {known.name:{width}}  {_known(known, comparison.unit, precision)}"))
    for pair in comparison.pairs:
        lines += ["", *map(_plain, pair_lines(pair, comparison))]
    unit = comparison.unit
    by = "seed" if unit == "run" else unit
    how = f"paired by {by}" if comparison.method.paired else f"not paired: {comparison.method.unpaired_because}"
    lines += [
        "",
        f"{unit.capitalize()}s are {how}. Intervals: Student's t; wrong conclusions: share of all pairs of {unit}s.",
        coverage(comparison),
    ]
    return "\n".join(lines)


def coverage(comparison: Comparison) -> str:
    """Say what the intervals hold for, and what they do not cover."""
    if comparison.unit == "capture":
        return "Intervals are over captures: they hold for another capture of the same workload."
    return (
        "Intervals are over seeds, on one capture: another capture may differ by more (`servsim capture --captures N`)."
    )


def _known(known: Known, unit: str, precision: float) -> str:
    text = interval(known.t)
    if known.bootstrap is not None and known.t.half_width:
        low, high = known.bootstrap
        text += f", bootstrap {number(low, 4)} to {number(high, 4)}"
    if known.further_runs:
        text += f", {known.further_runs:,} more {unit}s for ±{100 * precision:g} %"
    return text


def pair_lines(pair: Pair, comparison: Comparison) -> list[str]:
    """Return what is known of a pair: difference, wrong conclusions, verdict."""
    gap, wrong = pair.difference, pair.wrong
    base = next(k for k in comparison.known if k.name == pair.b).t.mean
    share = f" ({100 * gap.mean / base:+.2g} %)" if base else ""
    low, high = number(gap.low, 3), number(gap.high, 3)
    by_runs = ", ".join(f"{runs}: {small(p)}" for runs, p in pair.wrong_by_runs.items())
    verdict = f"{pair.better} is {comparison.metric.verdict}" if pair.better else "not ranked"
    lines = [
        f"{pair.a} minus {pair.b}: {number(gap.mean, 3)}{share}, 95 % interval {low} to {high}, "
        f"p = {pair.p_adjusted:.2g}",
        f"  a single {comparison.unit} of each picks the wrong one in {100 * wrong.probability:.0f} % of cases "
        f"(95 % interval {100 * wrong.low:.0f} to {100 * wrong.high:.0f} %)",
    ]
    if by_runs:
        lines.append(f"  expected for means of several {comparison.unit}s: {by_runs}")
    return [*lines, f"  {verdict}: {pair.reason}"]


def small(share: float) -> str:
    """Write a probability in percent, without pretending to know tiny ones."""
    return "below 0.01 %" if share < 1e-4 else f"{100 * share:.2g} %"


def _plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")
