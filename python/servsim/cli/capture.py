"""``servsim capture``: run a workload in the guest and write the trace of everything it did."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servsim.cli.options import SETTINGS_AS_OPTIONS, AsJson, workload_settings
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint
    from servsim.capture.emulator import Plugin


def register(app: typer.Typer) -> None:
    """Add the subcommand to the application."""
    app.command(context_settings=SETTINGS_AS_OPTIONS)(capture)


def capture(
    context: typer.Context,
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
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "--setting", metavar="KEY=VALUE", help="A setting of the workload; may be repeated."),
    ] = None,
    scale: Annotated[str | None, typer.Option(help="A named size, from `servsim workload list NAME`.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the requests; the next capture has the next one, and begins later.")
    ] = 1,
    verify: Annotated[bool, typer.Option(help="Count the same run independently and compare.")] = False,
    as_json: AsJson = False,
) -> None:
    """Capture a real workload, kernel included, from a warm checkpoint of the emulated guest.

    Its settings are options too, such as --users 8: `servsim workload list NAME` tells them. memory_mib is the guest's
    memory.
    """
    import tempfile

    from servsim.capture.replication import each
    from servsim.capture.workload import capture as capture_one

    if output.is_dir():
        raise UsageError(f"{output} is a folder; name the trace file to write")
    chosen = workload_settings(workload, scale, settings or [], context.args)
    count = transactions or chosen.folder.measured
    client = chosen.folder.client if chosen.folder.has("start") else ""

    def one(shown: Progress, trace: Path, its_seed: int, number: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="servsim-") as folder:
            counts = Path(folder) / "counts.json"
            observers = partial(_counting, counts, client) if verify else None
            captured = capture_one(count, trace, chosen, shown.tell, its_seed, observers, number)
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
        print_json(documents[0] if captures == 1 else several)


def _counting(counts: Path, client: str, checkpoint: "Checkpoint") -> list["Plugin"]:
    """Return the plug-in that counts the same run."""
    from servsim.capture.count import counting_plugin

    return [counting_plugin(checkpoint, counts, client)]


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
        f"{figures['instructions']:,} instructions, {figures['data_references']:,} data references of all that ran\n"
        f"{figures['file_bytes'] / 2**20:.1f} MiB, {figures['bytes_per_data_reference']:.2f} bytes per data "
        f"reference, captured at {figures['data_references_per_second'] / 1e6:.2f} million data references/s"
    )
    for name, key in (("data", "scale"), ("warm-up", "warm_up")):
        if key in figures["provenance"]:
            typer.echo(f"{name}: {figures['provenance'][key]}")
    if "verify" in figures:
        typer.echo("\n".join(_counted_twice(figures)))


def _counted_twice(figures: dict[str, Any]) -> list[str]:
    """Return the lines of ``--verify``: which of all that ran was counted twice, and both counts of each kind."""
    twice = figures["verify"]["figures"]
    instructions, data = (
        sum(figure["trace"] for name, figure in twice.items() if name.endswith(kinds))
        for kinds in ("instructions", ("loads", "stores"))
    )
    lines = [
        f"counted twice: {instructions:,} of these instructions and {data:,} of these data references, those of the "
        "server and of what interrupted it; the rest is the client's, or came while the processor was idle"
    ]
    for name, figure in twice.items():
        lines.append(
            f"{name.replace('_', ' ')}: trace {figure['trace']:,}, independent {figure['independent']:,}, "
            f"difference {100 * figure['relative_difference']:.4f} %"
        )
    return lines
