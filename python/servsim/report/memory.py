"""Misses by cause and bus transactions by kind: bars per transaction, all designs on one scale."""

from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from servsim.report import figures
from servsim.report.charts.bars import Bar, bars
from servsim.report.charts.svg import tag
from servsim.report.format import mean
from servsim.report.tables import table
from servsim.result import Result

Called = Mapping[int, str]

_MODES = {"user": "user", "kernel": "kernel"}
_PLAIN = {"plain": ""}


def misses(results: Sequence[Result], called: Called) -> Markup | None:
    """Return the misses by cause, or None when no design records them."""
    kinds = figures.misses() if len(results) == 1 else {"total": "all causes together", **figures.misses()}
    chart = _chart(results, called, kinds, _miss_bar, _MODES, "misses per transaction")
    every = figures.misses_per_transaction(results[0], "total") if len(results) == 1 else None
    if chart is None or every is None:
        return chart
    return tag("div", chart, tag("p", f"All causes together: {mean(every, 'misses per transaction')}."))


def _miss_bar(result: Result, kind: str, name: str) -> Bar | None:
    total = figures.misses_per_transaction(result, kind)
    if total is None:
        return None
    known = {mode: figures.per_transaction(result, "misses", kind, mode) for mode in _MODES}
    return Bar(name, total, {mode: part.mean for mode, part in known.items() if part})


def bus(results: Sequence[Result], called: Called) -> Markup | None:
    """Return how busy the bus is, and its transactions by kind; None when no design records either."""
    use = {
        id(result): (figures.share(result, "bus_utilization"), figures.per_transaction(result, "bus", "cache_to_cache"))
        for result in results
    }
    head = Markup("")
    if len(results) > 1:
        rows = [[called[key], mean(busy, "%"), mean(supplied)] for key, (busy, supplied) in use.items()]
        head = table(["design", "bus busy", "lines from another cache, per transaction"], rows)
    else:
        ((busy, supplied),) = use.values()
        said = [f"The bus is busy {mean(busy, '%')} of the time."] if busy else []
        if supplied is not None:
            said.append(f"Another cache supplies the line {mean(supplied, 'times per transaction')}.")
        head = tag("p", " ".join(said)) if said else head
    chart = _chart(results, called, figures.transactions(), _bus_bar, _PLAIN, "bus transactions per transaction")
    if chart is None and not any(known for pair in use.values() for known in pair):
        return None
    return tag("div", head, chart or Markup(""))


def _bus_bar(result: Result, kind: str, name: str) -> Bar | None:
    known = figures.per_transaction(result, "bus", kind)
    return None if known is None else Bar(name, known, {"plain": known.mean})


def _chart(
    results: Sequence[Result],
    called: Called,
    kinds: Mapping[str, str],
    bar: Callable[[Result, str, str], Bar | None],
    parts: Mapping[str, str],
    unit: str,
) -> Markup | None:
    """Return one chart of all designs, or None; kinds that occur in no design are left out."""
    groups: dict[str, list[Bar]] = {}
    for kind, name in kinds.items():
        several = len(results) > 1
        found = [bar(result, kind, called[id(result)] if several else name) for result in results]
        known = [one for one in found if one is not None]
        if any(one.total.mean > 0 for one in known):
            groups.setdefault(name if several else "", []).extend(known)
    return bars(groups, parts, unit) if groups else None
