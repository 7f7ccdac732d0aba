"""``servsim validate``: changes predicted from one calibrated base, beside native runs of this host."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.printing import deliver
from servsim.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(validate)


def validate(
    seconds: Annotated[float, typer.Option(min=1, help="Length of each native measurement.")] = 12,
    rounds: Annotated[int, typer.Option(min=2, help="Native runs of each configuration, interleaved.")] = 5,
    captures: Annotated[int, typer.Option(min=1, help="Captures of each configuration.")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="A change to predict; repeatable. All without it.")] = None,
    long_seconds: Annotated[float, typer.Option(help="Length of the runs for variability over time; 0: none.")] = 40,
    long_runs: Annotated[int, typer.Option(min=2, help="How many of them.")] = 5,
    native: Annotated[
        Path | None, typer.Option(help="Record of native runs: used if it exists, otherwise written.")
    ] = None,
    traces: Annotated[
        Path | None, typer.Option(help="Folder of the captures; without it one in servsim's cache.")
    ] = None,
    clock: Annotated[float, typer.Option(min=0.1, help="Where the calibration of the clock starts, in GHz.")] = 4.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Simulations at once; all cores without it.")] = None,
    measure_only: Annotated[bool, typer.Option("--measure-only", help="Stop after the native runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.validate/1.")] = False,
) -> None:
    """Predict changes of a real system, and compare with what this host really does.

    PostgreSQL runs natively, pinned, under the same load, data and settings as in the guest. The base
    configuration calibrates one figure; every change is predicted with it and measured.
    """
    from servsim.validation.job import Wish, run
    from servsim.validation.plan import CHANGES

    known = [change.name for change in CHANGES]
    wrong = [name for name in only or () if name not in known]
    if wrong:
        raise UsageError(f"there is no change {', '.join(wrong)}; there are {', '.join(known)}")
    if measure_only and native is None:
        raise UsageError("--measure-only needs --native FILE, or its runs would be lost")
    chosen = [change for change in CHANGES if only is None or change.name in only]
    wish = Wish(
        chosen, rounds, seconds, captures, long_runs, long_seconds, native, traces, measure_only, jobs, clock * 1e9
    )
    outcome = run(wish, partial(typer.echo, err=True))
    if outcome is not None:
        deliver(outcome.document, as_json, lambda: outcome.text)
