"""The sentences of a report: the headline answer, and the ranking of designs.

Designs are ranked as `servsim compare` ranks them; a headline never says "fewest" where that would not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from servsim.comparison import Design, Metric, judge
from servsim.comparison.grouping import names
from servsim.replication import units
from servsim.report import figures
from servsim.report.format import SPACE, mean, number
from servsim.report.warnings import invalidity
from servsim.result import Result
from servsim.statistics.intervals import LEAST, Estimate


@dataclass(frozen=True)
class RankedDesign:
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

    designs: list[RankedDesign]
    first_is_best: bool
    reason: str


@dataclass(frozen=True)
class _CyclesPerTransaction(Metric):
    """The figure by which a report ranks, read as tolerantly as the report's other figures."""

    def values(self, result: Result) -> list[float]:
        return result.independent(figures.cycles_per_transaction(result))


#: By what a page ranks.
METRIC = _CyclesPerTransaction("cycles_per_transaction", "cycles per transaction", "cycles", True, ())


def ranking(results: Sequence[Result]) -> Ranking:
    """Rank two designs or more by cycles per transaction, by the rules of `servsim compare`."""
    called = names(results)
    known = {called[id(result)]: (result, result.known(figures.cycles_per_transaction(result))) for result in results}
    single = [name for name, (_, cycles) in known.items() if cycles.n == 1]
    if single:
        places = [RankedDesign(result, cycles, 1, len(known)) for result, cycles in known.values()]
        whose = "each has" if len(single) == len(known) else f"{' and '.join(single)} {_has(single)}"
        reason = f"{whose} one replication only, so no interval; give every design `--replications 10` or more"
        return Ranking(sorted(places, key=lambda place: place.cycles.mean), False, reason)
    judged = judge([Design(name, result) for name, (result, _) in known.items()], METRIC)
    order = [RankedDesign(*known[design.name], best, worst) for design, best, worst in judged.ranks()]
    first, second = ({called[id(place.result)] for place in order[i : i + 1]} for i in (0, 1))
    pair = next(pair for pair in judged.pairs if {pair.a, pair.b} == first | second)
    return Ranking(order, pair.better in first, pair.reason)


def _has(items: Sequence[str]) -> str:
    return "has" if len(items) == 1 else "have"


def speed(result: Result) -> str:
    """Write a result's throughput, or its cycles per transaction when it states no clock."""
    rates = figures.throughput(result)
    if rates is None:
        return mean(result.known(figures.cycles_per_transaction(result)), "cycles per transaction")
    return mean(result.known(rates), "transactions per second")


def runs(result: Result) -> str:
    """Say how many runs a result is made of: replications, or captures with their replications.

    What is said first is what the intervals are over.
    """
    made, captures = len(result.replications), len(result.captures)
    if captures:
        return f"{captures} captures, {made // captures} {'replication' if made == captures else 'replications'} each"
    return "1 replication" if made == 1 else f"{made} replications"


def over_what(result: Result) -> str:
    """Say what the intervals are over, and what they therefore do not cover."""
    if result.captures:
        return "over captures: they hold for another capture of the same workload"
    if len(result.replications) == 1:
        return "none"
    return "over seeds, on one capture: another capture of the same workload may differ by more"


def has_intervals(result: Result) -> bool:
    """Return whether a page shows intervals of the result's figures."""
    return len(set(units(result.replications))) >= LEAST


def of_dots(results: Sequence[Result]) -> str:
    """Say what a plot of dots shows; where there are too few runs it has no bar."""
    bar = "the bar is the 95 % interval of their mean, " if any(map(has_intervals, results)) else ""
    return f"Each dot is one replication; {bar}the line the mean itself. The axis does not begin at zero."


def of_lines(results: Sequence[Result]) -> str:
    """Say what a plot of lines over the run shows; where there are too few runs it has no band."""
    band = ", the band its 95 % interval" if any(map(has_intervals, results)) else ""
    return (
        "Rates over steps of simulated time; the part of a step at the end of a run is left out. Thin lines are single "
        "replications (of several captures, the mean of each), the thick one their mean as far as all of them reach"
        f"{band}."
    )


def headline(results: Sequence[Result]) -> str:
    """Answer the question of the page in one sentence; what is invalid gives no figure."""
    invalid = invalidity(results)
    if len(results) == 1 and invalid:
        return f"{results[0].machine}: the figures of this result are invalid."
    return _one(results[0]) if len(results) == 1 else _several(results)


def _one(result: Result) -> str:
    few = "one replication" if len(result.replications) == 1 else runs(result)
    basis = f"95{SPACE}% interval of {runs(result)}" if has_intervals(result) else f"{few}, so no interval"
    does = "needs" if result.clock_hertz is None else "completes"
    sentence = f"{result.machine} {does} {speed(result)} ({basis})"
    times = figures.mean_time_shares(result)
    if times is None:
        return sentence + "."
    work = times["busy_user"].mean + times["busy_kernel"].mean
    wait = times["memory_stall"].mean + times["bus_wait"].mean
    others = times["lock_spin"].mean + times["branch"].mean
    spinning = f"{others:.0f}{SPACE}% spinning for locks and refilling after branches, " if others >= 1 else ""
    return (
        f"{sentence}; its processors spend {work:.0f}{SPACE}% of their time executing, "
        f"{wait:.0f}{SPACE}% waiting for memory and the bus, {spinning}and {times['idle'].mean:.0f}{SPACE}% idle."
    )


def _several(results: Sequence[Result]) -> str:
    called = names(results)
    ranked = ranking(results)
    first, second, *_ = ranked.designs
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
