"""``servsim machine``: descriptions of machines: which there are, what one says, a new one, what is wrong with one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servsim.cli.options import AsJson, Settings
from servsim.cli.printing import deliver, print_json
from servsim.cli.terminal import say
from servsim.errors import CheckFailed, UsageError
from servsim.files import atomic_write

if TYPE_CHECKING:
    from servsim.machines import Beside

Named = Annotated[str, typer.Argument(metavar="MACHINE", help="A machine that ships, or a file.")]

machine = typer.Typer(
    help="Describe machines: list those that ship, show one, begin a new one, check one.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    app.add_typer(machine, name="machine")


@machine.command("list")
def list_machines(as_json: AsJson = False) -> None:
    """List the machines that ship, each with its cores and caches (docs/machines.md)."""
    from servsim.machines import machine_text, resolve, shipped_machines, words
    from servsim.text import columns

    found = {name: words.row(resolve(machine_text(name), name, [])) for name in sorted(shipped_machines())}
    if as_json:
        print_json({"schema": "servsim.machine.list/1", "machines": found})
        return
    heads = list(next(iter(found.values())))
    print("\n".join(columns([["machine", *heads], *([name, *row.values()] for name, row in found.items())], left=8)))


@machine.command()
def show(
    name: Named,
    settings: Settings = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a machine is and which settings are not those of the defaults; --picture draws it."""
    from servsim.machines import changed, machine_text, resolve

    described = resolve(machine_text(name), name, settings or [])
    others = changed(described)
    if picture is not None:
        draw(described, picture)
        say(f"wrote {picture}")
    document = {"schema": "servsim.machine.show/1", "machine": described, "changed": [asdict(one) for one in others]}
    deliver(document, as_json, lambda: told(described, others))


def draw(described: Mapping[str, Any], output: Path) -> None:
    """Write the picture of a resolved machine."""
    from servsim.report.picture import picture

    atomic_write(output, picture(described) + "\n")


def told(described: Mapping[str, Any], others: Sequence["Beside"]) -> str:
    """Return what people read of a resolved machine, and of its settings that are not those of the defaults."""
    from servsim.machines.settings import settings
    from servsim.machines.words import summary
    from servsim.text import columns

    head, *more = summary(described)
    rows = [("setting", "here", "default"), *((one.key, one.value, one.default) for one in others)]
    rest = len(settings()) - len(others)
    ended = f"{rest} settings have their defaults; --json prints all, `servsim explain KEY` says what one means."
    lines = [f"{described['name']}: {head}", *(f"  {line}" for line in more), "", *columns(rows, left=3)]
    return "\n".join([*lines, "", ended])


@machine.command()
def new(
    output: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The description to write.")],
    like: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="Begin with this one, as it stands, sources included.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every setting there is.")] = False,
) -> None:
    """Write a description to begin with, with what each setting means as a comment."""
    from servsim.machines import machine_text
    from servsim.machines.starter import starter

    if like is not None and everything:
        raise UsageError("--like copies a description as it stands: leave out --all")
    if output.exists():
        raise UsageError(f"{output} is there already: name a new file, or check that one with `servsim machine check`")
    atomic_write(output, starter(output.stem, everything=everything) if like is None else machine_text(like))
    say(f"wrote {output}: change it, then servsim machine check {output}")


@machine.command()
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Descriptions.")],
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Find everything that is wrong with descriptions, each with its line; exit 1 when there is anything."""
    from servsim.machines import faults
    from servsim.text import printable

    found = {str(path): faults(path, settings or []) for path in paths}
    lines = [line for path, wrong in found.items() for line in wrong or [f"{path}: no faults"]]
    deliver({"schema": "servsim.machine.check/1", "faults": found}, as_json, lambda: printable("\n".join(lines)))
    if count := sum(map(len, found.values())):
        raise CheckFailed(
            f"{count} fault{'' if count == 1 else 's'} in {len(paths)} description{'s'[: len(paths) > 1]}"
        )
