"""Published studies, rerun: every printed figure beside ours, with computed verdicts.

To add a paper: write ``servsim/reproduce/NAME.py`` (or a package) with ``TITLE`` and
``run(quick) -> Report``, and add one line to :data:`STUDIES`.
"""

from __future__ import annotations

from importlib import import_module

from servsim.errors import UsageError
from servsim.reproduce.report import Report

#: Name on the command line to module.
STUDIES: dict[str, str] = {
    "du-2001": "servsim.reproduce.du_2001",
}


def run(name: str, *, quick: bool = False) -> Report:
    """Rerun one study.

    Raises
    ------
    UsageError
        When no study has this name.
    """
    if name not in STUDIES:
        raise UsageError(f"unknown study `{name}`; choose one of {', '.join(STUDIES)}")
    report: Report = import_module(STUDIES[name]).run(quick)
    return report
