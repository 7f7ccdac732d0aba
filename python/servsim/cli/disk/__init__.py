"""``servsim disk``: models built from block traces, judged and used."""

import typer


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    from servsim.cli.disk.commands import app

    root.add_typer(app, name="disk")
