"""The sections of a report, in the order a careful reader asks for them.

Machine, workload, method and warnings come before any chart; what a result did not record is said to
be missing rather than left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servsim.comparison.grouping import names
from servsim.report import counters, figures, memory, wording
from servsim.report.charts.dots import Row, dot_plot
from servsim.report.charts.stacked import stacked_bars
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, grouped, mean
from servsim.report.method import method_of
from servsim.report.over_time import over_time
from servsim.report.picture import drawn
from servsim.report.provenance import provenance
from servsim.report.storage import has_storage, storage
from servsim.report.tables import details, pairs, side_by_side, table, warning_list
from servsim.report.warnings import warnings
from servsim.result import Result, flat, number_at
from servsim.statistics.intervals import Estimate

Results = Sequence[Result]

#: Settings of a machine that are shown when it has them; the rest is folded away.
KEY_SETTINGS = {
    "name": "name",
    "processors": "processors",
    "clock": "processor clock",
    "cache.size": "cache of each processor",
    "cache.associativity": "cache associativity",
    "cache.line": "cache line",
    "protocol.name": "coherence protocol",
    "bus.memory_read": "latency of memory",
    "bus.cache_read": "latency of another cache",
    "bus.bytes_per_cycle": "bus width per cycle",
    "scheduler.policy": "scheduling of tasks",
    "scheduler.time_slice": "time slice",
    "disk.read_time": "disk read",
}

#: What the parts of a workload are called.
_WORKLOAD = {
    "name": "workload",
    "scale": "scale of the database",
    "warm_up": "warm-up before the capture",
    "warmup": "warm-up before the capture, transactions",
    "transactions": "transactions in the trace",
    "seed": "seed of the clients",
    "load_seed": "seed of the database",
    "memory_mib": "memory of the guest, MiB",
    "server": "settings of the server beside the image's",
    "hash": "SHA-256 of the trace",
}

#: How many settings are shown of a machine that has few of those above.
SHOWN_SETTINGS = 10

MISSING = tag("p", "Not recorded in this result.", class_="missing")


@dataclass(frozen=True)
class Section:
    """A section: anchor, heading, one sentence on how to read it, and its content."""

    anchor: str
    title: str
    lead: str
    body: Markup


def sections(results: Results) -> list[Section]:
    """Return every section of the page in order."""
    made = [
        Section("machine", "Machine", "", machine(results)),
        Section("workload", "Workload", "", workload(results)),
        Section("method", "Method", "", _method(results)),
        Section("warnings", "Warnings", "", _warnings(results)),
        Section("throughput", "Throughput", wording.of_dots(results), _throughput(results)),
        Section("time", "Where processor time goes", _means_of(results), time(results)),
        Section(
            "misses",
            "Cache misses by cause",
            _means_of(results, "; ± and whiskers give half of the 95 % interval") + _PASSIVE,
            memory.misses(results, names(results)) or MISSING,
        ),
        Section(
            "bus",
            "Bus use",
            _means_of(results, "; ± and whiskers give half of the 95 % interval"),
            memory.bus(results, names(results)) or MISSING,
        ),
        Section(
            "transactions",
            "Transactions by kind",
            _means_of(results, "; ± and whiskers give half of the 95 % interval"),
            each(results, _kinds),
        ),
        *_listed(results, "translation", "Address translation", "tlb"),
        *_listed(results, "write-buffers", "Write buffers", "write_buffer"),
        *_listed(results, "prefetches", "Prefetches", "prefetch"),
        *_counters(results),
        Section("timeline", "Over the run", wording.of_lines(results), over_time(results, names(results)) or MISSING),
    ]
    if any(map(has_storage, results)):
        body = each(results, lambda result: storage(result) if has_storage(result) else MISSING)
        made.insert(-2, Section("disks", "Disks and I/O buses", _means_of(results), body))
    if len(results) > 1:
        made.append(Section("comparison", "Side by side", _RANKS, _comparison(results)))
    made.append(Section("provenance", "Provenance", "", each(results, provenance)))
    return made


_PASSIVE = (
    " True and false sharing: another processor wrote the line. Passive sharing: private data of a task that has "
    "moved between processors; a run whose tasks stay where they are, as in servsim classify, has next to none."
)
_RANKS = Markup(
    "Ordered by mean cycles per transaction. A rank is one number only where it is proven, by the rules of "
    "<code>servsim compare</code>: 95 % intervals apart, and a test of the difference, adjusted for the number of "
    "pairs, that excludes equality."
)


def _means_of(results: Results, how: str = "") -> str:
    """Say how many replications the figures of a section are means of."""
    if all(len(result.replications) == 1 for result in results):
        return "One replication only, so no figure has an interval."
    how = how if any(map(wording.has_intervals, results)) else ", too few for an interval"
    return f"Means of {' and '.join(dict.fromkeys(map(wording.runs, results)))}{how}."


def _listed(results: Results, anchor: str, title: str, part: str) -> list[Section]:
    """Return a section that lists the counters of one part of the machine, if a result has it."""
    body = counters.of_part(results, names(results), part)
    return [Section(anchor, title, _means_of(results), body)] if body else []


def _counters(results: Results) -> list[Section]:
    """Return the section of all counters, which opens on request."""
    body = counters.every(results, names(results))
    if body is None:
        return []
    lead = _means_of(results) + " Each is per transaction, user and kernel mode together."
    meaning = (
        " What each one means: <code>servsim explain NAME</code>, for example <code>servsim explain misses</code>."
    )
    return [Section("counters", "Every counter", Markup(lead + meaning), details("all counters", body))]


def each(results: Results, body: Callable[[Result], Markup]) -> Markup:
    """Return one block per result, headed by its name when there are several."""
    called = names(results)
    head = [tag("h3", called[id(result)]) if len(results) > 1 else Markup("") for result in results]
    blocks = [tag("div", title, body(result), class_="block") for title, result in zip(head, results, strict=True)]
    return tag("div", *blocks)


def machine(results: Results) -> Markup:
    """Return the machines: of one the settings that matter most and a picture, of several what differs."""
    called, trees = names(results), [result.document.get("machine") for result in results]
    if len(results) > 1:
        return side_by_side(trees, [called[id(result)] for result in results])
    settings = flat(trees[0]) if isinstance(trees[0], Mapping) else [("name", results[0].machine)]
    key = [(name, value) for name, value in settings if name in KEY_SETTINGS]
    shown = key if len(key) >= SHOWN_SETTINGS // 2 else settings[:SHOWN_SETTINGS]
    head = pairs([(KEY_SETTINGS.get(name, name.replace("_", " ")), value) for name, value in shown])
    if len(shown) == len(settings):
        return head
    rest = details(f"all {len(settings)} settings", table(["setting", "value"], settings, "settings"))
    return tag("div", head, drawn(trees[0]), rest)


def workload(results: Results) -> Markup:
    """Return what was captured, with the mix of transactions."""
    trees = [_workload_of(result) for result in results]
    if all(tree == trees[0] for tree in trees):
        return pairs(trees[0])
    called = names(results)
    return side_by_side([dict(tree) for tree in trees], [called[id(result)] for result in results])


def abridged(value: str) -> str:
    """Return a hash by its beginning, which tells it from others."""
    return value[:16] + "…" if len(value) > 40 and " " not in value else value


def _workload_of(result: Result) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for name in ("workload", "trace"):
        part = result.document.get(name)
        if isinstance(part, Mapping):
            named = {"trace" if (name, key) == ("trace", "name") else key: value for key, value in part.items()}
            part = with_scale(named) if name == "workload" else named
        told = dict(flat(part, "" if isinstance(part, Mapping) else name)) if part is not None else {}
        for long, value in told.items():
            key = long.removeprefix("settings.")
            # Of a setting the workload itself may tell what came of it; settings without a value tell nothing.
            if not value or (key != long and (key in told or key == "workload")):
                continue
            entries.append((_WORKLOAD.get(key, key.replace("_", " ").replace(".", ", ")), abridged(value)))
    kinds = figures.transaction_kinds(result)
    if kinds:
        mix = ", ".join(f"{kind.name.replace('_', ' ')} {kind.share:.0f}{SPACE}%" for kind in kinds)
        entries.append(("mix of transactions", mix))
    return entries or [("trace", "not recorded")]


def with_scale(workload: Mapping[str, object]) -> dict[str, object]:
    """Put the scale of the database first after the name, in one phrase, in place of its parts.

    Captures of before the phrase record its parts only.
    """
    parts = {key: workload.get(key) for key in ("warehouses", "districts", "customers", "items")}
    phrase = workload.get("scale")
    if phrase is None and all(parts.values()):
        phrase = "{warehouses} warehouses of {districts} districts of {customers} customers, {items} items".format_map(
            parts
        )
    head = {key: value for key, value in (("name", workload.get("name")), ("scale", phrase)) if value is not None}
    left_out = set(parts) if phrase is not None else set()
    return head | {key: value for key, value in workload.items() if key not in head and key not in left_out}


def _method(results: Results) -> Markup:
    called = names(results)
    trees = [method_of(result) for result in results]
    if all(tree == trees[0] for tree in trees):
        return pairs(trees[0])
    return side_by_side([dict(tree) for tree in trees], [called[id(result)] for result in results])


def _warnings(results: Results) -> Markup:
    found = warnings(results)
    if not found:
        return tag("p", "None.")
    return warning_list(found)


def _throughput(results: Results) -> Markup:
    called = names(results)

    def rows(values: Callable[[Result], list[float] | None]) -> list[Row]:
        found = [(result, values(result)) for result in results]
        return [Row(called[id(result)], data, result.known(data)) for result, data in found if data]

    rates = rows(figures.throughput)
    first = (
        dot_plot(rates, "transactions per second")
        if len(rates) == len(results)
        else tag("p", "Without a clock in the result, throughput in seconds is not known.", class_="missing")
    )
    cycles = dot_plot(rows(figures.cycles_per_transaction), "cycles per transaction")
    named = len(results) > 1
    raw = [
        details("every replication" + (f" of {called[id(result)]}" if named else ""), _raw(result))
        for result in results
    ]
    return tag("div", tag("h3", "Transactions per second"), first, tag("h3", "Cycles per transaction"), cycles, *raw)


def _raw(result: Result) -> Markup:
    cycles = figures.cycles_per_transaction(result)
    rows = []
    for index, replication in enumerate(result.replications):
        misses = [number_at(replication, "misses", "total", mode) for mode in ("user", "kernel")]
        cells = (number_at(replication, "transactions"), number_at(replication, "cycles"), cycles[index])
        known = [grouped(value) if value is not None else "\N{EN DASH}" for value in (*cells, *misses)]
        seed = number_at(replication, "seed")
        rows.append([f"{seed:.0f}" if seed is not None else str(index + 1), *known])
    head = ["seed", "transactions", "cycles", "cycles per transaction", "user misses", "kernel misses"]
    return table(head, rows)


def time(results: Results) -> Markup:
    """Return the shares of processor time, drawn and as a table."""
    called = names(results)
    together = [(called[id(result)], figures.mean_time_shares(result)) for result in results]
    rows = [(name, _means(shares)) for name, shares in together if shares]
    if not rows:
        return MISSING
    if len(results) == 1:
        processors = figures.time_shares(results[0]) or []
        rows = [("all", rows[0][1])] + [(f"CPU {i}", _means(shares)) for i, shares in enumerate(processors)]
    shown = figures.shown_times([shares for _, shares in together if shares])
    single = ["share of time"] if len(results) == 1 else None
    head = ["processor time", *(single or [name for name, shares in together if shares])]
    body = [
        [wording_, *(mean(shares[kind], "%") for _, shares in together if shares)] for kind, wording_ in shown.items()
    ]
    busy = figures.utilization(results[0]) if len(results) == 1 else None
    text = f"While not idle, processors execute {mean(busy, '%')} of the time."
    note = tag("p", text) if busy else Markup("")
    return tag("div", stacked_bars(rows, shown), note, table(head, body))


def _means(shares: Mapping[str, Estimate]) -> dict[str, float]:
    return {kind: known.mean for kind, known in shares.items()}


def _kinds(result: Result) -> Markup:
    kinds = figures.transaction_kinds(result)
    if not kinds:
        return MISSING
    unit = "ms" if result.clock_hertz else "cycles"
    rows = [
        [
            kind.name.replace("_", " "),
            mean(kind.count),
            f"{kind.share:.1f}{SPACE}%",
            mean(kind.response) if kind.response else "none finished",
            mean(kind.slow) if kind.slow else "too few",
        ]
        for kind in kinds
    ]
    head = ["kind", "finished per replication", "share", f"response time, {unit}", f"95 of 100 within, {unit}"]
    return table(head, rows)


def _comparison(results: Results) -> Markup:
    called = names(results)
    ranked = wording.ranking(results)
    rows = []
    for place in ranked.designs:
        result = place.result
        rates = figures.throughput(result)
        rows.append(
            [
                called[id(result)],
                place.rank,
                mean(place.cycles),
                mean(result.known(rates)) if rates else "not recorded",
                mean(figures.misses_per_transaction(result, "total")),
                mean(figures.share(result, "bus_utilization"), "%"),
                str(place.cycles.n),
            ]
        )
    head = [
        "design",
        "rank",
        "cycles per transaction",
        "transactions per second",
        "misses per transaction",
        "bus",
        "n",
    ]
    return table(head, rows)
