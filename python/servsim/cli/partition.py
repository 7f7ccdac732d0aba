"""``servsim rset partition``: whole nodes of this host set apart for some processes, while it runs."""

import contextlib
import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.cli.options import AsJson
from servsim.cli.printing import print_json
from servsim.errors import UsageError

if TYPE_CHECKING:
    from servsim.manager import Event
    from servsim.partitions import Change

app = typer.Typer(no_args_is_help=True, help="Set nodes of this running host apart, move them, take everything back.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the steps without doing them.")]


def _tell(change: "Change", as_json: bool, done: bool = True) -> None:
    if as_json:
        told = {"done": done, "steps": list(change.steps), "pages_left": change.pages_left}
        print_json({"schema": "servsim.rset.steps/1", **told})
        return
    print("\n".join(change.steps) or "nothing to do")
    if change.pages_left:
        print(f"{change.pages_left} pages could not be moved: they are locked in their place, or others use them")


@app.command()
def show(as_json: AsJson = False) -> None:
    """Print the partitions of this host, what each has to itself, and how many processes are in it."""
    from servsim import partitions
    from servsim.rset import listed
    from servsim.text import columns

    present = partitions.present()
    if as_json:
        parts = {
            name: {
                "processors": sorted(part.resources.processors),
                "nodes": sorted(part.resources.nodes),
                "processes": list(part.processes),
            }
            for name, part in present.items()
        }
        print_json({"schema": "servsim.rset.partitions/1", "partitions": parts})
        return
    rows = [["partition", "processors", "nodes", "processes"]]
    for name, part in present.items():
        held = part.resources
        rows.append([name, listed(held.processors), listed(held.nodes), str(len(part.processes))])
    print("\n".join(columns(rows, left=3)) if present else "no partitions: all of this host is the rest")


@app.command()
def create(
    wanted: Annotated[list[str], typer.Argument(metavar="NAME=NODES...", help="Nodes such as 2-3, by name.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Set nodes apart under names; the first node and what is not named stay the rest.

    Example: servsim rset partition create web=2-3 database=1 --dry-run
    """
    from servsim import partitions
    from servsim.cli.options import pairs
    from servsim.rset import numbers

    named = list(pairs(wanted, "a partition is NAME=NODES"))
    if len(dict(named)) < len(named):
        raise UsageError("a partition is named twice: give its nodes in one list")
    given = {name: numbers(nodes, nodes=True) for name, nodes in named}
    _tell(partitions.create(given, dry_run=dry_run), as_json, not dry_run)


@app.command()
def move(
    node: Annotated[int, typer.Argument(metavar="NODE", min=0, help="Number of the node.")],
    origin: Annotated[str, typer.Option("--from", metavar="PARTITION", help="Where it is.")],
    to: Annotated[str, typer.Option("--to", metavar="PARTITION", help="Where it goes; rest: to no partition.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move a node from one partition to another, and the memory of those who lose it out of it.

    Example: servsim rset partition move 3 --from web --to database
    """
    from servsim import partitions

    _tell(partitions.move(node, origin, to, dry_run=dry_run), as_json, not dry_run)


@app.command()
def adopt(
    process: Annotated[int, typer.Argument(metavar="PID", min=1, help="Number of the process.")],
    into: Annotated[str, typer.Option("--into", metavar="PARTITION", help="Where it goes; rest: out of all.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put a running process, with its threads and its memory, into a partition.

    Example: servsim rset partition adopt 4711 --into web
    """
    from servsim import partitions

    _tell(partitions.adopt(process, into, dry_run=dry_run), as_json, not dry_run)


@app.command()
def manage(
    goals: Annotated[Path, typer.Argument(metavar="GOALS", help="File of goals: see docs/parts/rset.md.")],
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="How long; until interrupted without it.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add every look, decision and move, a line of JSON each.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Decide without moving anything.")] = False,
) -> None:
    """Move nodes between partitions as their load changes, until interrupted; then take back what was made here.

    Example: servsim rset partition manage day.toml --log moves.jsonl
    """
    from servsim.manager import load
    from servsim.manager import manage as managed

    wanted = load(goals)
    # A service is ended by SIGTERM: partitions are taken back then, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    said = None
    with contextlib.ExitStack() as stack:
        lines = stack.enter_context(log.open("a", encoding="utf-8")) if log else None
        for event in stack.enter_context(contextlib.closing(managed(wanted, seconds=seconds, dry_run=dry_run))):
            if lines:
                print(json.dumps(asdict(event)), file=lines, flush=True)
            if event.reason != said or event.move:
                print(f"{event.at} {event.reason}{_outcome(event, dry_run)}", flush=True)
                said = event.reason


def _outcome(event: "Event", dry_run: bool) -> str:
    if event.move is None or event.failed:
        return ""
    if dry_run:
        return " (not done)"
    left = f", {event.pages_left} pages left behind" if event.pages_left else ""
    return f" ({event.took_s:.1f} s{left})"


@app.command()
def undo(as_json: AsJson = False) -> None:
    """Take back everything that was done here, also before a crash; what others did stays."""
    from servsim import partitions

    _tell(partitions.undo(), as_json)
