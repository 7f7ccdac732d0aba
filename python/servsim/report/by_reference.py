"""The page of runs that figures per transaction cannot be told of: references and misses, and time where it passed.

Runs of the functional engine, and timed ones in which no transaction ended, such as those of most traces of other
tools. Counts are told per 1,000 measured references, which every run has.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servsim.comparison import Metric
from servsim.comparison.grouping import names
from servsim.report import counters, figures, wording
from servsim.report.charts.bars import Bar, bars
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, clock, grouped, mean
from servsim.report.method import counted_in, run_of
from servsim.report.over_time import over_time
from servsim.report.provenance import provenance
from servsim.report.sections import MISSING, Section, each, machine, time, workload
from servsim.report.tables import details, pairs, table, warning_list
from servsim.report.warnings import unlike
from servsim.result import Result, number_at
from servsim.result_warnings import ResultWarning, by_rank, recorded
from servsim.statistics.intervals import Estimate, reported

Results = Sequence[Result]

_MODES = {"user": "user", "kernel": "kernel"}
_PLAIN = {"plain": ""}
_PER = "per 1,000 references"
#: Tasks that are named; of the others their number is told.
_TASKS = 12


def sections(results: Results) -> list[Section]:
    """Return every section of the page in order."""
    called = names(results)
    counted = f"Counts {_PER}. {_basis(results)}"
    timed = not any(result.is_functional for result in results)
    over = over_time(results, called) if timed else None
    return [
        Section("machine", "Machine", "", machine(results)),
        Section("workload", "Workload", "", workload(results)),
        Section("method", "Method", "", each(results, lambda result: pairs(method_of(result)))),
        Section("warnings", "Warnings", "", _warnings(results)),
        *([Section("time", "Where processor time goes", _basis(results), time(results))] if timed else []),
        Section("misses", "Cache misses by cause", counted, _misses(results, called)),
        Section("coherence", "Copies lost to other processors, by cause", counted, _coherence(results, called)),
        Section("levels", "Levels of caches", counted, each(results, _levels)),
        Section("bus", "Transactions between caches and memory", counted, _bus(results, called)),
        Section("tasks", "References by task", "Of the first run; those with most references.", each(results, _tasks)),
        *_counters(results, called),
        *([Section("timeline", "Over the run", wording.of_lines(results), over)] if over else []),
        Section("provenance", "Provenance", "", each(results, provenance)),
    ]


def headline(results: Results) -> str:
    """Answer the question of the page: how many references miss, and how long the runs take where that is known."""
    if any(result.is_functional for result in results):
        return _missing(results)
    called = names(results)
    cycles = [f"{mean(result.known(result.values('cycles') or [0.0]), 'cycles')}" for result in results]
    if len(results) == 1:
        return f"{_missing(results)} The run takes {cycles[0]}."
    each_ = "; ".join(f"{told} on {called[id(result)]}" for told, result in zip(cycles, results, strict=True))
    return f"{_missing(results)} The runs take {each_}."


def _missing(results: Results) -> str:
    """Say how many references miss."""
    called = names(results)
    known = sorted(((_total(result), called[id(result)]) for result in results), key=lambda one: one[0].mean)
    (least, first), (most, last) = known[0], known[-1]
    if len(results) == 1:
        causes = {name: _per_1000(results[0], "misses", kind) for kind, name in figures.misses().items()}
        shares = sorted(
            ((part.mean / least.mean, name) for name, part in causes.items() if part and least.mean), reverse=True
        )
        named = [f"{100 * share:.0f}{SPACE}% {name}" for share, name in shares[:3] if share >= 0.01]
        why = f": {', '.join(named)}" if named else ""
        return f"Of 1,000 references {mean(least)} miss the caches of {first}{why}."
    return f"Of 1,000 references {mean(least)} miss the caches of {first}, and {mean(most)} those of {last}."


def _basis(results: Results) -> str:
    if any(map(wording.has_intervals, results)):
        return "Means of the runs; ± and whiskers give half of the 95 % interval."
    if any(result.is_functional for result in results):
        return "One run: it is counted exactly, and another seed may place tasks on other processors."
    return "One run, so no figure has an interval."


def method_of(result: Result) -> list[tuple[str, str]]:
    """Return how a result was made."""
    measured = result.values("references") or []
    options = result.document.get("options")
    warm = options.get("warmup") if isinstance(options, Mapping) else None
    return [
        ("engine", "functional: caches and coherence, no time" if result.is_functional else "timing"),
        *([] if result.is_functional else [("processor clock", clock(result.clock_hertz))]),
        ("references measured", mean(result.known(measured)) if measured else "not recorded"),
        ("warm-up", "none" if not warm else f"{warm} {counted_in(options)}"),
        *run_of(result),
    ]


def alarms(results: Results) -> list[str]:
    """Return why figures of the page are not what they are named; nothing where none is invalid."""
    return [warning.text for warning in _known(results) if warning.rank == "invalid"]


def _known(results: Results) -> list[ResultWarning]:
    given = dict.fromkeys(warning for result in results for warning in recorded(result.document))
    return by_rank([*given, *unlike(results)])


def _warnings(results: Results) -> Markup:
    found = _known(results)
    return warning_list(found) if found else tag("p", "None.")


def _per_1000(result: Result, *path: str) -> Estimate | None:
    """Estimate a counter, user and kernel together where it has modes, for 1,000 references."""
    values = _values_per_1000(result, *path)
    return None if values is None else result.known(values)


def _values_per_1000(result: Result, *path: str) -> list[float] | None:
    """Return a counter, user and kernel together where it has modes, for 1,000 references of each replication."""
    modes = [result.values(*path, mode) for mode in _MODES]
    counts = result.values(*path)
    if modes[0] is not None and modes[1] is not None:
        counts = [a + b for a, b in zip(modes[0], modes[1], strict=True)]
    references = result.values("references")
    if counts is None or references is None:
        return None
    return [1000 * count / all_ for count, all_ in zip(counts, references, strict=True)]


@dataclass(frozen=True)
class _Misses(Metric):
    """The figure by which pages of runs without transactions order designs."""

    def values(self, result: Result) -> list[float]:
        return result.independent(_values_per_1000(result, "misses", "total") or [0.0])


METRIC = _Misses("misses", "misses", "", True, ())
UNIT = f"misses {_PER}"


def _total(result: Result) -> Estimate:
    return reported(METRIC.values(result))


def _misses(results: Results, called: Mapping[int, str]) -> Markup:
    return _chart(results, called, "misses", {"total": "all causes together", **figures.misses()}, _MODES) or MISSING


def _coherence(results: Results, called: Mapping[int, str]) -> Markup:
    kinds = {
        "needless": "never used again",
        **{kind: name for kind, name in figures.misses().items() if "sharing" in kind},
    }
    found = _chart(results, called, "coherence", kinds, _MODES)
    return found or tag("p", "No copy was lost to another processor.")


def _bus(results: Results, called: Mapping[int, str]) -> Markup:
    return _chart(results, called, "bus", figures.transactions(), _PLAIN) or tag("p", "There were none.")


def _chart(
    results: Results, called: Mapping[int, str], part: str, kinds: Mapping[str, str], modes: Mapping[str, str]
) -> Markup | None:
    """Return bars of all kinds that occur, on one scale; none where no kind does."""
    several = len(results) > 1
    groups: dict[str, list[Bar]] = {}
    for kind, name in kinds.items():
        known = [(result, _per_1000(result, part, kind)) for result in results]
        row = [
            _bar(result, part, kind, called[id(result)] if several else name, all_, modes)
            for result, all_ in known
            if all_
        ]
        if any(bar.total.mean > 0 for bar in row):
            groups.setdefault(name if several else "", []).extend(row)
    return bars(groups, modes, _PER) if groups else None


def _bar(result: Result, part: str, kind: str, name: str, total: Estimate, modes: Mapping[str, str]) -> Bar:
    parts = {mode: _per_1000(result, part, kind, mode) for mode in modes}
    return Bar(name, total, {mode: known.mean for mode, known in parts.items() if known} or {"plain": total.mean})


def _levels(result: Result) -> Markup:
    """Return a row for each level: what came to it, and what became of it."""
    levels = [replication.get("levels") or [] for replication in result.replications]
    rows = []
    for index in range(min(map(len, levels))):
        at = [of_run[index] for of_run in levels]
        cells = [_of_level(result, at, field) for field in ("misses", "evictions", "write_backs")]
        hits, missed = (sum(number_at(level, field) or 0.0 for level in at) for field in ("hits", "misses"))
        share = 100 * missed / (hits + missed) if hits + missed else 0.0
        rows.append([str(at[0].get("name")).upper(), f"{share:.3g}{SPACE}%", *cells])
    head = ["level", "of its accesses missed", "misses", "evictions", "write-backs"]
    return table(head, rows) if rows else MISSING


def _of_level(result: Result, at: Sequence[Mapping[str, object]], field: str) -> str:
    counts = [number_at(level, field) for level in at]
    references = result.values("references") or []
    known = [1000 * count / all_ for count, all_ in zip(counts, references, strict=True) if count is not None]
    return mean(result.known(known)) if len(known) == len(at) else "not recorded"


def _tasks(result: Result) -> Markup:
    tasks = [task for task in result.replications[0].get("tasks") or () if isinstance(task, Mapping)]
    counted = sorted(((*_references(task), str(task.get("name"))) for task in tasks), reverse=True)
    whole = sum(all_ for all_, _, _ in counted)
    if not whole:
        return MISSING
    rows = [
        [name, grouped(all_), f"{100 * all_ / whole:.1f}{SPACE}%", f"{100 * kernel / all_:.0f}{SPACE}%"]
        for all_, kernel, name in counted[:_TASKS]
        if all_
    ]
    more = len([all_ for all_, _, _ in counted if all_]) - len(rows)
    rest = tag("p", f"and {more} more", class_="missing") if more > 0 else Markup("")
    return tag("div", table(["task", "references", "share", "of it in the kernel"], rows), rest)


def _references(task: Mapping[str, object]) -> tuple[float, float]:
    """Return a task's references, and those in kernel mode."""
    modes = {mode: sum(number_at(task, kind, mode) or 0.0 for kind in ("fetch", "load", "store")) for mode in _MODES}
    return modes["user"] + modes["kernel"], modes["kernel"]


def _counters(results: Results, called: Mapping[int, str]) -> list[Section]:
    done: Callable[[Result], bool] = lambda result: min(result.values("transactions") or [0.0]) > 0  # noqa: E731
    body = counters.every(results, called) if all(map(done, results)) else None
    if body is None:
        return []
    lead = Markup("Each is per transaction; <code>servsim explain NAME</code> says what it means.")
    return [Section("counters", "Every counter", lead, details("all counters", body))]
