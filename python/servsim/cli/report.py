"""``servsim report``: one self-contained HTML page from one or several simulation results."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Results of `servsim simulate --json`, or the folder of a sweep; several are set side by side.",
            metavar="RESULT...",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Make one HTML page from simulation results.

    The page needs nothing but itself: send it, print it, read it on a phone. Results that differ in their seeds
    alone are replications of one design.
    """
    from servsim.report import files, read, write

    print(write([read(path) for path in files(results)], output))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(report)
