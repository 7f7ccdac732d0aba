"""``servsim sweep``: a study file expanded to runs, resumable."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import say, warn
from servsim.errors import UsageError
from servsim.result_warnings import by_rank
from servsim.text import columns

if TYPE_CHECKING:
    from servsim.sweep import Outcome, Study


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("sweep")(sweep)


def sweep(
    study: Annotated[Path, typer.Argument(help="Study file: trace, machine, factors, seeds.", metavar="STUDY.toml")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the sweep; NAME.sweep without it.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="local, dask:HOST:PORT or slurm[:PARTITION]; ,time=12h behind it limits runs.")
    ] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes at a time; all cores without it.")] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE,...",
            help="Figures to print; without it cycles_per_transaction, gsp and bus_utilization, or misses and bus "
            "transactions of functional runs.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the points and how many runs they are.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, schema servsim.sweep/1; of a dry run servsim.sweep-plan/1.")
    ] = False,
) -> None:
    """Run every combination of a study's factors; repeat the command to continue after an interruption.

    Example of a study file:

        trace = "oltp.svt"
        machine = "foglia-2004-8p"
        warmup = 20
        seeds = { first = 1, count = 10 }
        [factors]
        processors = [4, 8, 16]
        cache.size = ["512 KiB", "2 MiB"]

    Example: servsim sweep caches.toml -o caches.sweep
    """
    from servsim.sweep import conduct, load

    plan = load(study)
    wanted = _wanted(show)
    if dry_run:
        planned = _planned(plan)
        deliver(planned, as_json, lambda: _points(planned))
        return
    folder = output or Path(f"{plan.name}.sweep")
    with Progress() as progress:
        outcome = conduct(plan, folder, on=on, workers=workers, progress=progress)
    say(f"{outcome.made} runs made, {outcome.kept} kept from before; tables in {folder}")
    warn(by_rank(warning for point in outcome.points for warning in point.warnings))
    deliver(outcome.to_dict(), as_json, lambda: _table(outcome, wanted))


def _planned(plan: "Study") -> dict[str, Any]:
    """Return what would be run as JSON-ready data (schema ``servsim.sweep-plan/1``)."""
    from servsim.sweep.conduct import plan as runs_of

    jobs = runs_of(plan)
    return {
        "schema": "servsim.sweep-plan/1",
        "study": plan.name,
        "factors": plan.factors,
        "seeds": plan.seeds,
        "runs": sum(map(len, jobs)),
        "points": [{"factors": point, "runs": len(of)} for point, of in zip(plan.points, jobs, strict=True)],
    }


def _points(planned: dict[str, Any]) -> str:
    points = [point["factors"] for point in planned["points"]]
    lines = [", ".join(f"{key} = {value}" for key, value in point.items()) or "the only point" for point in points]
    runs, seeds = planned["runs"], len(planned["seeds"])
    if runs == len(points) * seeds:
        return "\n".join([*lines, f"{len(points)} points x {seeds} seeds = {runs} runs"])
    return "\n".join([*lines, f"{len(points)} points, {runs} runs: functional runs of other seeds would be the same"])


#: Figures that are printed unless others are wished for: those of them that were recorded.
USUAL = ("cycles_per_transaction", "gsp", "bus_utilization")
#: The same of functional runs, which know no time.
USUAL_COUNTS = ("references", "misses_per_reference", "bus.read", "bus.invalidate")


def _wanted(show: str | None) -> list[str]:
    """Return the figures that are asked for, each of which exists; none stands for the usual ones."""
    from servsim import registry

    wanted = [name.strip() for name in (show or "").split(",") if name.strip()]
    for name in wanted:
        registry.choose(name, "there is no figure")
    return wanted


def _table(outcome: "Outcome", wanted: list[str]) -> str:
    """Return one line per point: its levels, and the wished figures with their intervals."""
    known = outcome.points[0].summary()
    wanted = wanted or [name for name in (USUAL if "cycles" in known else USUAL_COUNTS) if name in known]
    recorded = {name for point in outcome.points for name in point.summary(wanted)}
    if unknown := [name for name in wanted if name not in recorded]:
        raise UsageError(f"no run recorded {', '.join(unknown)}; summaries hold {', '.join(known)}")
    head = [*outcome.study.factors, *wanted, "runs"]
    rows = []
    for point in outcome.points:
        figures = point.summary(wanted)
        cells = [_figure(figures[name]) if name in figures else "-" for name in wanted]
        rows.append([*(str(value) for value in point.levels.values()), *cells, str(len(point.replications))])
    return "\n".join(columns([head, *rows], left=0))


def _figure(entry: dict[str, float | list[float] | int | None]) -> str:
    """Return a mean with half its 95 % interval; a question mark stands for an unknown one."""
    mean, interval = entry["mean"], entry["interval_95"]
    assert isinstance(mean, int | float)
    text = f"{mean:,.4g}" if abs(mean) < 1e4 else f"{mean:,.0f}"
    if not isinstance(interval, list):
        return f"{text} ± ?"
    half = (interval[1] - interval[0]) / 2
    return f"{text} ± {half:,.2g}" if half < 1e4 else f"{text} ± {half:,.0f}"
