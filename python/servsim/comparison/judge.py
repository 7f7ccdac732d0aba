"""The verdict: what the runs of several designs prove, what they do not, and what would.

Two designs are ranked only when their 95 % intervals do not overlap *and* the test of their
difference, adjusted for the number of pairs (Holm), excludes equality. Everything else is "not
ranked", with the number of runs that would tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from servsim.comparison.designs import Design, Stopped
from servsim.comparison.grouping import different, told_apart
from servsim.comparison.metrics import Metric
from servsim.comparison.suspicions import suspicions, unit_names
from servsim.errors import UsageError
from servsim.result import Result
from servsim.result_warnings import ResultWarning, recorded
from servsim.statistics.bootstrap import bootstrap_interval
from servsim.statistics.comparison import (
    Difference,
    WrongConclusion,
    difference,
    holm,
    runs_for_precision,
    runs_to_separate,
    wrong_conclusion,
    wrong_with_means,
)
from servsim.statistics.intervals import LEAST, Estimate, estimate
from servsim.statistics.sequential import two_stage, two_stage_difference

#: A difference is taken for real below this adjusted probability.
SIGNIFICANT = 0.05

#: Precision for which further runs are computed when none is wished for.
USUAL_PRECISION = 0.01

#: Numbers of runs for which the probability of a wrong conclusion from their means is given.
RUNS = (1, 3, 5, 10, 20)


@dataclass(frozen=True)
class Known:
    """What is known of one design: its figures by run (or by capture, named so), and the intervals of their mean."""

    name: str
    values: list[float]
    units: list[str]
    t: Estimate
    bootstrap: tuple[float, float] | None
    further_runs: int | None


@dataclass(frozen=True)
class Pair:
    """Two designs compared.

    ``better`` is the name of the better one (of the lower, where the figure says nothing of better), or None
    when the runs do not prove either; ``reason`` says why in one sentence.
    """

    a: str
    b: str
    difference: Difference
    p_adjusted: float
    wrong: WrongConclusion
    wrong_by_runs: dict[int, float]
    runs_to_separate: int | None
    better: str | None
    reason: str


@dataclass(frozen=True)
class Method:
    """How the figures were compared: whether by seed, and why not; how runs were stopped."""

    paired: bool
    unpaired_because: str | None
    precision: float
    stopped: Stopped | None


@dataclass(frozen=True)
class Comparison:
    """Everything a comparison says; ``barred`` says why nothing may be ranked whatever the figures are."""

    metric: Metric
    designs: list[Design]
    known: list[Known]
    pairs: list[Pair]
    method: Method
    warnings: list[ResultWarning]
    barred: str | None = None

    def __str__(self) -> str:
        """Return the comparison as ``servsim compare`` prints it."""
        from servsim.comparison.text import render

        return render(self)

    @property
    def unit(self) -> str:
        """What the intervals are over: ``run``, or ``capture`` where designs ran several."""
        return _unit(self.designs)

    @property
    def ranked(self) -> bool:
        """Whether every pair is ranked."""
        return all(pair.better for pair in self.pairs)

    def ranks(self) -> list[tuple[Known, int, int]]:
        """Return the designs from the best mean on, each with the first and last rank that is proven."""
        places = []
        for known in sorted(self.known, key=lambda k: self.metric.sign * k.t.mean):
            mine = [pair for pair in self.pairs if known.name in (pair.a, pair.b)]
            ahead = sum(pair.better not in (None, known.name) for pair in mine)
            behind = sum(pair.better == known.name for pair in mine)
            places.append((known, 1 + ahead, len(self.known) - behind))
        return places

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-ready data (schema ``servsim.compare/1``)."""
        stopped = self.method.stopped
        return {
            "schema": "servsim.compare/1",
            "metric": {
                "name": self.metric.name,
                "unit": self.metric.unit,
                "lower_is_better": self.metric.lower_is_better,
            },
            "ranked": self.ranked,
            "ranking": [{"design": k.name, "best": best, "worst": worst} for k, best, worst in self.ranks()],
            "designs": [_design(k, d) for k, d in zip(self.known, self.designs, strict=True)],
            "pairs": [_pair(pair) for pair in self.pairs],
            "paired": self.method.paired,
            "unpaired_because": self.method.unpaired_because,
            "sequential": None
            if stopped is None
            else {
                "precision": stopped.precision,
                "first_stage": stopped.first_stage,
                "wished": stopped.wished,
                "made": stopped.made,
                "reached": stopped.reached,
            },
            "barred": self.barred,
            "warnings": [warning.to_dict() for warning in self.warnings],
        }


def _design(known: Known, design: Design) -> dict[str, Any]:
    t = known.t
    return {
        "name": known.name,
        "source": design.result.source,
        "machine": design.result.document.get("machine"),
        "trace": design.result.document.get("trace"),
        "options": design.result.document.get("options"),
        "n": t.n,
        "mean": t.mean,
        "standard_deviation": t.sd,
        "interval_95": [t.low, t.high],
        "interval_95_bootstrap": known.bootstrap,
        "further_runs": known.further_runs,
        "seeds": [r.get("seed") for r in design.result.replications],
        "captures": known.units if design.result.captures else None,
        "values": known.values,
    }


def _pair(pair: Pair) -> dict[str, Any]:
    gap, wrong = pair.difference, pair.wrong
    return {
        "a": pair.a,
        "b": pair.b,
        "better": pair.better,
        "reason": pair.reason,
        "difference": {
            "mean": gap.mean,
            "interval_95": [gap.low, gap.high],
            "p": gap.p,
            "p_adjusted": pair.p_adjusted,
            "paired": gap.paired,
            "correlation": gap.correlation,
        },
        "wrong_conclusion": {
            "probability": wrong.probability,
            "interval_95": [wrong.low, wrong.high],
            "normal": wrong.normal,
            "by_runs": {str(runs): share for runs, share in pair.wrong_by_runs.items()},
        },
        "runs_to_separate": pair.runs_to_separate,
    }


def judge(
    designs: Sequence[Design], metric: Metric, *, stopped: Stopped | None = None, precision: float | None = None
) -> Comparison:
    """Compare designs by one figure.

    Parameters
    ----------
    designs : sequence of Design
        Two or more, each with `LEAST` runs or more.
    metric : Metric
        The figure.
    stopped : Stopped, optional
        How sequential runs ended; intervals then follow Stein's two stages.
    precision : float, optional
        Half-width, as a share of the mean, for which further runs are computed.

    Returns
    -------
    Comparison
        Verdicts of all pairs, with warnings.

    Raises
    ------
    UsageError
        For fewer than two designs, or a design with fewer than `LEAST` runs.
    """
    if len(designs) < 2:
        raise UsageError("a comparison needs two designs: give --machine twice, or two result files")
    designs = _named_apart(designs)
    values = [metric.values(design.result) for design in designs]
    unit = _unit(designs)
    check_enough(designs, metric)
    why_not = unpaired_because(designs)
    wish = precision or (stopped.precision if stopped else USUAL_PRECISION)
    known = [_known(d, v, stopped, wish) for d, v in zip(designs, values, strict=True)]
    barred = _barred(designs)
    pairs = _pairs(known, metric, unit, paired=why_not is None, stopped=stopped)
    if barred is not None:
        pairs = [replace(pair, better=None, reason=barred) for pair in pairs]
    method = Method(why_not is None, why_not, wish, stopped)
    return Comparison(metric, list(designs), known, pairs, method, suspicions(designs, metric, values, stopped), barred)


def check_enough(designs: Sequence[Design], metric: Metric) -> None:
    """Refuse designs whose runs, or captures, are too few for an interval.

    Raises
    ------
    UsageError
        For a design with fewer than `LEAST`.
    """
    unit = _unit(designs)
    for design in designs:
        if unit == "capture":
            more = "give more captures"
        elif design.result.is_functional:
            more = (
                "the functional engine counts the same whenever it is run, so give results of several captures "
                "(servsim simulate CAPTURE CAPTURE CAPTURE), or of --engine timing with --replications 10 or more"
            )
        else:
            more = "simulate it with --replications 10 or more"
        if (count := len(metric.values(design.result))) < LEAST:
            raise UsageError(
                f"{design.name} has {count} {unit}{'s' * (count > 1)}, and {LEAST} are the least that say how much "
                f"{unit}s differ: no interval and no comparison; {more}"
            )


def _barred(designs: Sequence[Design]) -> str | None:
    """Say why designs must not be ranked whatever their figures are, or None."""
    unlike = different([design.result for design in designs])
    if unlike:
        return (
            f"their runs differ in {' and '.join(unlike)}, so a difference between them says nothing about the "
            "machines; run them with the same trace and options"
        )
    invalid = {d.name: w for d in designs for w in recorded(d.result.document) if w.rank == "invalid"}
    if not invalid:
        return None
    first = next(iter(invalid.values()))
    return f"the figures of {' and '.join(invalid)} are invalid: {first.text}"


def _named_apart(designs: Sequence[Design]) -> list[Design]:
    """Tell designs of the same name apart."""
    labels: dict[int, str] = {}
    for name in {design.name for design in designs}:
        twins = [design for design in designs if design.name == name]
        documents = [design.result.document for design in twins]
        labels |= {id(d): label for d, label in zip(twins, told_apart(name, documents), strict=True)}
    return [Design(labels[id(design)], design.result) for design in designs]


def _known(design: Design, values: list[float], stopped: Stopped | None, precision: float) -> Known:
    t = estimate(values) if stopped is None else two_stage(values, stopped.first_stage)
    wanted = runs_for_precision(t, precision)
    further = None if wanted is None else max(0, wanted - t.n)
    return Known(design.name, values, unit_names(design.result), t, bootstrap_interval(values), further)


def _unit(designs: Sequence[Design]) -> str:
    return "capture" if any(design.result.captures for design in designs) else "run"


def unpaired_because(designs: Sequence[Design]) -> str | None:
    """Say why runs cannot be paired by seed, or captures with themselves; None when they can.

    The i-th runs of two designs belong together when both replayed the same trace over the same
    transactions with the same seed, and no seed occurs twice.
    """
    apart = seeds_apart([design.result for design in designs])
    if apart is not None:
        return apart
    unlike = different([design.result for design in designs])
    for what in unlike:
        if what not in ("trace", "engine"):
            return f"the designs were run with a different {what}"
    if "trace" in unlike:
        return "the designs replayed different traces"
    return None


def seeds_apart(results: Sequence[Result]) -> str | None:
    """Say why the i-th runs (or captures) of results are not of the same seed (or capture); None when they are."""
    if any(result.captures for result in results):
        unlike = any(result.captures != results[0].captures for result in results)
        return "the designs were run on different captures" if unlike else None
    seeds = [[r.get("seed") for r in result.replications] for result in results]
    if any(len(set(s)) < len(s) for s in seeds):
        return "a seed occurs twice within a design"
    return "the designs were run with different seeds" if any(s != seeds[0] for s in seeds) else None


def _pairs(known: Sequence[Known], metric: Metric, unit: str, *, paired: bool, stopped: Stopped | None) -> list[Pair]:
    couples = list(combinations(known, 2))
    gaps = [
        difference(a.values, b.values, paired=paired)
        if stopped is None or not paired
        else two_stage_difference(a.values, b.values, stopped.first_stage)
        for a, b in couples
    ]
    adjusted = holm([gap.p for gap in gaps])
    return [_judged(a, b, gap, p, metric, unit) for (a, b), gap, p in zip(couples, gaps, adjusted, strict=True)]


def _judged(a: Known, b: Known, gap: Difference, p: float, metric: Metric, unit: str) -> Pair:
    wrong = wrong_conclusion(a.values, b.values, lower_is_better=metric.sign > 0)
    shares = {runs: wrong_with_means(a.t, b.t, runs) for runs in RUNS}
    by_runs = {runs: share for runs, share in shares.items() if share is not None}
    separate = runs_to_separate(a.t, b.t)
    better, reason = verdict(a, b, gap, p, metric, f"about {separate} {unit}s" if separate else None)
    return Pair(a.name, b.name, gap, p, wrong, by_runs, separate, better, reason)


def verdict(
    a: Known, b: Known, gap: Difference, p: float, metric: Metric, separate: str | None
) -> tuple[str | None, str]:
    """Return which of two designs is proven to be better, if either is, and why; ``p`` is adjusted for all pairs."""
    best = min(a, b, key=lambda k: metric.sign * k.t.mean)
    same = [k.name for k in (a, b) if not k.t.sd]
    if a.values == b.values:
        return None, "every run of both gave the same figure: they do not differ in it"
    if same:
        return None, (
            f"all runs of {' and '.join(same)} gave the same figure, so nothing is known of its variability: measure "
            "more, and give each run its own seed and a random delay (perturbation.memory_delay above 0)"
        )
    more = f"; {separate} of each would part the intervals" if separate else ""
    if a.t.overlaps(b.t):
        sure = gap.excludes_zero and p < SIGNIFICANT
        test = f"although the test finds a difference (p = {p:.2g})" if sure else f"and the test agrees (p = {p:.2g})"
        return None, f"their 95 % intervals overlap, {test}{more}"
    if p >= SIGNIFICANT or not gap.excludes_zero:
        return None, f"their intervals do not overlap, but the test does not exclude equality (p = {p:.2g}){more}"
    return best.name, f"their 95 % intervals do not overlap and the test excludes equality (p = {p:.2g})"
