"""Published studies, rerun: every printed figure beside ours, with computed verdicts.

To add a paper: write ``servsim/reproduce/NAME.py`` (or a package) with ``TITLE`` and
``run(quick, trace, say) -> Report``, and add one line to :data:`STUDIES`. One that sets ``SEVERAL_TRACES``
gets a sequence of traces instead; one that sets ``SIZED`` also takes how many runs it makes and how many references
each measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from servsim.errors import UsageError
from servsim.progress import Show
from servsim.reproduce.report import Report

#: Name on the command line to module.
STUDIES: dict[str, str] = {
    "alameldeen-2003": "servsim.reproduce.alameldeen_2003",
    "brock-2001": "servsim.reproduce.brock_2001",
    "du-2001": "servsim.reproduce.du_2001",
    "foglia-2004": "servsim.reproduce.foglia_2004",
    "thornock-1997": "servsim.reproduce.thornock_1997",
}


def run(
    name: str,
    *,
    quick: bool = False,
    traces: Sequence[Path] = (),
    say: Show = lambda *_: None,
    count: int | None = None,
    references: int | None = None,
) -> Report:
    """Rerun one study: on these traces instead of the shipped one, telling ``say`` what is being run.

    A study that simulates the same configurations again and again may be told how often, ``count``, and how many
    ``references`` each run measures.

    Raises
    ------
    UsageError
        When no study has this name, it takes one trace and gets several, or its runs are not chosen so.
    """
    if name not in STUDIES:
        raise UsageError(f"unknown study `{name}`; choose one of {', '.join(STUDIES)}")
    study = import_module(STUDIES[name])
    if getattr(study, "SIZED", False):
        sized: Report = study.run(quick, traces, say, count, references)
        return sized
    if count is not None or references is not None:
        raise UsageError(f"{name} makes runs of its own number and length: leave --runs and --references out")
    if getattr(study, "SEVERAL_TRACES", False):
        report: Report = study.run(quick, traces, say)
        return report
    if len(traces) > 1:
        raise UsageError(f"{name} runs one trace, and {len(traces)} were given: give --trace once")
    one: Report = study.run(quick, traces[0] if traces else None, say)
    return one
