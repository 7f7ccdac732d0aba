"""``servsim timeline``: counters along a run, as Parquet or for the Perfetto viewer."""

import json
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.printing import print_json
from servsim.cli.terminal import say
from servsim.errors import UsageError
from servsim.files import atomic_write
from servsim.text import columns


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("timeline")(timeline)


def timeline(
    result: Annotated[Path, typer.Argument(help="Result of `servsim simulate --json`.", metavar="RESULT")],
    parquet: Annotated[Path | None, typer.Option(help="Write every counter per window as Parquet.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(help="Write schedule, bus, disks and counters for ui.perfetto.dev.")
    ] = None,
    replication: Annotated[int, typer.Option(min=1, help="Which replication to draw (--perfetto, --json).")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the windows as JSON columns.")] = False,
) -> None:
    """Export what happened along a run: every counter per window, who ran where, disk requests.

    Example: servsim simulate oltp.svt -m foglia-2004-4p -o one.json && servsim timeline one.json --perfetto run.json
    """
    from servsim.report import load
    from servsim.timeline import parquet as write_parquet
    from servsim.timeline import trace_events, windows

    document = load(result, needs=()).document
    runs = document["replications"]
    if replication > len(runs):
        raise UsageError(f"{result} holds {len(runs)} replications, so there is no number {replication}")
    found = windows(runs[replication - 1])
    if parquet is not None:
        say(f"wrote {parquet}: {write_parquet(runs, parquet)} windows of {len(runs)} replications")
    if perfetto is not None:
        atomic_write(perfetto, json.dumps(trace_events(document, replication - 1)))
        say(f"wrote {perfetto}: open it at ui.perfetto.dev, or in chrome://tracing without a network")
    if as_json:
        print_json({"schema": "servsim.timeline/1", "replication": replication, "windows": found})
    elif parquet is None and perfetto is None:
        print(_text(found))


def _text(windows: dict[str, list[float]]) -> str:
    """Return bus use, misses and transactions in at most twenty steps."""
    count = len(windows["start_cycle"])
    step = -(-count // 20)
    rows = [["from cycle", "bus, %", "misses/1000", "transactions"]]
    for i in range(0, count, step):
        part = slice(i, i + step)
        bus = 100 * sum(windows["bus_busy"][part]) / sum(windows["window_cycles"][part])
        misses = 1000 * sum(windows["misses"][part]) / max(1, sum(windows["references"][part]))
        done = sum(windows["transactions"][part])
        rows.append([f"{windows['start_cycle'][i]:,.0f}", f"{bus:.1f}", f"{misses:.2f}", f"{done:,.0f}"])
    return "\n".join(columns(rows, left=0))
