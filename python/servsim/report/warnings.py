"""What a reader should know before believing a figure: recorded with the results, or seen in them; the worst first."""

from collections.abc import Sequence

from servsim.comparison.grouping import different, names
from servsim.comparison.suspicions import ENOUGH
from servsim.report import figures
from servsim.report.format import SPACE
from servsim.result import Result
from servsim.result_warnings import ResultWarning, by_rank, recorded

#: A half-width beyond this share of the mean deserves a remark.
WIDE = 0.05


def warnings(results: Sequence[Result]) -> list[ResultWarning]:
    """Return the warnings of a page, each with its remedy, the worst first; what holds for all is said once."""
    found: dict[ResultWarning, list[str]] = {}
    called = names(results)
    for result in results:
        for warning in of_replications(result):
            found.setdefault(warning, []).append(called[id(result)])
    said = [w if len(of) == len(results) else w.of_design(", ".join(of)) for w, of in found.items()]
    return by_rank([*said, *unlike(results)])


def of_replications(result: Result) -> list[ResultWarning]:
    """Return the warnings of one result with time: those it records, and what its replications say of its intervals."""
    given = recorded(result.document)
    told = any("--replications" in warning.text for warning in given)
    return list(dict.fromkeys([*given, *([] if told else _replications(result))]))


def invalidity(results: Sequence[Result]) -> list[str]:
    """Return why figures of the page are not what they are named; nothing where none is invalid."""
    return [warning.text for warning in warnings(results) if warning.rank == "invalid"]


def _replications(result: Result) -> list[ResultWarning]:
    cycles = result.known(figures.cycles_per_transaction(result))
    # The runs of a sweep, or runs of one seed each: `--replications` belongs to another command.
    by_seed = len(result.parts) == len(result.replications) > 1
    more = f"`seeds = {{ count = {ENOUGH} }}` in the study" if by_seed else f"`--replications {ENOUGH}`"
    if cycles.half_width is None:
        few = "One replication" if cycles.n == 1 else f"{cycles.n} {'captures' if result.captures else 'replications'}"
        more = "more captures" if result.captures and cycles.n > 1 else f"{more} or more"
        text = f"{few} only, so no figure has an interval; use {more}."
        return [ResultWarning("weak", "one-replication" if cycles.n == 1 else "few-replications", text)]
    found = []
    if cycles.n < ENOUGH and not result.captures:
        text = f"Only {cycles.n} {'seeds' if by_seed else 'replications'}; intervals narrow with {more}."
        found.append(ResultWarning("note", "few-runs", text))
    if cycles.half_width > WIDE * cycles.mean:
        wide = 100 * cycles.half_width / cycles.mean
        text = (
            f"The interval of cycles per transaction is ±{wide:.0f}{SPACE}% of the mean; "
            f"use more {'captures' if result.captures else 'replications'} or more transactions."
        )
        found.append(ResultWarning("weak", "wide-interval", text))
    if cycles.half_width == 0:
        text = "All replications are identical; give each its own seed, or a delay to vary (`--seed`)."
        found.append(ResultWarning("weak", "identical-runs", text))
    return found


def unlike(results: Sequence[Result]) -> list[ResultWarning]:
    """Warn of results that differ in more than the machine."""
    text = "The results differ in their {}, so more than the machine differs between them."
    return [ResultWarning("invalid", "unlike-runs", text.format(what)) for what in different(results)]
