"""What should make a reader doubt a comparison, each with its remedy."""

from collections.abc import Sequence

from servsim.comparison.designs import Design, Stopped
from servsim.comparison.grouping import different
from servsim.comparison.metrics import Metric
from servsim.result import Result, number_at
from servsim.result_warnings import ResultWarning, by_rank, gathered
from servsim.statistics.series import autocorrelation, is_autocorrelated, outliers, warm_up

#: Fewer runs than this deserve a remark; Alameldeen et al. 2003 make 20.
ENOUGH = 10


def suspicions(
    designs: Sequence[Design], metric: Metric, values: Sequence[Sequence[float]], stopped: Stopped | None
) -> list[ResultWarning]:
    """Return the warnings of a comparison, the worst first."""
    of_each = [
        [
            *gathered([design.result.document]),
            *([] if design.result.captures else _few(figures)),
            *_order(design.result, figures, metric),
            *_warm_up(design.result),
        ]
        for design, figures in zip(designs, values, strict=True)
    ]
    return by_rank([*_different(designs), *_said_once(of_each, designs), *_budget(stopped)])


def _few(values: Sequence[float]) -> list[ResultWarning]:
    if len(values) >= ENOUGH:
        return []
    text = f"only {len(values)} replications: use --replications {ENOUGH} or more (Alameldeen et al. 2003 make 20)"
    return [ResultWarning("weak", "few-runs", text)]


def _order(result: Result, values: Sequence[float], metric: Metric) -> list[ResultWarning]:
    found = []
    far = outliers(values)
    if far:
        which = f"{'captures' if result.captures else 'seeds'} {', '.join(unit_names(result)[i] for i in far)}"
        text = (
            f"outliers of {metric.title} ({which}): look at these runs before trusting the mean; the bootstrap "
            "interval suffers less from them"
        )
        found.append(ResultWarning("weak", "outliers", text))
    if not result.captures and is_autocorrelated(values):
        text = (
            f"runs with successive seeds resemble one another (autocorrelation {autocorrelation(values):+.2f}), so the "
            "interval is too narrow or too wide: choose other seeds (--seed)"
        )
        found.append(ResultWarning("weak", "autocorrelation", text))
    return found


def unit_names(result: Result) -> list[str]:
    """Return what the independent values of a result are called: seeds, or the captures where there are several."""
    if result.captures:
        return [str(capture["name"]) for capture in result.document["captures"]]
    return [str(replication.get("seed", number)) for number, replication in enumerate(result.replications, start=1)]


def _warm_up(result: Result) -> list[ResultWarning]:
    lines = [_miss_rate(replication.get("timeline")) for replication in result.replications]
    seen = warm_up([line for line in lines if line])
    if seen is None:
        return []
    text = (
        f"warm-up is visible: misses per reference are {100 * seen.change:+.0f} % in the first "
        f"{100 * seen.share:.0f} % of the window; use a longer --warm-up or --functional-warm-up (caches begin "
        "empty), or the comparison is one of cold machines"
    )
    return [ResultWarning("weak", "warm-up", text)]


def _miss_rate(timeline: object) -> list[float]:
    """Return misses per reference of each window in which there were references."""
    if not isinstance(timeline, list):
        return []
    pairs = [(number_at(w, "misses"), number_at(w, "references")) for w in timeline]
    return [misses / references for misses, references in pairs if misses is not None and references]


def _said_once(of_each: Sequence[list[ResultWarning]], designs: Sequence[Design]) -> list[ResultWarning]:
    """Say once what holds for several designs."""
    owners: dict[ResultWarning, list[str]] = {}
    for design, warnings in zip(designs, of_each, strict=True):
        for warning in dict.fromkeys(warnings):
            owners.setdefault(warning, []).append(design.name)
    return [w if len(names) == len(designs) else w.of_design(", ".join(names)) for w, names in owners.items()]


def _different(designs: Sequence[Design]) -> list[ResultWarning]:
    text = "the designs differ in their {}, so more than the machine differs between them"
    return [
        ResultWarning("invalid", "unlike-runs", text.format(what))
        for what in different([design.result for design in designs])
    ]


def _budget(stopped: Stopped | None) -> list[ResultWarning]:
    if stopped is None or stopped.reached:
        return []
    text = (
        f"the budget of {stopped.made} replications was spent before the wished precision of "
        f"±{100 * stopped.precision:g} % was reached; {stopped.wished} would reach it (--budget {stopped.wished})"
    )
    return [ResultWarning("weak", "budget", text)]
