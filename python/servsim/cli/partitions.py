"""``servsim partitions``: whole nodes of a described machine set apart for workloads of their own."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.cli import options
from servsim.cli.options import AsJson, Settings, pairs
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.cli.terminal import say, warn
from servsim.errors import UsageError

if TYPE_CHECKING:
    from servsim.machine_partitions import Step
    from servsim.run_options import RunOptions
    from servsim.statistics.intervals import Estimate

app = typer.Typer(
    no_args_is_help=True,
    help="Divide a described machine into partitions of whole nodes. Those of this host: servsim rset partition.",
)

Machine = Annotated[str, typer.Option("--machine", "-m", help="Description with nodes: file or shipped name.")]


def register(application: typer.Typer) -> None:
    """Add the group to the application."""
    application.add_typer(app, name="partitions")


@app.command("shapes")
def shapes_command(machine: Machine, settings: Settings = None, as_json: AsJson = False) -> None:
    """Print how many nodes partitions may have, in all ways to divide the machine.

    Example: servsim partitions shapes -m brock-2001-4x4
    """
    from servsim.machine_partitions import shapes
    from servsim.machines import machine_text, resolve

    nodes = int(resolve(machine_text(machine), machine, settings or [])["node"]["count"])
    found = shapes(nodes)
    if as_json:
        print_json({"schema": "servsim.partitions.shapes/1", "nodes": nodes, "shapes": found})
        return
    print("\n".join("+".join(map(str, shape)) for shape in found))


@app.command("cut")
def cut_command(
    wanted: Annotated[list[str], typer.Argument(metavar="NAME=NODES...", help="Nodes from 1, such as 2-4, by name.")],
    machine: Machine,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print the settings that make the machine each partition: `servsim simulate -m MACHINE` takes them with --set.

    A partition has its nodes, their memory, and all disks; traffic of others on a shared switch is left out.

    Example: servsim partitions cut web=1 database=2-4 -m brock-2001-4x4
    """
    from servsim.machine_partitions import cut
    from servsim.rset import numbers

    named = list(pairs(wanted, "a partition is NAME=NODES"))
    if len(dict(named)) < len(named):
        raise UsageError("a partition is named twice: give its nodes in one list")
    made = cut(machine, {name: sorted(numbers(nodes, nodes=True)) for name, nodes in named}, settings or [])
    if as_json:
        print_json({"schema": "servsim.partitions.cut/1", "machine": machine, "partitions": made})
        return
    for name, given in made.items():
        print(f"{name}: " + " ".join(f"--set '{setting}'" for setting in given))


@app.command("day")
def day_command(
    goals: Annotated[Path, typer.Argument(metavar="GOALS", help="File of goals: see docs/parts/partitions.md.")],
    wanted: Annotated[list[str], typer.Argument(metavar="NAME=TRACE...", help="The trace that each partition runs.")],
    machine: Machine,
    load: Annotated[
        Path, typer.Option(metavar="FILE.csv", help="Transactions/s: a column by partition, a row for each look.")
    ],
    settings: Settings = None,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.TRANSACTIONS)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.WARM_UP)] = None,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the first run of each.")] = 1,
    replications: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each size, successive seeds.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every look, decision and move.")] = False,
) -> None:
    """Move nodes between partitions as a day's load changes, and say what that is worth.

    What each partition serves with so many nodes is simulated, and so is moving a page. Between looks the day is
    arithmetic, with the mean rates.

    Example: servsim partitions day goals.toml web=web.svt database=oltp.svt -m brock-2001-4x4 --load day.csv
    """
    from servsim.machine_partitions import live
    from servsim.machine_partitions.measure import doubts, loads, move_seconds, rates
    from servsim.manager import load as goals_of

    managed, day = goals_of(goals), loads(load)
    traces = {name: Path(trace) for name, trace in pairs(wanted, "a partition's trace is NAME=TRACE")}
    if day.keys() != managed.partitions.keys():
        raise UsageError(f"{load} must have the columns {', '.join(managed.partitions)}, one for each partition")
    run: RunOptions = {"transactions": options.transactions(transactions), "warmup": warmup, "seed": seed}
    several: RunOptions = {**run, "replications": replications}
    with Progress() as progress:
        known = rates(
            managed, machine, traces, settings or [], several, lambda what: progress(f"simulating {what}", None)
        )
        progress("simulating a node that is drained", None)
        move_s, cycles = move_seconds(machine, next(iter(traces.values())), settings or [], run)
    doubtful = doubts(known)
    served = {name: {size: one.mean for size, one in by_size.items()} for name, by_size in known.items()}
    warn(doubtful)
    kept = live(managed, served, day, move_s, managed=False)
    moved = live(managed, served, day, move_s)
    document = {
        "schema": "servsim.partitions.day/1",
        "machine": machine,
        "rates": {name: {size: one.document() for size, one in by_size.items()} for name, by_size in known.items()},
        "warnings": doubtful,
        "move": {"seconds": move_s, "cycles_per_page": cycles},
        "static": _summary(kept),
        "managed": _summary(moved),
        "log": [asdict(step) for step in moved],
    }
    if as_json:
        print_json(document)
        return
    print(f"transactions/s (95 % interval, n = {replications})")
    for name, by_size in known.items():
        each = ", ".join(f"{_interval(one)} with {size}" for size, one in by_size.items())
        print(f"{name} serves {each} nodes")
    print(f"a node's memory takes {move_s:,.2f} s to move ({cycles:,.0f} cycles a page)")
    for step in moved:
        if step.move:
            print(f"{step.time_s:>8,.0f} s: {step.reason}")
    for title, steps in (("as they began", kept), ("managed", moved)):
        told = ", ".join(
            f"{name} {one['served_share']:.1%} served, at most {one['longest_wait_s']:,.0f} s behind".replace("%", " %")
            for name, one in _summary(steps).items()
        )
        print(f"{title}: {told}")
    if not any(step.move for step in moved):
        say("no node moved: no partition asked long enough, or none could spare one")


def _interval(rate: "Estimate") -> str:
    """Return a rate with its interval."""
    if rate.low is None or rate.high is None:
        return f"{rate.mean:,.0f} (no interval)"
    return f"{rate.mean:,.0f} ({rate.low:,.0f} to {rate.high:,.0f})"


def _summary(steps: "list[Step]") -> dict[str, dict[str, float]]:
    """Return, by partition, the share of a day's load that was served in it, and the longest backlog in seconds."""
    found = {}
    for name in steps[0].partitions:
        each = [step.partitions[name] for step in steps]
        offered, served = sum(one.offered for one in each), sum(one.served for one in each)
        length = steps[0].time_s
        longest = max((one.waiting / one.served * length for one in each if one.served), default=0.0)
        found[name] = {"served_share": served / offered if offered else 1.0, "longest_wait_s": longest}
    return found
