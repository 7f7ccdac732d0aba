"""A comparison as one self-contained HTML page, in the look of the report."""

from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from servsim.comparison.judge import Comparison, Known, Pair
from servsim.comparison.text import answer, coverage, small
from servsim.report import write_page
from servsim.report.charts.dots import Row, dot_plot
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, grouped, mean, number
from servsim.report.provenance import provenance
from servsim.report.sections import Section
from servsim.report.tables import details, pairs, side_by_side, table, warning_list

_DOTS = (
    "Each dot is one run; the bar is the 95 % interval of their mean, the line the mean itself. The axis does not "
    "begin at zero."
)
_WRONG = (
    "How often the design that is worse on average looks better when each is run once, or judged by the mean of a few "
    "runs (the latter for normally distributed runs)."
)


def write(comparison: Comparison, output: Path) -> Path:
    """Write the page; see `servsim.report.write` for what it raises."""
    kicker = f"{len(comparison.designs)} designs compared by {comparison.metric.title}"
    alarms = [warning.text for warning in comparison.warnings if warning.rank == "invalid"]
    return write_page(output, kicker, kicker, answer(comparison), sections(comparison), alarms)


def sections(comparison: Comparison) -> list[Section]:
    """Return the page's sections: what was compared and doubts first, figures after."""
    parts: list[tuple[str, str, str, Callable[[Comparison], Markup]]] = [
        ("designs", "Designs", "", _designs),
        ("method", "Method", "", _method),
        ("warnings", "Warnings", "", _warnings),
        ("runs", comparison.metric.title.capitalize(), _DOTS, _runs),
        ("differences", "Differences", "", _differences),
        ("wrong", "The risk of a wrong conclusion", _WRONG, _wrong),
        ("provenance", "Provenance", "", _provenance),
    ]
    return [Section(anchor, title, lead, body(comparison)) for anchor, title, lead, body in parts]


def _designs(comparison: Comparison) -> Markup:
    trees = [design.result.document.get("machine") for design in comparison.designs]
    return side_by_side(trees, [design.name for design in comparison.designs])


def _method(comparison: Comparison) -> Markup:
    method, options = comparison.method, comparison.designs[0].result.document.get("options") or {}
    stopped = method.stopped
    entries = [
        (f"{comparison.unit}s per design", ", ".join(str(known.t.n) for known in comparison.known)),
        ("transactions per run", str(options.get("transactions") or "all that the trace holds")),
        ("transactions of warm-up", str(options.get("warmup", 0))),
        (
            "pairing",
            f"by {'seed' if comparison.unit == 'run' else 'capture'}"
            if method.paired
            else f"none: {method.unpaired_because}",
        ),
        ("interval of a mean", "Student's t, 95 %" + (", spread of the first stage" if stopped else "")),
        ("intervals hold for", coverage(comparison)),
        ("test of a difference", "paired t" if method.paired else "Welch's t"),
        ("several pairs", "Holm's adjustment"),
        ("ranking", "only if intervals do not overlap and the test excludes equality"),
    ]
    if stopped:
        wish = f"±{100 * stopped.precision:g}{SPACE}% of the mean, {stopped.wished} runs wished, {stopped.made} made"
        entries.append(("stopping", wish))
    return pairs(entries)


def _warnings(comparison: Comparison) -> Markup:
    if not comparison.warnings:
        return tag("p", "None.")
    return warning_list(comparison.warnings)


def _runs(comparison: Comparison) -> Markup:
    rows = [Row(known.name, known.values, known.t) for known in comparison.known]
    body = []
    for known, best, worst in comparison.ranks():
        low, high = known.bootstrap or (None, None)
        bootstrap = f"{number(low, 4)} to {number(high, 4)}" if low is not None and high is not None else "none"
        further = "unknown" if known.further_runs is None else grouped(known.further_runs)
        rank = str(best) if best == worst else f"{best} to {worst}"
        body.append([known.name, rank, mean(known.t), bootstrap, str(known.t.n), further])
    precision = 100 * comparison.method.precision
    head = [
        "design",
        "rank",
        "mean",
        "bootstrap interval",
        f"{comparison.unit}s",
        f"more {comparison.unit}s for ±{precision:g}{SPACE}%",
    ]
    raw = [
        details(f"every {comparison.unit} of {known.name}", _raw(known, comparison.unit)) for known in comparison.known
    ]
    unit = comparison.metric.unit or comparison.metric.title
    return tag("div", dot_plot(rows, unit), table(head, body), *raw)


def _raw(known: Known, unit: str) -> Markup:
    rows = [[name, number(value, 6)] for name, value in zip(known.units, known.values, strict=True)]
    return table(["seed" if unit == "run" else unit, "figure"], rows)


def _differences(comparison: Comparison) -> Markup:
    rows = [
        [
            f"{pair.a} \N{MINUS SIGN} {pair.b}",
            number(pair.difference.mean, 3),
            f"{number(pair.difference.low, 3)} to {number(pair.difference.high, 3)}",
            f"{pair.p_adjusted:.2g}",
            "not ranked" if pair.better is None else "ranked",
        ]
        for pair in comparison.pairs
    ]
    head = ["pair", "difference", "95 % interval", "p", "verdict"]
    said = [tag("p", f"{_verdict(pair, comparison)}: {pair.reason}.") for pair in comparison.pairs]
    return tag("div", table(head, rows), *said)


def _verdict(pair: Pair, comparison: Comparison) -> str:
    return f"{pair.better} is {comparison.metric.verdict}" if pair.better else f"{pair.a} and {pair.b} are not ranked"


def _wrong(comparison: Comparison) -> Markup:
    blocks = []
    for pair in comparison.pairs:
        wrong = pair.wrong
        said = (
            f"Of all pairs of single runs, {100 * wrong.probability:.0f}{SPACE}% say the opposite "
            f"(95 % interval {100 * wrong.low:.0f} to {100 * wrong.high:.0f}{SPACE}%)."
        )
        rows = [[str(runs), small(share)] for runs, share in pair.wrong_by_runs.items()]
        head = ["runs of each, judged by their mean", "wrong conclusions expected"]
        blocks += [tag("h3", f"{pair.a} and {pair.b}"), tag("p", said)] + ([table(head, rows)] if rows else [])
    return tag("div", *blocks)


def _provenance(comparison: Comparison) -> Markup:
    return tag("div", *(tag("div", tag("h3", d.name), provenance(d.result)) for d in comparison.designs))
