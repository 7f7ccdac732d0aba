"""What common windows say of designs: their ratio with its interval, and which is proven better.

Misses that windows do not tell (`servsim.sampling.estimates`) may go either way in each of two designs, so those of
both are added to the interval of their ratio: what leaves no room is not ranked. Single runs of each differ by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot, sqrt
from typing import Any

from scipy import stats

from servsim.result_warnings import ResultWarning, by_rank, recorded
from servsim.sampling.coarse import Known, coarse_of, order_of
from servsim.sampling.estimates import (
    LEAST_MODEL,
    cost,
    estimate,
    out_of_work,
    priced,
    share_of,
    summary,
    suspicions,
    unknown_of,
)
from servsim.statistics import sampling
from servsim.statistics.comparison import holm

#: Name of the format of the result.
SCHEMA = "servsim.compare-windows/1"
#: A ratio is taken for other than one below this adjusted probability.
SIGNIFICANT = 0.05


def ratio_of(a: Known, b: Known) -> sampling.Sampled:
    """Estimate cycles for a transaction of ``a`` over those of ``b`` from their common windows."""
    of_a, of_b = priced(a), priced(b)
    left = [x - y for x, y in zip(of_a.left, of_b.left, strict=True)]
    # Designs that share their live-points have the same misses there; of others how far they differ comes first.
    shared = a["points"] == b["points"]

    def row(x: Sequence[float], y: Sequence[float]) -> list[float]:
        return [value for p, q in zip(x, y, strict=False) for value in ((q,) if shared else (p - q, q))]

    windows = [row(x, y) for x, y in zip(of_a.table, of_b.table, strict=True)]
    found = sampling.estimate(left, windows, row(of_a.of_range, of_b.of_range), min(1.0, share_of(a), share_of(b)))
    mean = of_a.level * coarse_of(a).work / (of_b.level * coarse_of(b).work) * (1 + found.mean)
    return replace(found, mean=mean, sd=found.sd * mean, half_width=found.half_width * mean)


@dataclass(frozen=True)
class Parts:
    """What the interval of a ratio is made of, as shares of the ratio: see `servsim.sampling.estimates`."""

    windows: float
    order: float
    misses: float

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval; misses are no chance."""
        return hypot(self.windows, self.order) + self.misses


def parts_of(a: Known, b: Known) -> Parts:
    """Return what the interval of the ratio is made of."""
    found, of_a, of_b = ratio_of(a, b), unknown_of(a), unknown_of(b)
    # What misses cost and no window tells is nearly the same in both: ratios were held to full runs without it.
    order = hypot(order_of(a), order_of(b), LEAST_MODEL, LEAST_MODEL)
    return Parts(found.half_width / found.mean, order, of_a.misses + of_b.misses)


def _left(parts: Parts, precision: float) -> float:
    """Return what the windows may leave open: what the other parts leave of the precision, or else all of it."""
    room = max(0.0, precision - parts.misses) ** 2 - parts.order**2
    return sqrt(room) if room > (precision / 10) ** 2 else precision


def _alone(document: Known, precision: float) -> int:
    """Return how many windows would give a design's own figure this precision, by the windows that were timed."""
    parts = Parts(0.0, order_of(document), unknown_of(document).misses)
    return sampling.windows_for(estimate(document), _left(parts, precision))


def look_is_enough(documents: Sequence[Known], precision: float) -> bool:
    """Say whether the windows of the first look tell every ratio so closely that no more are needed."""
    return all(
        parts.windows < sampling.LOOK_PART * _left(parts, precision)
        for parts in (parts_of(a, b) for a, b in combinations(documents, 2))
    )


def windows_wanted(documents: Sequence[Known], precision: float) -> tuple[int, str]:
    """Return how many common windows are needed in all, and a sentence that says so.

    That is as many as were timed where these are a first look, which is enough where this is asked after it.
    """
    count = min(len(document["points"]) for document in documents)
    timed = min(len(document["windows"]) for document in documents)
    wanted, widest = timed, 0.0
    for a, b in combinations(documents, 2):
        parts = parts_of(a, b)
        if timed >= sampling.FIRST_STAGE:
            wanted = max(wanted, sampling.windows_for(ratio_of(a, b), _left(parts, precision)))
        widest = max(widest, parts.half_width)
    wanted = min(wanted, count)
    alone = max(_alone(document, precision) for document in documents)
    return wanted, (
        f"{timed} common windows give ±{100 * widest:.1f} % for ratios; {wanted} of {count} are "
        f"needed in all, where a design alone would need {alone}"
    )


def windows_needed(documents: Sequence[Known], precision: float) -> str:
    """Say of an interrupted comparison how many common windows had ended, and about how many it would take."""
    count = min(len(document["points"]) for document in documents)
    timed = len(documents[0]["windows"])
    pairs = list(combinations(documents, 2))
    widest = max(parts_of(a, b).half_width for a, b in pairs)
    needed = sampling.FIRST_LOOK
    if not look_is_enough(documents, precision):
        wanted = (sampling.windows_for(ratio_of(a, b), _left(parts_of(a, b), precision)) for a, b in pairs)
        needed = min(count, max(sampling.FIRST_STAGE, *wanted))
    text = f"interrupted: {timed} common windows had ended, which give ±{100 * widest:.1f} % for ratios"
    if needed <= timed:
        return f"{text}; no more are needed"
    return f"{text}; about {needed} of {count} would be needed for ±{100 * precision:g} %"


def judged(designs: Sequence[tuple[str, Known]], precision: float, wanted: int) -> dict[str, Any]:
    """Return the comparison (schema ``servsim.compare-windows/1``)."""
    couples = list(combinations(designs, 2))
    found = [ratio_of(a, b) for (_, a), (_, b) in couples]
    parts = [parts_of(a, b) for (_, a), (_, b) in couples]
    adjusted = holm([_probability(one, part) for one, part in zip(found, parts, strict=True)])
    pairs = [
        _pair(a[0], b[0], one, part, p) for (a, b), one, part, p in zip(couples, found, parts, adjusted, strict=True)
    ]
    first = designs[0][1]
    warnings = [warning for _, document in designs for warning in recorded(document)]
    warnings += [
        one.of_design(name)
        for name, document in designs
        for one in [*out_of_work(document), *suspicions(document["windows"])]
    ]
    widest = max(part.half_width for part in parts)
    if widest > precision:
        text = (
            f"ratios are known to ±{100 * widest:.2f} %, not to the ±{100 * precision:g} % asked for: "
            f"{_largest(max(parts, key=lambda part: part.half_width))}"
        )
        warnings.append(ResultWarning("weak", "precision-missed", text))
    return {
        "schema": SCHEMA,
        "metric": {"name": "cycles_per_transaction", "unit": "cycles", "lower_is_better": True},
        "precision": precision,
        "ranked": all(one["better"] for one in pairs),
        "ranking": _ranking([name for name, _ in designs], pairs, {n: estimate(d).mean for n, d in designs}),
        "designs": [_design(name, document, precision) for name, document in designs],
        "pairs": pairs,
        "common_windows": {
            "timed": len(first["windows"]),
            "wanted": wanted,
            "there": min(len(document["points"]) for _, document in designs),
            "same_live_points": len({document["live_points"]["file"] for _, document in designs}) == 1,
        },
        "trace": first["trace"],
        "options": first["options"] | {"precision": precision},
        "warnings": [warning.to_dict() for warning in by_rank(warnings)],
    }


def _largest(parts: Parts) -> str:
    """Say which part of an interval is the largest, and the remedy."""
    return max(
        (parts.windows, "the trace holds too few windows; capture a longer one"),
        (parts.order, "single runs differ in which transactions end first and who waits; capture a longer trace"),
        (parts.misses, "tasks share what they write at once; compare full runs, without --sampled"),
    )[1]


def _probability(found: sampling.Sampled, parts: Parts) -> float:
    """Return how probable a ratio as far from one is where there is none, all that windows do not tell against it."""
    error = hypot(found.error / found.mean, parts.order / 1.96)
    beyond = max(0.0, abs(found.mean - 1) / found.mean - parts.misses)
    if error == 0:
        return 0.0 if beyond else 1.0
    return float(2 * stats.t.sf(beyond / error, found.freedom))


def verdict(found: sampling.Sampled, parts: Parts, p: float | None = None) -> int:
    """Return -1 where the first design is proven better, 1 where the second is, and 0 where neither is.

    Parameters
    ----------
    p
        Probability, adjusted for the number of pairs; that of this pair alone without it.
    """
    if (_probability(found, parts) if p is None else p) >= SIGNIFICANT:
        return 0
    return (found.mean * (1 - parts.half_width) > 1) - (found.mean * (1 + parts.half_width) < 1)


def _pair(a: str, b: str, found: sampling.Sampled, parts: Parts, p: float) -> dict[str, Any]:
    """Return what is known of two designs."""
    low, high = found.mean * (1 - parts.half_width), found.mean * (1 + parts.half_width)
    better = {-1: a, 0: None, 1: b}[verdict(found, parts, p)]
    if better is not None:
        reason = "the interval of their ratio excludes one"
    elif found.mean == 1 and found.sd == 0:
        reason = "every window of both took the same: they do not differ in it"
    elif low <= 1 <= high:
        reason = f"the interval of their ratio includes one: {_largest(parts)}"
    else:
        reason = f"the test does not exclude equality among so many pairs (p = {p:.2g})"
    return {
        "a": a,
        "b": b,
        "better": better,
        "reason": reason,
        "ratio": {
            "mean": found.mean,
            "interval_95": [low, high],
            "half_width": parts.half_width,
            "of_windows": parts.windows,
            "of_order": parts.order,
            "of_misses": parts.misses,
            "p_adjusted": p,
        },
    }


def _ranking(names: Sequence[str], pairs: Sequence[Known], means: dict[str, float]) -> list[Known]:
    """Return the designs from the best mean on, each with the first and last rank that is proven."""
    found = []
    for name in sorted(names, key=lambda name: means[name]):
        mine = [one["better"] for one in pairs if name in (one["a"], one["b"])]
        ahead = sum(better not in (None, name) for better in mine)
        found.append({"design": name, "best": 1 + ahead, "worst": len(names) - mine.count(name)})
    return found


def _design(name: str, document: Known, precision: float) -> Known:
    counted = {**document, "warnings": []}
    return {
        "name": name,
        "machine": document["machine"],
        "summary": summary(counted),
        "cost": cost(counted),
        "windows_alone": _alone(document, precision),
        "live_points": document["live_points"],
        "windows": [
            {key: window[key] for key in ("point", "cycles", "instructions", "misses", "idle")}
            for window in document["windows"]
        ],
    }
