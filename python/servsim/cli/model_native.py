"""``servsim model native``: the model's predictions beside native runs of this host."""

from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli.model_text import say, table
from servsim.cli.printing import print_json


def register(group: typer.Typer) -> None:
    """Add the command to the group of models."""
    group.command()(native)


def native(
    record: Annotated[Path, typer.Argument(help="Record of native runs, written by `servsim validate --native FILE`.")],
    traces: Annotated[
        Path | None, typer.Option(help="Folder of the captures; without it the one of `servsim validate`.")
    ] = None,
    captures: Annotated[int, typer.Option(min=1, help="Captures of each configuration.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(help="A change to predict; repeatable. Processors and users without it.")
    ] = None,
    clock: Annotated[
        float | None, typer.Option(min=0.1, help="Clock to simulate at, in GHz; the fitted speed makes up for it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.model.native/1.")] = False,
) -> None:
    """Predict native runs of this host from one of their configurations (Du et al. 2001: 15.3 %).

    Captures are made where the folder lacks them, and simulated on a description of this host. The native
    throughput of the base fixes the speed of the processors; the model predicts the rest.
    """
    from servsim import cache
    from servsim.model import native as module
    from servsim.validation.plan import BASE
    from servsim.validation.record import read
    from servsim.validation.simulated import FIRST_CLOCK_HZ, capture_all

    measured, chosen = read(record), module.changes(only or [])
    seeds = range(1, captures + 1)
    clock_hz = FIRST_CLOCK_HZ if clock is None else clock * 1e9
    kept = capture_all([BASE, *chosen], seeds, traces or cache.folder("validation", "captures"), say)
    measure = module.measuring(measured, kept, clock_hz, say)
    found = module.compare(measured, chosen, seeds, measure, clock_hz)
    if as_json:
        print_json(found.as_document())
    else:
        _show(found, module.PAPER_PERCENT)


def _show(found: Any, paper: float) -> None:
    header = ["", "demands from", "native ratio", "model's ratio", "error"]
    rows = [
        [row.what, row.demands, _ratio(row.measured), _ratio(row.predicted), f"{row.error_percent:+.1f} %"]
        for row in found.rows
    ]
    table(header, rows)
    typer.echo(
        f"calibrated on the base alone: {found.base:,.0f} transactions/s at {found.clock_hz / 1e9:.2f} GHz\n"
        f"mean error {found.mean_error_percent:.1f} % (Du et al. 2001 report {paper} % against a real machine)\n"
        "[ ]: 95 % intervals; native ones over rounds, the model's over captures"
    )


def _ratio(known: Any) -> str:
    if known.low is None:
        return f"{known.mean:.2f} (n = {known.n}, no interval)"
    return f"{known.mean:.2f} [{known.low:.2f}, {known.high:.2f}] (n = {known.n})"
