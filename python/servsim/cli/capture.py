"""``servsim capture``: run a workload in the guest and write the trace of everything it did."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.errors import UsageError

if TYPE_CHECKING:
    from servsim.capture.record import Captured

#: Workloads that can be captured: name to the module with its ``capture`` function.
WORKLOADS = {"oltp": "servsim.capture.oltp"}


def register(app: typer.Typer) -> None:
    """Add the subcommand to the application."""
    app.command()(capture)


def capture(
    workload: Annotated[str, typer.Argument(help=f"One of: {', '.join(WORKLOADS)}.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace to write (.svt).")],
    transactions: Annotated[int, typer.Option(min=1, help="Transactions to capture, over all users.")] = 200,
    users: Annotated[int | None, typer.Option(min=1, max=200, help="Concurrent users.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the requests.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Capture a real workload, kernel included, from a warm checkpoint of the emulated guest."""
    from importlib import import_module

    if workload not in WORKLOADS:
        raise UsageError(f"{workload} is not a workload that can be captured; there is: {', '.join(WORKLOADS)}")
    if output.is_dir():
        raise UsageError(f"{output} is a folder; name the trace file to write")
    module = import_module(WORKLOADS[workload])
    captured = module.capture(transactions, output, users, lambda line: typer.echo(line, err=True), seed)
    typer.echo(json.dumps(captured.as_document())) if as_json else _show(captured)


def _show(captured: "Captured") -> None:
    """Print the figures of a capture."""
    figures = captured.as_document()
    typer.echo(
        f"{figures['trace']}: {figures['transactions']:,} transactions (marks = replies = server's count), "
        f"{figures['instructions']:,} instructions, {figures['data_references']:,} data references\n"
        f"{figures['file_bytes'] / 2**20:.1f} MiB, {figures['bytes_per_data_reference']:.2f} bytes per data "
        f"reference, captured at {figures['data_references_per_second'] / 1e6:.2f} million data references/s"
    )
