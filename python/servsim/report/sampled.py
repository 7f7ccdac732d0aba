"""The page of a sampled answer (``simulate --precision``): figures with intervals, method and cost.

There are no single runs, hence no chart of them; an interval is that of the run of all transactions, as promised.
"""

from collections.abc import Mapping
from typing import Any

from servsim.errors import UsageError
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, clock, grouped, interval, places
from servsim.report.provenance import provenance
from servsim.report.sections import Section, abridged, machine
from servsim.report.tables import pairs, table, warning_list
from servsim.result import Result, digest_of, flat, number_at
from servsim.result_warnings import by_rank, recorded
from servsim.statistics.intervals import Estimate

#: The schema of a sampled answer.
SCHEMA = "servsim.sample/1"
#: What the parts of a trace's description are called.
_TRACE = {"name": "trace", "hash": "SHA-256 of the trace"}


def is_sampled(result: Result) -> bool:
    """Return whether a result is a sampled answer."""
    return result.document.get("schema") == SCHEMA


def wrapped(document: Mapping[str, Any], source: str) -> Result:
    """Return a sampled answer as a result, if it has a figure with an interval.

    Raises
    ------
    UsageError
        When it has none.
    """
    summary = document.get("summary")
    if not isinstance(summary, Mapping) or _estimate(summary.get("cycles_per_transaction")) is None:
        raise UsageError(
            f"{source} is damaged: it has no cycles_per_transaction; repeat `servsim simulate --precision`"
        )
    return Result(source, document, digest_of(document))


def sections(result: Result) -> list[Section]:
    """Return every section of the page in order."""
    document = result.document
    trace = [(_TRACE.get(name, name), abridged(value)) for name, value in flat(document.get("trace") or {})]
    given = by_rank(recorded(document))
    lead = "Means of the windows, corrected, with the 95 % interval of the run of all transactions, on this capture."
    return [
        Section("machine", "Machine", "", machine([result])),
        Section("workload", "Workload", "", pairs(trace)),
        Section("method", "Method", "", pairs(_method(result))),
        Section("warnings", "Warnings", "", warning_list(given) if given else tag("p", "None.")),
        Section("figures", "Figures", lead, _figures(document["summary"])),
        Section("provenance", "Provenance", "", provenance(result)),
    ]


def headline(result: Result) -> str:
    """Answer the question of the page in one sentence."""
    cycles = _estimate(result.document["summary"]["cycles_per_transaction"])
    assert cycles is not None  # `wrapped` has looked
    n = f"{cycles.n} sampled window{'' if cycles.n == 1 else 's'}"
    hertz = result.clock_hertz
    if hertz is None or cycles.low is None or cycles.high is None:
        return f"{result.machine} needs {interval(cycles, 'cycles per transaction')}, from {n}."
    rate = Estimate(cycles.n, hertz / cycles.mean, None, hertz / cycles.high, hertz / cycles.low)
    return f"{result.machine} completes {_told(rate)} transactions per second (95{SPACE}% interval, from {n})."


def _estimate(entry: object) -> Estimate | None:
    known = entry if isinstance(entry, Mapping) else {}
    mean, ends, n = number_at(known, "mean"), known.get("interval_95"), number_at(known, "n")
    if mean is None or n is None or not isinstance(ends, list) or len(ends) != 2:
        return None
    low, high = (number_at({"end": end}, "end") for end in ends)
    return None if low is None or high is None else Estimate(int(n), mean, None, low, high)


def _told(known: Estimate) -> str:
    decimals = places(known)
    return f"{grouped(known.mean, decimals)}{SPACE}±{SPACE}{grouped(known.half_width or 0.0, decimals)}"


def _method(result: Result) -> list[tuple[str, str]]:
    options, known, cost = (result.document.get(part) or {} for part in ("options", "precision", "cost"))
    window = options.get("window") or {}

    def percent(part: Mapping[str, Any], name: str) -> str:
        value = number_at(part, name)
        return "not recorded" if value is None else f"{100 * value:.2g}{SPACE}%"

    return [
        ("precision asked for", f"±{SPACE}{percent(options, 'precision')}"),
        ("precision reached", f"±{SPACE}{percent(known, 'half_width')}"),
        ("of it by the choice of windows", f"±{SPACE}{percent(known, 'of_windows')}"),
        ("of it by the order of tasks", f"±{SPACE}{percent(known, 'of_order')}"),
        ("of it by what misses cost beside the windows", f"±{SPACE}{percent(known, 'of_model')}"),
        ("of it by misses that windows do not tell", f"±{SPACE}{percent(known, 'of_misses')}"),
        ("transactions", f"{window.get('first')} to {window.get('last')} of {window.get('of')} in the trace"),
        ("windows timed", f"{cost.get('windows')} of {cost.get('live_points')}"),
        ("timed of a full run", percent(cost, "share_of_full_run")),
        ("windows chosen", str(options.get("choice"))),
        ("seed", str(options.get("seed"))),
        ("engine", f"{result.document.get('engine')}, sampled"),
        ("processor clock", clock(result.clock_hertz)),
    ]


def _figures(summary: Mapping[str, Any]) -> Any:
    known = [(name, entry, _estimate(entry)) for name, entry in summary.items()]
    rows = [
        [name.replace("_", " "), _told(estimate), str(entry.get("unit", "")), str(estimate.n)]
        for name, entry, estimate in known
        if estimate is not None
    ]
    return table(["figure", "95 % interval", "unit", "windows"], rows)
