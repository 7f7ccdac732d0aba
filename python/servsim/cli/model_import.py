"""``servsim model import``, and how every command of ``servsim model`` reads the file it is given."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from servsim.files import atomic_write
from servsim.text import printable

if TYPE_CHECKING:
    from servsim.model import Network


Model = typer.Argument(help="Model of JMT (.jmva, .jsimg) or of layered queues (.lqn, .lqnx).")
Output = typer.Option(None, "-o", "--output", help="TOML file to write; standard output by default.")


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("import")(import_)


def network(path: Path) -> "Network":
    """Return the network in a file: a TOML description, or a model of another tool, with notes about that."""
    from servsim.model import Network
    from servsim.model.importing import is_foreign, read

    if not is_foreign(path):
        return Network.from_file(path)
    found = read(path)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    return found.network


def import_(file: Path = Model, output: Path | None = Output) -> None:
    """Turn a model of JMT or of layered queueing networks into an editable TOML description."""
    from servsim.model import solving
    from servsim.model.importing import read
    from servsim.model.writing import to_toml

    found = read(file)
    solving.check(found.network)
    text = (
        f"# From {printable(file.name)}.\n"
        + "".join(f"# Note: {note}.\n" for note in found.notes)
        + to_toml(found.network)
    )
    if output is None:
        typer.echo(text, nl=False)
        return
    atomic_write(output, text)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"wrote {output}", err=True)
