"""What should make a reader doubt a comparison, each with its remedy."""

from collections.abc import Sequence

from servsim.comparison.designs import Design, Stopped
from servsim.comparison.metrics import Metric
from servsim.result import Result, number_at
from servsim.statistics.series import autocorrelation, is_autocorrelated, outliers, warm_up

#: Fewer runs than this deserve a remark; Alameldeen et al. 2003 make 20.
ENOUGH = 10


def suspicions(
    designs: Sequence[Design], metric: Metric, values: Sequence[Sequence[float]], stopped: Stopped | None
) -> list[str]:
    """Return the warnings of a comparison, one sentence each."""
    found = []
    for design, figures in zip(designs, values, strict=True):
        own = [*_few(figures), *_order(design.result, figures, metric), *_warm_up(design.result)]
        recorded = [str(text) for text in design.result.document.get("warnings") or [] if "replications:" not in text]
        found += [f"{design.name}: {text}" for text in (*recorded, *own)]
    return _gathered(found, designs) + _different(designs) + _budget(stopped)


def _few(values: Sequence[float]) -> list[str]:
    if len(values) >= ENOUGH:
        return []
    return [f"only {len(values)} replications: use --replications {ENOUGH} or more (Alameldeen et al. 2003 make 20)"]


def _order(result: Result, values: Sequence[float], metric: Metric) -> list[str]:
    found = []
    far = outliers(values)
    if far:
        seeds = ", ".join(str(result.replications[i].get("seed", i + 1)) for i in far)
        found.append(
            f"outliers of {metric.title} (seeds {seeds}): look at these runs before trusting the mean; the bootstrap "
            "interval suffers less from them"
        )
    if is_autocorrelated(values):
        found.append(
            f"runs with successive seeds resemble one another (autocorrelation {autocorrelation(values):+.2f}), so the "
            "interval is too narrow or too wide: choose other seeds (--seed)"
        )
    return found


def _warm_up(result: Result) -> list[str]:
    lines = [_miss_rate(replication.get("timeline")) for replication in result.replications]
    seen = warm_up([line for line in lines if line])
    if seen is None:
        return []
    return [
        f"warm-up is visible: misses per reference are {100 * seen.change:+.0f} % in the first "
        f"{100 * seen.share:.0f} % of the window; use a longer --warm-up or --functional-warm-up (caches begin "
        "empty), or the comparison is one of cold machines"
    ]


def _miss_rate(timeline: object) -> list[float]:
    """Return misses per reference of each window in which there were references."""
    if not isinstance(timeline, list):
        return []
    pairs = [(number_at(w, "misses"), number_at(w, "references")) for w in timeline]
    return [misses / references for misses, references in pairs if misses is not None and references]


def _gathered(found: list[str], designs: Sequence[Design]) -> list[str]:
    """Say once what holds for every design."""
    plain: dict[str, list[str]] = {}
    for text in found:
        owner = next(d.name for d in sorted(designs, key=lambda d: -len(d.name)) if text.startswith(f"{d.name}: "))
        plain.setdefault(text.removeprefix(f"{owner}: "), []).append(owner)
    return [text if len(owners) == len(designs) else f"{', '.join(owners)}: {text}" for text, owners in plain.items()]


def _different(designs: Sequence[Design]) -> list[str]:
    found = []
    for what, part, key in (
        ("trace", "trace", "hash"),
        ("number of transactions", "options", "transactions"),
        ("warm-up", "options", "warmup"),
        ("functional warm-up", "options", "functional_warmup"),
        ("number of users", "options", "users"),
    ):
        if len({str((d.result.document.get(part) or {}).get(key)) for d in designs}) > 1:
            found.append(f"the designs differ in their {what}, so more than the machine differs between them")
    if len({str(d.result.document.get("engine")) for d in designs}) > 1:
        found.append("the designs were run by different engines, so their figures do not mean the same")
    return found


def _budget(stopped: Stopped | None) -> list[str]:
    if stopped is None or stopped.reached:
        return []
    return [
        f"the budget of {stopped.made} replications was spent before the wished precision of "
        f"±{100 * stopped.precision:g} % was reached; {stopped.wished} would reach it (--budget {stopped.wished})"
    ]
