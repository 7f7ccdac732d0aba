"""The page of a study: more designs than can stand side by side, as rows of a table under what each setting changes.

Figures are ranked among runs of the same trace and options only; of a study of several workloads each has a table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from markupsafe import Markup

from servsim import __version__
from servsim.comparison.best import Place, places
from servsim.comparison.factors import factors
from servsim.comparison.grouping import different, like_runs
from servsim.comparison.judge import seeds_apart
from servsim.comparison.metrics import Metric
from servsim.report import by_reference, figures, wording
from servsim.report.changes import of_settings
from servsim.report.charts.svg import tag
from servsim.report.format import SPACE, mean
from servsim.report.method import method_of
from servsim.report.sections import Section, workload
from servsim.report.tables import details, pairs, table, warning_list
from servsim.report.warnings import of_replications
from servsim.result import Result, flat
from servsim.result_warnings import RANKS, ResultWarning, alike, by_rank, recorded


@dataclass(frozen=True)
class Kind:
    """What designs are ranked by, the columns beside it, and how a run's method and warnings are told."""

    metric: Metric
    unit: str
    columns: tuple[tuple[str, Callable[[Result], str]], ...]
    method: Callable[[Result], list[tuple[str, str]]]
    warned: Callable[[Result], list[ResultWarning]]


BY_TRANSACTION = Kind(
    wording.METRIC,
    "cycles per transaction",
    (
        (
            "transactions per second",
            lambda r: mean(r.known(rates)) if (rates := figures.throughput(r)) else "not recorded",
        ),
        ("misses per transaction", lambda r: mean(figures.misses_per_transaction(r, "total"))),
        ("bus busy", lambda r: mean(figures.share(r, "bus_utilization"), "%")),
    ),
    method_of,
    of_replications,
)
BY_REFERENCE = Kind(
    by_reference.METRIC,
    by_reference.UNIT,
    (("cycles", lambda r: mean(r.known(cycles)) if (cycles := r.values("cycles")) else "not counted"),),
    by_reference.method_of,
    lambda result: recorded(result.document),
)


class StudyPage:
    """The page of a study in its parts.

    Parameters
    ----------
    results : sequence of Result
        The designs, two or more, all of one kind.
    kind : Kind
        `BY_TRANSACTION` or `BY_REFERENCE`.
    """

    def __init__(self, results: Sequence[Result], kind: Kind) -> None:
        self._results = results
        self._kind = kind
        self._factors = factors([result.document for result in results])
        self._levels = {
            id(result): [factor.levels[number] for factor in self._factors] for number, result in enumerate(results)
        }
        self._tables = [(part, self._ranked(part)) for part in like_runs(results)]

    def headline(self) -> str:
        """Answer the question of the page in one sentence; what is invalid gives no figure."""
        count = len(self._results)
        if self.alarms():
            return f"Figures of these {count} designs are invalid."
        if len(self._tables) > 1:
            unlike = " and ".join(different(self._results))
            return (
                f"{count} designs in {len(self._tables)} groups that differ in their {unlike}, each ranked for itself."
            )
        ((part, ranked),) = self._tables
        first, last = ranked[0], ranked[-1]
        best = f"Of {count} designs the fewest {self._kind.unit} has {self._called(part[first.number])}"
        if first.known.half_width is None:
            return f"{best}: {mean(first.known)}, too few runs to exclude another; the most are {mean(last.known)}."
        left = sum(place.may_be_best for place in ranked)
        rest = f"{left} of them may be the best, the others are excluded" if left > 1 else "all others are excluded"
        return f"{best}: {mean(first.known)}; {rest if left < count else 'none of the others can be excluded'}."

    def alarms(self) -> list[str]:
        """Return why figures of the page are not what they are named; nothing where none is invalid."""
        return [warning.text for warning in self._warnings if warning.rank == RANKS[0]]

    def sections(self) -> list[Section]:
        """Return every section of the page in order."""
        some = [part[0] for part, _ in self._tables]
        warned = warning_list(self._warnings) if self._warnings else tag("p", "None.")
        return [
            Section("machine", "Machines", "In what the designs differ, and what they share.", self._machines()),
            Section("workload", "Workload", "", workload(some)),
            Section("method", "Method", "Of the first design.", pairs(self._kind.method(some[0]))),
            Section("warnings", "Warnings", "", warned),
            *of_settings(self._results, self._factors, self._kind.metric, self._kind.unit),
            Section("designs", "All designs", _RANKS, tag("div", *(self._table(*part) for part in self._tables))),
            Section("provenance", "Provenance", "", self._provenance()),
        ]

    def _called(self, result: Result) -> str:
        levels = zip(self._factors, self._levels[id(result)], strict=True)
        return ", ".join(f"{factor.key}={level}" for factor, level in levels) or result.machine

    def _ranked(self, part: Sequence[Result]) -> list[Place]:
        values = [self._kind.metric.values(result) for result in part]
        return places(values, sign=self._kind.metric.sign, paired=seeds_apart(part) is None)

    @cached_property
    def _warnings(self) -> list[ResultWarning]:
        """The warnings of all designs, those that differ in their figures alone as one."""
        count = len(self._results)
        said = []
        for group in alike(one for result in self._results for one in self._kind.warned(result)):
            first = group[0]
            whole = len(group) == count and len(set(group)) == 1
            text = first.text if whole else f"{first.text} (so or similar of {len(group)} of {count} designs)"
            said.append(replace(first, text=text))
        return by_rank(said)

    def _machines(self) -> Markup:
        rows = [
            [", ".join([one.key, *one.also]), str(len(one.distinct)), ", ".join(one.distinct)] for one in self._factors
        ]
        trees = [dict(flat(result.document.get("machine") or {})) for result in self._results]
        same = [(key, value) for key, value in trees[0].items() if all(tree.get(key) == value for tree in trees)]
        shared = details(f"{len(same)} settings in common", table(["setting", "value"], same, "settings"))
        return tag("div", table(["setting", "values", "which"], rows, "settings"), shared)

    def _table(self, part: Sequence[Result], ranked: Sequence[Place]) -> Markup:
        rows = []
        for row, place in enumerate(ranked, 1):
            result = part[place.number]
            told = "may be" if place.may_be_best else "excluded"
            cells = [cell(result) for _, cell in self._kind.columns]
            rows.append([str(row), *self._levels[id(result)], mean(place.known), told, *cells, str(place.known.n)])
        keys = [factor.key for factor in self._factors]
        return table(["", *keys, self._kind.unit, "the best", *(head for head, _ in self._kind.columns), "n"], rows)

    def _provenance(self) -> Markup:
        made = [result.document.get("versions") or {} for result in self._results]
        versions = dict.fromkeys(
            (name.replace("_", " "), value) for tree in made for name, value in flat(tree, "versions")
        )
        files = [part for result in self._results for part in result.parts or (result,)]
        listed = table(["result", "SHA-256"], [[part.source, part.digest] for part in files], "settings")
        said = [("designs", str(len(self._results))), ("results", str(len(files))), *versions]
        return tag("div", pairs([*said, ("report made by", f"servsim {__version__}")]), details("every result", listed))


_RANKS = (
    "Ordered by their means. Excluded from being the best are those that a test finds worse than the first, its level "
    f"shared by as many tests as there are others: the best in truth is excluded in at most 5{SPACE}% of such tables. "
    "Where runs are fewer than three, nothing is known but the means."
)
