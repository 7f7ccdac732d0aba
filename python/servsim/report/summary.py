"""A result in eight lines of plain text, for a terminal: the same figures and words as the page."""

from servsim.report import figures, wording
from servsim.report.format import SPACE, clock, interval, mean
from servsim.report.warnings import warnings
from servsim.result import Result


def summary(result: Result) -> list[str]:
    """Return eight lines: the answer, then machine, two rates, time, misses, bus and warnings."""
    rates = figures.throughput(result)
    found = warnings([result])
    lines = [
        wording.headline([result]),
        f"Machine: {result.machine}, clock {clock(result.clock_hertz)}, {wording.runs(result)}",
        f"Throughput: {interval(result.known(rates), 'transactions per second') if rates else 'not recorded'}",
        f"Cost: {interval(result.known(figures.cycles_per_transaction(result)), 'cycles per transaction')}",
        f"Processor time: {_time(result)}",
        f"Cache misses: {_misses(result)}",
        f"Bus: {_bus(result)}",
        f"Warnings: {len(found)}, the worst ({found[0].rank}): {found[0].text}" if found else "Warnings: none",
    ]
    return [line.replace(SPACE, " ").replace("\N{NARROW NO-BREAK SPACE}", " ") for line in lines]


def _time(result: Result) -> str:
    shares = figures.mean_time_shares(result)
    if shares is None:
        return "not recorded"
    return ", ".join(f"{name} {mean(shares[kind], '%')}" for kind, name in figures.shown_times([shares]).items())


def _misses(result: Result) -> str:
    total = figures.misses_per_transaction(result, "total")
    causes = {name: figures.misses_per_transaction(result, kind) for kind, name in figures.misses().items()}
    known = {name: cause for name, cause in causes.items() if cause is not None}
    if total is None or not known:
        return "not recorded"
    worst = max(known, key=lambda name: known[name].mean)
    return f"{mean(total, 'per transaction')}, most of them {worst} ({mean(known[worst])})"


def _bus(result: Result) -> str:
    busy = figures.share(result, "bus_utilization")
    supplied = figures.per_transaction(result, "bus", "cache_to_cache")
    if busy is None:
        return "not recorded"
    tail = "" if supplied is None else f", {mean(supplied, 'lines per transaction')} from another cache"
    return f"busy {mean(busy, '%')} of the time{tail}"
