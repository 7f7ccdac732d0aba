"""``servsim model predict``, ``size`` and ``forecast``: what a planner asks of a model, and of measurements."""

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from servsim.cli.model_text import note_solvers, table, time_text
from servsim.cli.options import AsJson, load_range, refuse_useless
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.errors import UsageError
from servsim.files import atomic_write

if TYPE_CHECKING:
    from servsim.model import Fit, Network

File = typer.Argument(help="TOML description.")
GoalText = typer.Option(..., "--goal", help='What responses must keep: "p95 <= 1 s", "mean <= 200 ms".')
Solver = typer.Option("auto", help="Solver; `servsim model solvers` lists them.")
Measured = typer.Option(None, help="CSV measurements: bands from its demands, and its points drawn.")
Plot = typer.Option(None, help="Write curves, bands and measured points: .svg or .png.")
TableFile = typer.Option(None, "--csv", help="Write the table as CSV.")
Cost = typer.Option([], help="STATION=COST of one more server; may be given again.")


def register(group: typer.Typer) -> None:
    """Add the commands."""
    for command in (predict, size, forecast):
        group.command()(command)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a table.

    Raises
    ------
    UsageError
        For one without a name or a value, or a name that comes twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not (name.strip() and given and value.strip()) or name.strip() in found:
            raise UsageError(f"{option} {text!r} is not NAME=VALUE, or comes twice; write for example {option} cpu=2")
        found[name.strip()] = value.strip()
    return found


def numbers(texts: Sequence[str], option: str) -> dict[str, float]:
    """Return NAME=NUMBER options as a table.

    Raises
    ------
    UsageError
        For a value that is no number of zero or more.
    """
    found = {}
    for name, text in pairs(texts, option).items():
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = math.nan
        if not 0.0 <= found[name] < math.inf:
            raise UsageError(f"{option} {name}={text}: give a number of zero or more")
    return found


def _fitted(path: Path | None, network: "Network") -> "tuple[Fit | None, list[dict[str, Any]]]":
    """Return what measurements say about a model's demands, and their points: load, throughput, response."""
    if path is None:
        return None, []
    from servsim.model import fit
    from servsim.model.measurements import csv_measurements

    # A station's utilization is that of one of its servers.
    text = csv_measurements(path, {station.name: station.servers for station in network.stations})
    points = [
        {"throughput": sum(sample["throughput"]), "response": sample.get("response")}
        for sample in json.loads(text)["sample"]
    ]
    return fit(text, is_json=True), points


def predict(
    file: Path = File,
    *,
    load: str = typer.Option(..., help="FIRST:LAST[:POINTS] of users, or of requests per second."),
    measured: Path | None = Measured,
    solver: str = Solver,
    plot: Path | None = Plot,
    table_file: Path | None = TableFile,
    as_json: AsJson = False,
) -> None:
    """Predict throughput and response over a range of loads, with bands where demands were measured."""
    from servsim.cli.model_import import network as read
    from servsim.model.planning import is_open, with_load
    from servsim.model.planning import predict as run

    network = read(file)
    fitted, points = _fitted(measured, network)
    loads = load_range(load)
    loads = loads if is_open(network) else list(dict.fromkeys(float(max(1, round(x))) for x in loads))
    with Progress() as progress:
        columns = run(network, loads, fitted, solver, progress=progress)
    saturated = loads[len(columns["load"]) :]
    if plot is not None:
        from servsim.model.plots import save_prediction

        save_prediction(plot, with_load(network, columns["load"][-1]), columns, _placed(network, points))
        typer.echo(f"wrote {plot}", err=True)
    if table_file is not None:
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
        atomic_write(table_file, out.getvalue())
        typer.echo(f"wrote {table_file}", err=True)
    if as_json:
        answer = {"schema": "servsim.model.predict/1", "points": columns, "saturated": saturated, "measured": points}
        print_json(answer)
        return
    rows_text = []
    for i, at in enumerate(columns["load"]):
        row = [f"{at:g}", f"{columns['throughput'][i]:.5g}", time_text(columns["response"][i])]
        if fitted is not None:
            low, high = columns["response_low"][i], columns["response_high"][i]
            row += [f"{columns['throughput_low'][i]:.4g}-{columns['throughput_high'][i]:.4g}"]
            row += [f"{time_text(low)} to {time_text(high) if math.isfinite(high) else 'no limit'}"]
        rows_text.append([*row, f"{columns['utilization'][i]:.1%}", columns["solver"][i]])
    bands = ["95 % of demands", "95 % of demands"] if fitted is not None else []
    table(["load", "throughput /s", "response", *bands, "busiest", "solver"], rows_text)
    note_solvers(columns["by"])
    if saturated:
        typer.echo(f"note: from {saturated[0]:g} on the model is saturated, or too nearly to be solved", err=True)


def _placed(network: "Network", points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measured points with their load: the rate, or the users that Little's law counts."""
    from servsim.model.planning import is_open

    think = {getattr(c, "think", 0.0) for c in network.classes}
    placed = []
    for point in points:
        if is_open(network):
            placed.append({**point, "load": point["throughput"]})
        elif point["response"] is not None and len(think) == 1:
            placed.append({**point, "load": point["throughput"] * (point["response"] + next(iter(think)))})
    return placed


def size(
    context: typer.Context,
    file: Path = File,
    *,
    goal: str = GoalText,
    load: float | None = typer.Option(None, help="Load to bear: with --cost; the model's by default."),
    cost: list[str] = Cost,
    up_to: int = typer.Option(16, min=1, max=10_000, help="Most servers of a station."),
    solver: str = Solver,
    as_json: AsJson = False,
) -> None:
    """Size a system: the largest load that keeps a goal, or with --cost the cheapest servers that keep it at a load."""
    from servsim.cli.model_import import network as read
    from servsim.model.goals import Goal
    from servsim.model.planning import cheapest, is_open, load_of, most, with_load

    network, wanted = read(file), Goal.parse(goal)
    unit = "requests/s" if is_open(network) else "users"
    if not cost:
        if load is not None:
            raise UsageError("--load goes with --cost: without costs, the largest load is what is looked for")
        refuse_useless(context, "without --cost, the largest load is what is looked for", "up_to")
        with Progress() as progress:
            found = most(network, wanted, solver, progress)
        if as_json:
            print_json({"schema": "servsim.model.size/1", "goal": goal, "unit": unit, **found})
            return
        typer.echo(f"{found['load']:.4g} {unit}: {time_text(found['measured'])}; beyond: {_finite(found['beyond'])}")
        if "load_low" in found:
            low, high = (f"{found[key]:.4g}" for key in ("load_low", "load_high"))
            typer.echo(f"by the 95 % intervals kept to {low}, missed beyond {high} {unit}")
        note_solvers([found["by"]])
        return
    if up_to < 1:
        raise UsageError(f"--up-to {up_to} leaves no server; give at least 1")
    network = with_load(network, load) if load is not None else network
    with Progress() as progress:
        choices = cheapest(network, wanted, numbers(cost, "--cost"), up_to, solver, progress)
    if as_json:
        print_json({"schema": "servsim.model.size/1", "goal": goal, "load": load_of(network), "choices": choices})
        return
    typer.echo(f"{goal} at {load_of(network):.4g} {unit}:")
    names = list(choices[0]["servers"])
    rows = [
        [f"{c['cost']:g}", *(str(c["servers"][n]) for n in names), time_text(c["measured"]) + _doubt(c)]
        for c in choices
    ]
    table(["added cost", *(f"servers {n}" for n in names), "has"], rows)
    note_solvers([choice["by"] for choice in choices])


def _doubt(judged: dict[str, Any]) -> str:
    """Say so where the interval of what was simulated holds the goal."""
    return "" if judged["certain"] else ", uncertain"


def _finite(seconds: float) -> str:
    return time_text(seconds) if math.isfinite(seconds) else "saturated"


def forecast(
    file: Path = File,
    *,
    goal: str = GoalText,
    growth: float = typer.Option(..., help="Growth of the load per period, per cent."),
    periods: int = typer.Option(12, help="Periods after today."),
    solver: str = Solver,
    as_json: AsJson = False,
) -> None:
    """Forecast how a goal fares while the load grows, and say in which period it is missed first."""
    from servsim.cli.model_import import network as read
    from servsim.model.goals import Goal
    from servsim.model.planning import forecast as run

    network, wanted = read(file), Goal.parse(goal)
    with Progress() as progress:
        rows = run(network, wanted, growth / 100.0, periods, solver, progress)
    if as_json:
        print_json({"schema": "servsim.model.forecast/1", "goal": goal, "periods": rows})
        return
    lines = [
        [
            str(r["period"]),
            f"{r['load']:.4g}",
            _finite(float(r["measured"])),
            ("yes" if r["met"] else "no") + _doubt(r),
        ]
        for r in rows
    ]
    table(["period", "load", "has", "goal met"], lines)
    note_solvers([row["by"] for row in rows])
    missed = [r["period"] for r in rows if not r["met"]]
    typer.echo(f"missed first in period {missed[0]}" if missed else f"met in all of {periods} periods")
