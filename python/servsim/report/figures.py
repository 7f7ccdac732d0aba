"""The figures of a report: each a mean over replications with its interval, or None if not recorded.

Cycles per transaction are the cycles of the measured interval divided by the transactions finished in
it, whatever the number of processors (Alameldeen et al. 2003); throughput is its inverse times the
clock. Shares of processor time are taken per replication and then averaged, so that a long
replication counts no more than a short one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servsim import registry
from servsim.result import Result, number_at
from servsim.statistics.intervals import Estimate


def times() -> dict[str, str]:
    """Return the kinds of processor time, in the order they are drawn: key in the result, and wording."""
    return {kind: registry.worded(kind).removeprefix("busy ") for kind in registry.processor_times()}


def misses() -> dict[str, str]:
    """Return the kinds of miss, in the order they are drawn."""
    return registry.parts("misses")


def transactions() -> dict[str, str]:
    """Return the kinds of bus transaction, in the order they are drawn."""
    return registry.parts("bus")


@dataclass(frozen=True)
class Kind:
    """A transaction kind: how many finished per replication, and how long one took: the mean, and 95 of 100 at most."""

    name: str
    count: Estimate
    share: float
    response: Estimate | None
    slow: Estimate | None


def cycles_per_transaction(result: Result) -> list[float]:
    """Return the cycles per transaction of each replication: as recorded, or else by division."""
    return result.values("cycles_per_transaction") or _ratio(result, "cycles", "transactions")


def _ratio(result: Result, above: str, below: str) -> list[float]:
    numerators, denominators = result.values(above), result.values(below)
    assert numerators and denominators  # guaranteed by `result.check`
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def throughput(result: Result) -> list[float] | None:
    """Return the transactions per second of each replication, or None without a clock."""
    clock = result.clock_hertz
    return None if clock is None else [clock * rate for rate in _ratio(result, "transactions", "cycles")]


def per_transaction(result: Result, *path: str) -> Estimate | None:
    """Estimate a counter divided by the replication's transactions."""
    counts, transactions = result.values(*path), result.values("transactions")
    if counts is None or transactions is None:
        return None
    return result.known([count / done for count, done in zip(counts, transactions, strict=True)])


def per_transaction_of_modes(result: Result, *path: str) -> Estimate | None:
    """Estimate a counter, user and kernel together where it has modes, divided by the transactions."""
    modes = [result.values(*path, mode) for mode in ("user", "kernel")]
    counts, done = result.values(*path), result.values("transactions")
    if modes[0] is not None and modes[1] is not None:
        counts = [a + b for a, b in zip(modes[0], modes[1], strict=True)]
    if counts is None or done is None:
        return None
    return result.known([count / n for count, n in zip(counts, done, strict=True)])


def misses_per_transaction(result: Result, kind: str) -> Estimate | None:
    """Estimate the misses of one kind, user and kernel together, per transaction."""
    user, kernel = (result.values("misses", kind, mode) for mode in ("user", "kernel"))
    done = result.values("transactions")
    if user is None or kernel is None or done is None:
        return None
    return result.known([(a + b) / n for a, b, n in zip(user, kernel, done, strict=True)])


def share(result: Result, *path: str) -> Estimate | None:
    """Estimate a number between 0 and 1 as a percentage."""
    values = result.values(*path)
    return None if values is None else result.known([100 * value for value in values])


def utilization(result: Result) -> Estimate | None:
    """Estimate which share of the time that they are not idle the processors execute, all together, in percent.

    A processor that is idle all the time has no such share, and counts for none.
    """
    means = []
    for replication in result.replications:
        spent = _spent(replication)
        busy = sum(value for kind, value in spent.items() if kind != "idle")
        if busy <= 0:
            return None
        means.append(100 * (spent["busy_user"] + spent["busy_kernel"]) / busy)
    return result.known(means)


def _spent(replication: Mapping[str, object]) -> dict[str, float]:
    """Return the cycles of all processors together by kind of time: zeros where they are not recorded."""
    recorded = replication.get("processors")
    processors = recorded if isinstance(recorded, Sequence) else []
    return {kind: sum(number_at(processor, kind) or 0.0 for processor in processors) for kind in times()}


def time_shares(result: Result) -> list[dict[str, Estimate]] | None:
    """Estimate each processor's time by kind, in percent of its total.

    Returns
    -------
    list of dict or None
        One dictionary per processor with the keys of `times`; None when any replication lacks it.
    """
    samples: list[list[dict[str, float]]] = []
    for replication in result.replications:
        processors = replication.get("processors")
        if not isinstance(processors, Sequence) or not processors:
            return None
        samples.append([_percentages(processor) for processor in processors])
    if any(not shares for sample in samples for shares in sample) or len({len(s) for s in samples}) != 1:
        return None
    return [
        {kind: result.known([sample[index][kind] for sample in samples]) for kind in times()}
        for index in range(len(samples[0]))
    ]


def mean_time_shares(result: Result) -> dict[str, Estimate] | None:
    """Estimate the time by kind over all processors together, in percent."""
    totals: dict[str, list[float]] = {kind: [] for kind in times()}
    for replication in result.replications:
        spent = _spent(replication)
        whole = sum(spent.values())
        if whole <= 0:
            return None
        for kind in times():
            totals[kind].append(100 * spent[kind] / whole)
    return {kind: result.known(values) for kind, values in totals.items()}


def shown_times(shares: Sequence[Mapping[str, Estimate]]) -> dict[str, str]:
    """Return the kinds of processor time to show: those that some result has."""
    return {kind: name for kind, name in times().items() if any(share[kind].mean > 0 for share in shares)}


def _percentages(processor: object) -> dict[str, float]:
    spent = {kind: number_at(processor, kind) or 0.0 for kind in times()}
    whole = sum(spent.values())
    return {kind: 100 * value / whole for kind, value in spent.items()} if whole > 0 else {}


def transaction_kinds(result: Result) -> list[Kind] | None:
    """Estimate count and response time of each transaction kind, the most frequent first.

    Response times are in milliseconds of simulated time, or in cycles without a clock. A replication
    in which a kind never finished has no response time for it; the estimate's n says how many had.
    """
    tables = [_by_kind(replication) for replication in result.replications]
    if not all(tables):
        return None
    names = sorted({name for table in tables for name in table})
    scale = 1e3 / result.clock_hertz if result.clock_hertz else 1.0
    whole = sum(number_at(table, name, "count") or 0.0 for table in tables for name in names)
    kinds = []
    for name in names:
        counts = [number_at(table, name, "count") or 0.0 for table in tables]

        def known(figure: str, name: str = name) -> Estimate | None:
            found = [number_at(table, name, figure) for table in tables]
            times = [None if value is None else value * scale for value in found]
            return result.known(times) if any(value is not None for value in times) else None

        share = 100 * sum(counts) / whole if whole else 0.0
        responses = known("mean_response_cycles"), known("p95_response_cycles")
        kinds.append(Kind(name, result.known(counts), share, *responses))
    return sorted(kinds, key=lambda kind: (-kind.count.mean, kind.name))


def _by_kind(replication: Mapping[str, object]) -> dict[str, object]:
    entries = replication.get("transactions_by_kind")
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        return {}
    return {str(entry["kind"]): entry for entry in entries if isinstance(entry, Mapping) and "kind" in entry}
