"""``servsim workload``: the real servers of the suite, natively on this host.

Options that only one workload knows are handed to its driver as they are.
"""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.options import pairs
from servsim.text import columns
from servsim.workloads import REGISTRY, Request, find

workload_app = typer.Typer(no_args_is_help=True, help="Load, run and check real servers on this host.")

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_NAME = typer.Argument(help="Name of the workload, from `servsim workload list`.")
_SCALE = typer.Option("small", "--scale", help="Size of the data: a name (small, paper, spec) or WxDxCxI.")
_SET = typer.Option([], "--set", metavar="KEY=VALUE", help="A setting of the server; may be repeated.")
_JSON = typer.Option(False, "--json", help="Print JSON.")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.add_typer(workload_app, name="workload")


def _options(**values: object) -> list[str]:
    """Turn the options that were given into words of the driver's command line."""
    words: list[str] = []
    for key, value in values.items():
        if value is not None:
            words += [f"--{key.replace('_', '-')}", str(value)]
    return words


@workload_app.command("list")
def list_workloads(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder of a workload: say what it is, and its settings.")
    ] = None,
    json: bool = _JSON,
) -> None:
    """List the workloads, or say what the folder of one holds (docs/workloads.md)."""
    if folder is not None:
        _show_folder(folder, json)
        return
    summaries = {name: find(name).summary for name in REGISTRY}
    if json:
        document = {"schema": "servsim.workload.list/1", "workloads": summaries}
        typer.echo(json_module.dumps(document, indent=2))
        return
    typer.echo("\n".join(columns(list(summaries.items()), left=2)))


def _show_folder(path: Path, json: bool) -> None:
    """Print what the folder of a workload says: its kinds of transactions, its settings with units."""
    from dataclasses import asdict

    from servsim.capture.folder import read
    from servsim.text import columns

    folder = read(path)
    if json:
        settings = {name: asdict(setting) for name, setting in folder.settings.items()}
        said = {"summary": folder.summary, "packages": folder.packages, "transactions": folder.transactions}
        typer.echo(json_module.dumps({"schema": "servsim.workload.folder/1", **said, "settings": settings}, indent=2))
        return
    typer.echo(f"{folder.summary}\ntransactions: {', '.join(folder.transactions)}")
    heading = ["setting", "default", "unit", "meaning"]
    rows = [[name, found.default, found.unit, found.meaning] for name, found in folder.settings.items()]
    for line in columns([heading, *rows], left=4) if rows else ():
        typer.echo(line)


@workload_app.command(context_settings=_PASS_ON)
def load(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str = _SCALE,
    seed: int | None = typer.Option(None, min=0, help="Seed of the data."),
    settings: list[str] = _SET,
    json: bool = _JSON,
) -> None:
    """Make the data of a workload, replacing any of the same scale."""
    options = [*_options(seed=seed), *context.args]
    find(name).load(Request(scale, options, dict(pairs(settings)), json))


@workload_app.command(context_settings=_PASS_ON)
def run(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str = _SCALE,
    users: int | None = typer.Option(None, min=1, help="Concurrent users."),
    transactions: int | None = typer.Option(None, min=1, help="Transactions to measure, over all users."),
    seconds: float | None = typer.Option(None, help="Measure for this long instead, in seconds."),
    warm_up: int | None = typer.Option(None, min=0, help="Transactions before the measurement."),
    seed: int | None = typer.Option(None, min=0, help="Seed of the requests."),
    settings: list[str] = _SET,
    json: bool = _JSON,
) -> None:
    """Run a workload and report; fails when any request failed or the books do not balance."""
    given = _options(users=users, transactions=transactions, seconds=seconds, warm_up=warm_up, seed=seed)
    find(name).run(Request(scale, [*given, *context.args], dict(pairs(settings)), json))


@workload_app.command(context_settings=_PASS_ON)
def check(
    context: typer.Context,
    *,
    name: str = _NAME,
    scale: str = _SCALE,
    after: str | None = typer.Option(None, help="What came before: load or run (the default)."),
    settings: list[str] = _SET,
    json: bool = _JSON,
) -> None:
    """Check that a workload's data are consistent."""
    find(name).check(Request(scale, [*_options(after=after), *context.args], dict(pairs(settings)), json))
