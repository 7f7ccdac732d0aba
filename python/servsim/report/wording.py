"""The sentences of a report: the headline answer, the ranking of machines, the warnings.

Results are ranked only where their intervals do not overlap; a headline never says "faster" of two
results whose intervals share a point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from servsim.report import figures
from servsim.report.format import SPACE, mean, number
from servsim.report.result import Result
from servsim.statistics.intervals import Estimate, estimate

#: Fewer replications than this deserve a remark; Alameldeen et al. 2003 use 20.
ENOUGH_REPLICATIONS = 10

#: A half-width beyond this share of the mean deserves a remark.
WIDE = 0.05

#: A change of throughput between the thirds of a run beyond this share suggests a short warm-up.
DRIFT = 0.10


@dataclass(frozen=True)
class Standing:
    """A result's place: its estimate, and the first and last rank its interval allows."""

    result: Result
    cycles: Estimate
    best: int
    worst: int

    @property
    def rank(self) -> str:
        """Return the rank in words: one number, or the range that the intervals leave open."""
        return str(self.best) if self.best == self.worst else f"{self.best} to {self.worst}"


def standings(results: Sequence[Result]) -> list[Standing]:
    """Order results by mean cycles per transaction, with the ranks their intervals allow."""
    known = [(result, estimate(figures.cycles_per_transaction(result))) for result in results]
    known.sort(key=lambda pair: pair[1].mean)
    places = []
    for result, cycles in known:
        ahead = sum(other.mean < cycles.mean and not other.overlaps(cycles) for _, other in known)
        behind = sum(other.mean > cycles.mean and not other.overlaps(cycles) for _, other in known)
        places.append(Standing(result, cycles, 1 + ahead, len(known) - behind))
    return places


def names(results: Sequence[Result]) -> dict[int, str]:
    """Name each result by its machine, numbered where two have the same; keys are ``id``s."""
    wanted = [result.machine for result in results]
    found = {}
    for index, result in enumerate(results):
        twins = wanted.count(result.machine)
        found[id(result)] = f"{result.machine} ({index + 1})" if twins > 1 else result.machine
    return found


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
    first, second, *_ = standings(results)
    a, b = called[id(first.result)], called[id(second.result)]
    if first.cycles.overlaps(second.cycles):
        return (
            f"{a} and {b} cannot be ranked: their 95{SPACE}% intervals of cycles per transaction overlap "
            f"({mean(first.cycles)} against {mean(second.cycles)}); run more replications to tell them apart."
        )
    less = 100 * (1 - first.cycles.mean / second.cycles.mean)
    return (
        f"{a} needs the fewest cycles per transaction: {mean(first.cycles)}, {number(less, 2)}{SPACE}% fewer "
        f"than the next, {b} ({mean(second.cycles)}); their 95{SPACE}% intervals do not overlap."
    )


def warnings(results: Sequence[Result]) -> list[str]:
    """Return what a reader should know before believing a figure, with a remedy each."""
    found = []
    called = names(results)
    for result in results:
        prefix = f"{called[id(result)]}: " if len(results) > 1 else ""
        recorded = _recorded(result)
        told = any("--replications" in text for text in recorded)
        own = [*([] if told else _replications(result)), *_drift(result)]
        found += [prefix + text for text in (*recorded, *own)]
    return found + _comparable(results)


def _recorded(result: Result) -> list[str]:
    recorded = result.document.get("warnings") or []
    return [str(item.get("text", item)) if isinstance(item, dict) else str(item) for item in recorded]


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
    record = figures.timeline(result)
    if record is None:
        return []
    third = min(len(line) for line in record.transactions) // 3
    if third < 3:
        return []
    begin = sum(sum(line[:third]) for line in record.transactions)
    end = sum(sum(line[2 * third : 3 * third]) for line in record.transactions)
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
