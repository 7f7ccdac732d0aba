"""``servsim reproduce``: rerun a published study and print every figure beside ours."""

from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import say
from servsim.errors import CheckFailed
from servsim.trace.files import trace_file


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def reproduce(
        study: str = typer.Argument(help="Name of the study, for example du-2001."),
        quick: bool = typer.Option(False, "--quick", help="A shorter run where the study takes long."),
        trace: Annotated[
            list[Path] | None,
            typer.Option(
                help="A trace of your own instead of the shipped small one; one of each workload or kernel where a "
                "study compares several."
            ),
        ] = None,
        count: Annotated[
            int | None,
            typer.Option("--runs", min=2, help="Runs of each configuration, where a study simulates many."),
        ] = None,
        references: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="How many references each run measures. foglia-2004: behind as many of warm-up; it makes 121 "
                "configurations, 51 with --quick, and a host's core simulates some 6 million a second. "
                "alameldeen-2003: about so many, in whole transactions.",
            ),
        ] = None,
        as_json: bool = typer.Option(False, "--json", help="Print JSON (schema servsim.reproduce/1)."),
    ) -> None:
        """Rerun a published study: the paper's figures beside ours, cell by cell.

        A study on a trace that was ended goes on where it was when it is asked for again.

        Example: servsim reproduce foglia-2004 --quick
        """
        from servsim.reproduce import run

        traces = trace or []
        for path in traces:
            trace_file(path)
        with Progress() as progress:
            report = run(study, quick=quick, traces=traces, say=progress, count=count, references=references)
        deliver(report.to_dict(), as_json, lambda: report.render().rstrip("\n"))
        if report.interrupted:
            say("interrupted: the rows above are those whose runs had ended")
            raise KeyboardInterrupt
        if not report.passed:
            missed = ", ".join(check.name for check in report.checks if not check.passed)
            raise CheckFailed(f"{study}: hard rows missed: {missed}")
