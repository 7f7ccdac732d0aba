"""``servsim quickstart``: the main job from nothing to a report, with a ten-line answer."""

from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.quickstart import MACHINE, REPLICATIONS, TRANSACTIONS, USERS, Plan, answer, run, steps


def quickstart(
    output: Annotated[Path, typer.Option("--output", "-o", help="The report; trace and result go beside it.")] = Path(
        "out/quickstart.html"
    ),
    transactions: Annotated[int, typer.Option(min=1, help="Transactions to capture.")] = TRANSACTIONS,
    users: Annotated[int, typer.Option(min=1, help="Concurrent users that issue them.")] = USERS,
    replications: Annotated[int, typer.Option(min=1, help="Replications to simulate.")] = REPLICATIONS,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first replication.")] = 1,
    machine: Annotated[str, typer.Option(help="Machine to simulate: a name or a TOML file.")] = MACHINE,
    capture: Annotated[bool, typer.Option(help="Capture here, or use the trace that ships.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Capture a real database at work, simulate it on a 4-processor server, and report.

    Needs root and an emulator for the capture; without them it says so and uses a small, really
    captured trace that ships with servsim.
    """
    plan = Plan(output, transactions, users, replications, seed, machine, capture)
    with Progress() as progress:
        outcome = run(plan, steps(), progress.note, progress)
    if as_json:
        print_json(outcome.as_document())
    else:
        print("\n".join(answer(outcome)))


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(quickstart)
