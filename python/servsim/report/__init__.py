"""The report: results in, one self-contained HTML page out.

The page asks for nothing over the network, states machine, workload, method and warnings before any
chart, and prints no mean without its interval and the number of replications. It depends on the
results alone, so the same results give the same bytes.
"""

from collections.abc import Container, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.comparison.factors import factors
from servsim.comparison.grouping import designs, names
from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.report import by_reference, sampled, wording
from servsim.report.changes import of_settings
from servsim.report.sections import Section, sections
from servsim.report.warnings import invalidity
from servsim.result import TIMED, Result, check, document_of, load, without_transactions
from servsim.sweep.store import finished, is_sweep

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Result", "check", "files", "load", "page", "read", "render", "write", "write_page"]

#: Designs that stand side by side. More are neither readable so nor quickly ranked pair by pair: they are rows.
MOST_BESIDE = 40

#: Designs that a page holds: more rows are no page that anybody reads.
MOST_DESIGNS = 2000


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("servsim.report", "page")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True).get_template(
        "page.html.j2"
    )


def render(results: Sequence[Result], only: Container[str] | None = None) -> str:
    """Render results as one self-contained HTML page.

    Parameters
    ----------
    results : sequence of Result
        At least one. Replications of one design in several results are joined; designs are set side by side.
    only : container of str, optional
        Anchors of the sections to show; all without it.

    Returns
    -------
    str
        The page.

    Raises
    ------
    UsageError
        If there are no results, or too many designs for one page.
    """
    if not results:
        raise UsageError("a report needs at least one result")
    if any(map(sampled.is_sampled, results)):
        return _sampled(results, only)
    found = designs(results)
    if len(found) > MOST_DESIGNS:
        raise UsageError(
            f"a page holds at most {MOST_DESIGNS:,} designs, and these are {len(found):,}: name the results of fewer; "
            "the results.parquet of a sweep holds the figures of all"
        )
    of_time = [result for result in found if not result.is_functional]
    if of_time and len(of_time) < len(found):
        raise UsageError(
            "some of these results are of the functional engine, which knows no time, and some are not: a page holds "
            "results of one engine"
        )
    by_transaction = bool(of_time) and not any(without_transactions(result.replications) for result in found)
    parts, kicker, answer, alarms = _shown(found, by_transaction)
    shown = [section for section in parts if only is None or section.anchor in only]
    return page(f"{_title(found)}: servsim report", kicker, answer, shown, alarms)


def _shown(found: Sequence[Result], by_transaction: bool) -> tuple[list[Section], str, str, list[str]]:
    """Return the sections of a page, what stands above its headline, the headline, and what is invalid."""
    if len(found) > MOST_BESIDE:
        from servsim.report.study import BY_REFERENCE, BY_TRANSACTION, StudyPage

        study = StudyPage(found, BY_TRANSACTION if by_transaction else BY_REFERENCE)
        return study.sections(), f"a study of {len(found)} designs", study.headline(), study.alarms()
    kicker = _title(found) if len(found) == 1 else f"{len(found)} designs compared"
    every = factors([result.document for result in found])
    if by_transaction:
        made = _with_changes(sections(found), of_settings(found, every, wording.METRIC, "cycles per transaction"))
        return made, kicker, wording.headline(found), invalidity(found)
    changed = of_settings(found, every, by_reference.METRIC, by_reference.UNIT)
    made = _with_changes(by_reference.sections(found), changed)
    return made, kicker, by_reference.headline(found), by_reference.alarms(found)


def _with_changes(made: list[Section], of_them: list[Section]) -> list[Section]:
    """Put what each setting changes before the provenance."""
    return [*made[:-1], *of_them, made[-1]]


def _sampled(results: Sequence[Result], only: Container[str] | None) -> str:
    if len(results) > 1:
        raise UsageError("a page holds one sampled answer: `servsim compare --sampled` ranks designs by common windows")
    (result,) = results
    shown = [section for section in sampled.sections(result) if only is None or section.anchor in only]
    return page(f"{result.machine}: servsim report", f"{result.machine}, sampled", sampled.headline(result), shown)


def read(path: Path) -> Result:
    """Read a result for a page: cycles are demanded where time passed, and transactions, or references without any."""
    return _checked(document_of(path), str(path))


def _checked(document: object, source: str) -> Result:
    known = document if isinstance(document, Mapping) else {}
    if known.get("schema") == sampled.SCHEMA:
        return sampled.wrapped(known, source)
    if known.get("engine") == "functional":
        return check(document, source, ("references",))
    without = without_transactions(known.get("replications"))
    return check(document, source, ("cycles", "references") if without else TIMED)


def files(paths: Sequence[Path]) -> list[Path]:
    """Return the result files that paths name: themselves, and all runs of a sweep for its folder.

    Raises
    ------
    UsageError
        If a folder is not that of a sweep, or none of its runs has finished.
    """
    found = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        refuse_other_folders(path)
        runs = finished(path)
        if not runs:
            raise UsageError(f"no run of the sweep in {path} has finished: run `servsim sweep` on its study again")
        found += runs
    return found


def refuse_other_folders(path: Path) -> None:
    """Refuse a folder that is not of a sweep.

    Raises
    ------
    UsageError
        Then, with what to name.
    """
    if path.is_dir() and not is_sweep(path):
        raise UsageError(f"{path} is a folder, but not of a sweep: name result files, or the folder of a sweep")


def _title(found: Sequence[Result]) -> str:
    """Name the designs of a page, the first three of many."""
    called = list(names(found).values())
    more = f" and {len(called) - 3} more" if len(called) > 4 else ""
    return ", ".join(called[:3]) + more if more else " and ".join(called)


def page(title: str, kicker: str, headline: str, parts: Sequence[Section], alarms: Sequence[str] = ()) -> str:
    """Render sections as one self-contained HTML page under a headline.

    ``kicker`` stands above the headline, and ``alarms``, which say what is invalid, above everything else.
    """
    style = resources.files("servsim.report").joinpath("page", "style.css").read_text(encoding="utf-8")
    return _template().render(title=title, kicker=kicker, headline=headline, sections=parts, alarms=alarms, style=style)


def write(results: Sequence[Result | Mapping[str, Any]], output: Path) -> Path:
    """Write the report of one or several results.

    Parameters
    ----------
    results : sequence of Result or mapping
        Loaded results, or ``servsim.simulate/1`` documents as `servsim.simulate.simulate` returns them.
    output : Path
        The HTML file, in a folder that exists; replaced only when complete.

    Returns
    -------
    Path
        ``output``.

    Raises
    ------
    UsageError
        If a document is not a simulation result.
    EnvironmentProblem
        If the file cannot be written.
    """
    loaded = [item if isinstance(item, Result) else _checked(item, "this run") for item in results]
    return _put(render(loaded), output)


def write_page(
    output: Path, title: str, kicker: str, headline: str, parts: Sequence[Section], alarms: Sequence[str] = ()
) -> Path:
    """Write a page of other sections than a report's; see `page` and `write`."""
    return _put(page(title, kicker, headline, parts, alarms), output)


def _put(text: str, output: Path) -> Path:
    atomic_write(output, text)
    return output
