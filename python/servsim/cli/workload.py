"""``servsim workload``: the real servers of the suite, natively on this host.

Settings of a workload may be written as options of their names (``--users 8``).
"""

from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.options import SETTINGS_AS_OPTIONS, AsJson, pairs
from servsim.cli.printing import deliver, print_json
from servsim.errors import UsageError
from servsim.text import columns
from servsim.workloads import Request, find

workload_app = typer.Typer(no_args_is_help=True, help="Load, run and check real servers on this host.")

_NAME = typer.Argument(help="Name of the workload, from `servsim workload list`.")
_SCALE = typer.Option(
    None, "--scale", help="Size of the data: a name such as small or paper, from `servsim workload list NAME`."
)
_SET = typer.Option([], "--set", metavar="KEY=VALUE", help="A setting of the workload; may be repeated.")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(workload_app, name="workload")


@workload_app.command("list")
def list_workloads(
    folder: Annotated[
        str | None, typer.Argument(help="Name or folder of a workload: say what it is, and its settings.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the workloads, or say what one of them is and what may be set (docs/workloads.md)."""
    if folder is not None:
        _show_folder(folder, json)
        return
    from servsim.capture.folder import names

    summaries = {name: find(name).summary for name in names()}
    if json:
        document = {"schema": "servsim.workload.list/1", "workloads": summaries}
        print_json(document)
        return
    typer.echo("\n".join(columns(list(summaries.items()), left=2)))


def _show_folder(name: str, json: bool) -> None:
    """Print what the folder of a workload says: its kinds of transactions, its settings with units."""
    from dataclasses import asdict

    from servsim.capture import folder as folders

    folder = folders.find(name)
    if json:
        settings = {name: asdict(setting) for name, setting in folder.settings.items()}
        said: dict[str, object] = {"summary": folder.summary, "packages": folder.packages}
        said |= {"transactions": folder.transactions, "scales": folder.scales}
        print_json({"schema": "servsim.workload.folder/1", **said, "settings": settings})
        return
    typer.echo(f"{folder.summary}\ntransactions: {', '.join(folder.transactions)}")
    heading = ["setting", "default", "unit", "meaning"]
    rows = [[name, found.default, found.unit, found.meaning] for name, found in folder.settings.items()]
    for line in columns([heading, *rows], left=4) if rows else ():
        typer.echo(line)
    for scale, values in folder.scales.items():
        typer.echo(f"--scale {scale}: {', '.join(f'{key}={value}' for key, value in values.items())}")


@workload_app.command(context_settings=SETTINGS_AS_OPTIONS)
def load(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str | None = _SCALE,
    settings: list[str] = _SET,
    json: AsJson = False,
) -> None:
    """Make the data of a workload, replacing any of the same settings.

    Those that the data depend on are options too, such as --data-seed 7: `servsim workload list NAME` tells them.
    """
    find(name).load(Request(scale, context.args, settings=dict(pairs(settings)), json=json))


@workload_app.command(context_settings=SETTINGS_AS_OPTIONS)
def run(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str | None = _SCALE,
    transactions: int | None = typer.Option(None, min=1, help="Transactions to measure, over all users."),
    seed: int | None = typer.Option(None, min=0, help="Seed of the requests."),
    settings: list[str] = _SET,
    json: AsJson = False,
) -> None:
    """Run a workload and report; fails when any request failed or the books do not balance.

    Its settings are options too, such as --users 8: `servsim workload list NAME` tells them.
    """
    find(name).run(Request(scale, context.args, transactions, seed, dict(pairs(settings)), json))


@workload_app.command(context_settings=SETTINGS_AS_OPTIONS)
def check(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str | None = _SCALE,
    settings: list[str] = _SET,
    json: AsJson = False,
) -> None:
    """Check that a workload's data are consistent."""
    find(name).check(Request(scale, context.args, settings=dict(pairs(settings)), json=json))


@workload_app.command()
def tune(
    name: str = _NAME,
    *,
    ladder: Annotated[
        Path | None, typer.Option(help="A file with a ladder; that of the workload's folder without it.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in each of which every step runs once.")] = 5,
    transactions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Transactions of each run, over all users; natively 2000 without it, the middle half of each "
            "capture in simulation.",
        ),
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help="Simulate the steps on this machine; natively without it.")
    ] = None,
    trace: Annotated[
        list[Path] | None, typer.Option(help="A capture of each step, in their order, for --machine.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Run the tuning ladder of a workload: ordered steps, each with its ratio to the one before and its interval."""
    from servsim.capture.folder import find as folder_of
    from servsim.cli.progress import Progress
    from servsim.workloads import tuning

    folder = folder_of(name)
    rungs = tuning.read(folder, ladder)
    if machine is None and trace:
        raise UsageError("captures are simulated: name a machine with --machine")
    with Progress() as shown:
        if machine is None:
            document = tuning.run(folder, rungs, rounds, transactions or tuning.TRANSACTIONS, shown.tell)
        else:
            document = tuning.run_simulated(rungs, trace or [], machine, rounds, transactions, shown.tell)
    deliver(document, json, lambda: tuning.table(document))
