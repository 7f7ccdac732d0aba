"""The sentences of a report: the headline answer, the ranking of designs, the warnings.

Designs are ranked as `servsim compare` ranks them; a headline never says "fewest" where that would not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from servsim.comparison import Design, Metric, judge
from servsim.comparison.grouping import names
from servsim.report import figures
from servsim.report.format import SPACE, mean, number
from servsim.report.over_time import ended_by_window
from servsim.result import Result
from servsim.result_warnings import recorded
from servsim.statistics.intervals import Estimate, estimate

#: Fewer replications than this deserve a remark; Alameldeen et al. 2003 use 20.
ENOUGH_REPLICATIONS = 10

#: A half-width beyond this share of the mean deserves a remark.
WIDE = 0.05

#: A change of throughput between the thirds of a run beyond this share suggests a short warm-up.
DRIFT = 0.10


@dataclass(frozen=True)
class Standing:
    """A design's place: its estimate, and the first and last rank that is proven."""

    result: Result
    cycles: Estimate
    best: int
    worst: int

    @property
    def rank(self) -> str:
        """Return the rank in words: one number, or the range that the runs leave open."""
        return str(self.best) if self.best == self.worst else f"{self.best} to {self.worst}"


@dataclass(frozen=True)
class Ranking:
    """Designs in order of their mean cycles per transaction, with what is proven of the first two."""

    standings: list[Standing]
    first_is_best: bool
    reason: str


@dataclass(frozen=True)
class _CyclesPerTransaction(Metric):
    """The figure by which a report ranks, read as tolerantly as the report's other figures."""

    def values(self, result: Result) -> list[float]:
        return figures.cycles_per_transaction(result)


_METRIC = _CyclesPerTransaction("cycles_per_transaction", "cycles per transaction", "cycles", True, ())


def ranking(results: Sequence[Result]) -> Ranking:
    """Rank two designs or more by cycles per transaction, by the rules of `servsim compare`."""
    called = names(results)
    known = {called[id(result)]: (result, estimate(figures.cycles_per_transaction(result))) for result in results}
    single = [name for name, (_, cycles) in known.items() if cycles.n == 1]
    if single:
        places = [Standing(result, cycles, 1, len(known)) for result, cycles in known.values()]
        whose = "each has" if len(single) == len(known) else f"{' and '.join(single)} {_has(single)}"
        reason = f"{whose} one replication only, so no interval; give every design `--replications 10` or more"
        return Ranking(sorted(places, key=lambda place: place.cycles.mean), False, reason)
    judged = judge([Design(name, result) for name, (result, _) in known.items()], _METRIC)
    order = [Standing(*known[design.name], best, worst) for design, best, worst in judged.ranks()]
    first, second = ({called[id(place.result)] for place in order[i : i + 1]} for i in (0, 1))
    pair = next(pair for pair in judged.pairs if {pair.a, pair.b} == first | second)
    return Ranking(order, pair.better in first, pair.reason)


def _has(items: Sequence[str]) -> str:
    return "has" if len(items) == 1 else "have"


def speed(result: Result) -> str:
    """Write a result's throughput, or its cycles per transaction when it states no clock."""
    rates = figures.throughput(result)
    if rates is None:
        return mean(estimate(figures.cycles_per_transaction(result)), "cycles per transaction")
    return mean(estimate(rates), "transactions per second")


def headline(results: Sequence[Result]) -> str:
    """Answer the question of the page in one sentence."""
    return _one(results[0]) if len(results) == 1 else _several(results)


def _one(result: Result) -> str:
    n = len(result.replications)
    basis = f"95{SPACE}% interval of {n} replications" if n > 1 else "one replication, so no interval"
    does = "needs" if result.clock_hertz is None else "completes"
    sentence = f"{result.machine} {does} {speed(result)} ({basis})"
    times = figures.mean_time_shares(result)
    if times is None:
        return sentence + "."
    work = times["busy_user"].mean + times["busy_kernel"].mean
    wait = times["memory_stall"].mean + times["bus_wait"].mean
    others = sum(times[kind].mean for kind in figures.RARE_TIMES)
    spinning = f"{others:.0f}{SPACE}% spinning for locks and refilling after branches, " if others >= 1 else ""
    return (
        f"{sentence}; its processors spend {work:.0f}{SPACE}% of their time executing, "
        f"{wait:.0f}{SPACE}% waiting for memory and the bus, {spinning}and {times['idle'].mean:.0f}{SPACE}% idle."
    )


def _several(results: Sequence[Result]) -> str:
    called = names(results)
    ranked = ranking(results)
    first, second, *_ = ranked.standings
    a, b = called[id(first.result)], called[id(second.result)]
    if not ranked.first_is_best:
        return (
            f"{a} and {b} cannot be ranked by cycles per transaction ({mean(first.cycles)} against "
            f"{mean(second.cycles)}): {ranked.reason.replace('`', '')}."
        )
    less = 100 * (1 - first.cycles.mean / second.cycles.mean)
    return (
        f"{a} needs the fewest cycles per transaction: {mean(first.cycles)}, {number(less, 2)}{SPACE}% fewer "
        f"than the next, {b} ({mean(second.cycles)}); {ranked.reason}."
    )


def warnings(results: Sequence[Result]) -> list[str]:
    """Return what a reader should know before believing a figure, with a remedy each."""
    found: dict[str, list[str]] = {}
    called = names(results)
    for result in results:
        given = _recorded(result)
        told = any("--replications" in text for text in given)
        drifts = any("from the first to the last third" in text for text in given)
        own = [*([] if told else _replications(result)), *([] if drifts else _drift(result))]
        for text in (*given, *own):
            found.setdefault(text, []).append(called[id(result)])
    said = [text if len(of) == len(results) else f"{', '.join(of)}: {text}" for text, of in found.items()]
    return said + _comparable(results)


def _recorded(result: Result) -> list[str]:
    return [str(warning) for warning in recorded(result.document)]


def _replications(result: Result) -> list[str]:
    cycles = estimate(figures.cycles_per_transaction(result))
    if cycles.half_width is None:
        return ["One replication only, so no figure has an interval; use `--replications 10` or more."]
    found = []
    if cycles.n < ENOUGH_REPLICATIONS:
        found.append(f"Only {cycles.n} replications; intervals narrow with `--replications {ENOUGH_REPLICATIONS}`.")
    if cycles.half_width > WIDE * cycles.mean:
        wide = 100 * cycles.half_width / cycles.mean
        found.append(
            f"The interval of cycles per transaction is ±{wide:.0f}{SPACE}% of the mean; "
            "use more replications or more transactions."
        )
    if cycles.half_width == 0:
        found.append("All replications are identical; give each its own seed, or a delay to vary (`--seed`).")
    return found


def _drift(result: Result) -> list[str]:
    lines = [ended_by_window(replication) for replication in result.replications]
    third = min(len(line) for line in lines) // 3
    if third < 3:
        return []
    begin = sum(sum(line[:third]) for line in lines)
    end = sum(sum(line[2 * third : 3 * third]) for line in lines)
    if begin == 0 or abs(end - begin) <= DRIFT * begin:
        return []
    change = 100 * (end - begin) / begin
    return [
        f"Throughput changes by {change:+.0f}{SPACE}% from the first to the last third of the run; "
        "the warm-up may be too short (`--warm-up`)."
    ]


def _comparable(results: Sequence[Result]) -> list[str]:
    found = []
    for what, path in (
        ("trace", "trace"),
        ("number of transactions", "transactions"),
        ("warm-up", "warmup"),
        ("functional warm-up", "functional_warmup"),
        ("number of users", "users"),
    ):
        values = {str(_option(result, path)) for result in results}
        if len(values) > 1:
            found.append(f"The results differ in their {what}, so more than the machine differs between them.")
    return found


def _option(result: Result, key: str) -> object:
    document = result.document
    for place in (document, document.get("options"), document.get("method")):
        if isinstance(place, dict) and key in place:
            value = place[key]
            return value.get("hash", value) if isinstance(value, dict) else value
    return None
