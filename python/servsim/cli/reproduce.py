"""``servsim reproduce``: rerun a published study and print every figure beside ours."""

import json

import typer

from servsim.errors import CheckFailed


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def reproduce(
        study: str = typer.Argument(help="Name of the study, for example du-2001."),
        quick: bool = typer.Option(False, "--quick", help="A shorter run where the study takes long."),
        as_json: bool = typer.Option(False, "--json", help="Print JSON (schema servsim.reproduce/1)."),
    ) -> None:
        """Rerun a published study: the paper's figures beside ours, cell by cell."""
        from servsim.reproduce import run

        report = run(study, quick=quick)
        typer.echo(json.dumps(report.to_dict()) if as_json else report.render(), nl=as_json)
        if not report.passed:
            missed = ", ".join(check.name for check in report.checks if not check.passed)
            raise CheckFailed(f"{study}: hard rows missed: {missed}")
