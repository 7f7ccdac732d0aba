"""Published studies, rerun: every printed figure beside ours, with computed verdicts.

To add a paper: write ``servsim/reproduce/NAME.py`` (or a package) with ``TITLE`` and
``run(quick, trace, say) -> Report``, and add one line to :data:`STUDIES`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from servsim.errors import UsageError
from servsim.progress import Show
from servsim.reproduce.report import Report

#: Name on the command line to module.
STUDIES: dict[str, str] = {
    "alameldeen-2003": "servsim.reproduce.alameldeen_2003",
    "du-2001": "servsim.reproduce.du_2001",
    "foglia-2004": "servsim.reproduce.foglia_2004",
    "thornock-1997": "servsim.reproduce.thornock_1997",
}


def run(name: str, *, quick: bool = False, trace: Path | None = None, say: Show = lambda *_: None) -> Report:
    """Rerun one study: on ``trace`` instead of the shipped one, telling ``say`` what is being run.

    Raises
    ------
    UsageError
        When no study has this name.
    """
    if name not in STUDIES:
        raise UsageError(f"unknown study `{name}`; choose one of {', '.join(STUDIES)}")
    report: Report = import_module(STUDIES[name]).run(quick, trace, say)
    return report
