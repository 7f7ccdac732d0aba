"""``servsim capture``: run a workload in the guest and write the trace of everything it did."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servsim.cli.options import pairs
from servsim.cli.progress import Progress
from servsim.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint
    from servsim.capture.emulator import Plugin
    from servsim.capture.folder import FolderSettings
    from servsim.capture.record import Captured
    from servsim.capture.settings import GuestSettings

#: Workloads of whose capture more is known than their folder says: name to the module with its ``capture`` function.
WORKLOADS = {"oltp": "servsim.capture.oltp"}


def register(app: typer.Typer) -> None:
    """Add the subcommand to the application."""
    app.command()(capture)


def capture(
    workload: Annotated[
        str, typer.Argument(help="A name of `servsim workload list`, or the folder of a workload (docs/workloads.md).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace to write (.svt).")],
    transactions: Annotated[
        int | None, typer.Option(min=1, help="Transactions to capture, over all users; as many as the workload says.")
    ] = None,
    captures: Annotated[
        int,
        typer.Option(min=1, help="Captures, numbered before the ending: x.1.svt, x.2.svt, ...; one keeps the name."),
    ] = 1,
    users: Annotated[int | None, typer.Option(min=1, max=100, help="Concurrent users.")] = None,
    warehouses: Annotated[int | None, typer.Option(min=1, help="Size of the database.")] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(min=0, help="Transactions before the checkpoint, over all users; otherwise until it settles."),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option("--set", "--setting", metavar="KEY=VALUE", help="A setting of the workload; may be repeated."),
    ] = None,
    scale: Annotated[str | None, typer.Option(help="A named size, from `servsim workload list NAME`.")] = None,
    round_trip: Annotated[
        str, typer.Option(help="What a client sends at a time: a whole transaction, or a statement.")
    ] = "transaction",
    connection: Annotated[str, typer.Option(help="How clients reach the server: unix (socket) or tcp.")] = "unix",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the requests; the next capture has the next one, and begins later.")
    ] = 1,
    verify: Annotated[bool, typer.Option(help="Count the same run independently and compare.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Capture a real workload, kernel included, from a warm checkpoint of the emulated guest."""
    import tempfile
    from importlib import import_module

    from servsim.capture.replication import each

    path = None if workload in WORKLOADS else _folder(workload)
    if output.is_dir():
        raise UsageError(f"{output} is a folder; name the trace file to write")
    chosen: dict[str, Any] = {"users": users, "warehouses": warehouses, "warmup": warm_up}
    chosen |= {"round_trip": round_trip, "connection": connection}
    if path is not None:
        own = _of_folder(path, scale, chosen, server or [])
        run, client = partial(_generic, own), own.folder.client if own.folder.has("start") else ""
        count = transactions or own.folder.measured
    else:
        if scale is not None:
            raise UsageError("--scale is no option of the capture of oltp: give its size with --warehouses")
        count = transactions or 200
        module = import_module(WORKLOADS[workload])
        run, client = partial(_named, module, _settings(chosen, server or [])), None

    def one(shown: Progress, trace: Path, its_seed: int, number: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="servsim-") as folder:
            counts = Path(folder) / "counts.json"
            observers = partial(_counting, counts, client) if verify else None
            captured = run(count, trace, shown.tell, its_seed, observers, number)
            document: dict[str, Any] = captured.as_document()
            if verify:
                document["verify"] = _verified(captured.trace, counts)
        if not as_json:
            _show(document)
        return document

    with Progress() as shown:
        documents = list(each(partial(one, shown), output, captures, seed))
    if as_json:
        several = {"schema": "servsim.captures/1", "captures": documents}
        typer.echo(json.dumps(documents[0] if captures == 1 else several))


def _named(module: Any, settings: "GuestSettings", *orders: Any) -> "Captured":
    """Capture a workload that has a module of its own."""
    transactions, trace, tell, seed, observers, moment = orders
    captured: Captured = module.capture(transactions, trace, None, tell, seed, settings, observers, moment)
    return captured


def _generic(settings: "FolderSettings", *orders: Any) -> "Captured":
    """Capture the workload of a folder."""
    from servsim.capture.generic import capture

    transactions, trace, *rest = orders
    return capture(transactions, trace, settings, *rest)


def _settings(chosen: dict[str, Any], server: list[str]) -> "GuestSettings":
    """Return the guest's settings: those given, and the defaults of the rest."""
    from servsim.capture.settings import GuestSettings

    given = {key: value for key, value in chosen.items() if value is not None}
    return GuestSettings(**given, server=tuple(pairs(server)))


def _folder(workload: str) -> Path:
    """Return the folder of a workload that ships, or of a user's own."""
    from servsim.capture.folder import shipped
    from servsim.workloads import names

    if workload in names() and shipped(workload).is_dir():
        return shipped(workload)
    if Path(workload).is_dir():
        return Path(workload)
    raise UsageError(
        f"{workload} is not a workload that can be captured; there is: {', '.join(names())}; "
        "or name the folder of a workload"
    )


def _of_folder(path: Path, scale: str | None, chosen: dict[str, Any], words: list[str]) -> "FolderSettings":
    """Return a folder's workload with the settings that were given; ``--users`` is the setting of that name."""
    from servsim.capture.folder import FolderSettings, read

    defaults = {"round_trip": "transaction", "connection": "unix"}
    other = [name for name, value in chosen.items() if name != "users" and value not in (None, defaults.get(name))]
    if other:
        option = {"warmup": "warm-up"}.get(other[0], other[0].replace("_", "-"))
        raise UsageError(f"--{option} is an option of oltp; give the settings of {path} with --set NAME=VALUE")
    users = {} if chosen["users"] is None else {"users": str(chosen["users"])}
    folder = read(path.absolute())
    return FolderSettings(folder, {**folder.scale(scale), **users, **dict(pairs(words))})


def _counting(counts: Path, client: str | None, checkpoint: "Checkpoint") -> list["Plugin"]:
    """Return the plug-in that counts the same run."""
    from servsim.capture.count import CLIENT, counting_plugin

    return [counting_plugin(checkpoint, counts, CLIENT if client is None else client)]


def _verified(trace: Path, counts: Path) -> dict[str, Any]:
    """Compare the trace with the independent counts; a disagreement is an error."""
    from servsim.capture.count import compare

    found = compare(trace, counts)
    if not found["agree"]:
        raise CheckFailed(f"the trace and the independent count disagree: {json.dumps(found['figures'])}")
    return found


def _show(figures: dict[str, Any]) -> None:
    """Print the figures of a capture."""
    counted = " = server's count" if "reconciliation" in figures["driver"] else ""
    typer.echo(
        f"{figures['trace']}: {figures['transactions']:,} transactions (marks = replies{counted}), "
        f"{figures['instructions']:,} instructions, {figures['data_references']:,} data references\n"
        f"{figures['file_bytes'] / 2**20:.1f} MiB, {figures['bytes_per_data_reference']:.2f} bytes per data "
        f"reference, captured at {figures['data_references_per_second'] / 1e6:.2f} million data references/s"
    )
    for name, key in (("database", "scale"), ("warm-up", "warm_up")):
        if key in figures["provenance"]:
            typer.echo(f"{name}: {figures['provenance'][key]}")
    for name, figure in figures.get("verify", {}).get("figures", {}).items():
        typer.echo(
            f"{name.replace('_', ' ')}: trace {figure['trace']:,}, independent {figure['independent']:,}, "
            f"difference {100 * figure['relative_difference']:.4f} %"
        )
