"""``servsim critical-point``: the largest number of processors that is still worth adding."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servsim.cli import options
from servsim.cli.options import AsJson, Settings
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import warn
from servsim.errors import UsageError
from servsim.text import columns

if TYPE_CHECKING:
    from servsim.critical_point import CriticalPoint


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("critical-point")(critical_point)


def critical_point(
    trace: Annotated[Path, typer.Argument(help="Captured trace or importable file.")],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description: file or shipped name.")],
    settings: Settings = None,
    least: Annotated[int, typer.Option(min=1, max=63, help="Fewest processors.")] = 1,
    most: Annotated[int, typer.Option(min=2, max=64, help="Most processors.")] = 32,
    step: Annotated[int, typer.Option(min=1, max=32, help="Step; above 1 the point is interpolated.")] = 1,
    replications: Annotated[int, typer.Option(min=0, max=100_000, help="Runs, the same seeds everywhere.")] = 10,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.TRANSACTIONS)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.WARM_UP)] = None,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the first run.")] = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the runs, to continue later.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="local, dask:HOST:PORT or slurm[:PARTITION]; ,time=12h behind it limits runs.")
    ] = "local",
    as_json: AsJson = False,
) -> None:
    """Find the smallest N for which one more processor adds less than 0.5 to the global system power.

    Example: servsim critical-point oltp.svt -m foglia-2004-8p --set scheduler.policy=affinity --most 24
    """
    from servsim.critical_point import scale

    if replications < 2:
        raise UsageError(
            f"{replications} replications give no interval of a critical point: use --replications 10 or more"
        )
    counts = list(range(least, most + 1, step))
    if len(counts) < 2:
        raise UsageError(f"from {least} to {most} by {step} there are not two numbers of processors to compare")
    given = {"transactions": options.transactions(transactions), "warmup": warmup}
    with TemporaryDirectory() as temporary, Progress() as progress:
        found, warnings = scale(
            trace,
            machine,
            counts,
            settings or [],
            list(range(seed, seed + replications)),
            output or Path(temporary) / "runs",
            options={key: value for key, value in given.items() if value is not None},
            on=on,
            progress=progress,
        )
    warn(warnings)
    deliver(_document(found), as_json, lambda: _text(found))


def _document(found: "CriticalPoint") -> dict[str, Any]:
    def entry(known: Any) -> dict[str, Any]:
        return {"mean": known.mean, "interval_95": [known.low, known.high], "n": known.n}

    return {
        "schema": "servsim.critical-point/1",
        "critical_point": found.point,
        "settled": found.settled,
        "interval_95": None if found.low is None else [found.low, found.high],
        "by_seed": found.by_seed,
        "gsp": {str(count): entry(known) for count, known in found.gsp.items()},
        "gain_per_processor": {str(count): entry(known) for count, known in found.gains.items()},
    }


def _text(found: "CriticalPoint") -> str:
    counts = sorted(found.gsp)
    rows = [["processors", "GSP (95 % interval)", "gain of one more"]]
    for count in counts:
        known, gain = found.gsp[count], found.gains.get(count)
        more = "" if gain is None else f"{gain.mean:.3f} ± {gain.half_width:.3f}"
        rows.append([str(count), f"{known.mean:.3f} ± {known.half_width:.3f}", more])
    lines = [*columns(rows, left=0), ""]
    if found.point is None:
        lines.append(f"Every processor up to {counts[-1]} adds 0.5 or more to GSP: no critical point was reached.")
        if found.low is not None:
            lines.append(
                f"Some intervals hold 0.5 from {found.low:g} on, so it could lie there with more replications."
            )
        return "\n".join(lines)
    if found.low is None:
        interval = "one seed, so no interval"
    elif found.high is None:
        interval = f"95 % interval from {found.low:g} to beyond {counts[-1]}"
    else:
        interval = f"95 % interval {found.low:g} to {found.high:g}"
    sure = "" if found.settled or found.low is None else "; some intervals hold 0.5, so more replications could move it"
    lines.append(f"Critical point: {found.point:g} processors ({interval}){sure}.")
    return "\n".join(lines)
