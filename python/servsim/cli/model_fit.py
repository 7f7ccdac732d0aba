"""``servsim model fit``: service demands from measurements, and the model that they make."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import typer

from servsim.cli.model_text import table, time_text
from servsim.cli.options import AsJson
from servsim.cli.printing import print_json
from servsim.errors import UsageError
from servsim.files import atomic_write

#: Demands that are constant, and demands that drift.
METHODS = ("nnls", "kalman")
Measurements = typer.Argument(
    help="Measurements (TOML, CSV with throughput and utilization STATION, or a Prometheus export), or a result."
)
Throughput = typer.Option([], help="Prometheus: CLASS=SELECTOR, its requests; may be given again.")
Utilization = typer.Option([], help="Prometheus: STATION=SELECTOR, its busy seconds per second.")
Servers = typer.Option([], help="STATION=NUMBER of servers, 1 by default; may be given again.")
Samples = typer.Option(None, help="Write what was read as CSV, for `predict --measured`.")
InTurn = typer.Option([], help="Model: a station that serves in turn, as a disk does; may be given again.")
Output = typer.Option(None, "-o", "--output", help="Write the model as TOML: with --load.")


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command()(fit)


def fit(
    context: typer.Context,
    file: Path = Measurements,
    *,
    method: str = typer.Option("nnls", help="nnls (constant demands) or kalman (drifting ones)."),
    drift: float = typer.Option(0.02, help="Kalman: relative drift of a demand per sample."),
    noise: float = typer.Option(0.05, help="Kalman: relative error of a measured utilisation."),
    throughput: list[str] = Throughput,
    utilization: list[str] = Utilization,
    response: str | None = typer.Option(None, help="Prometheus: SELECTOR of mean response times in seconds."),
    servers: list[str] = Servers,
    samples: Path | None = Samples,
    output: Path | None = Output,
    load: float | None = typer.Option(None, help="Model: users in all (with --think), or requests per second."),
    think: str | None = typer.Option(None, help='Model: think time of users, such as "5 s".'),
    fcfs: list[str] = InTurn,
    as_json: AsJson = False,
) -> None:
    """Estimate service demands from measured throughputs and utilisations, or from a simulation result."""
    from servsim.cli import model_measured, options

    if model_measured.is_result(file):
        others = [name for name in context.params if name not in ("file", "as_json")]
        options.refuse_useless(context, f"{file} is a result of a simulation, which tells its demands itself", *others)
        model_measured.fit_results(file, as_json)
        return
    from servsim.cli.model_plan import numbers, pairs
    from servsim.documents import naming, text_of
    from servsim.model import fit as run
    from servsim.model.measurements import csv_measurements
    from servsim.model.prometheus import prometheus_measurements

    if method not in METHODS:
        raise UsageError(f"there is no method {method!r} of estimation: use {' or '.join(METHODS)}")
    if method == "nnls":
        options.refuse_useless(context, "the method nnls takes demands for constant", "drift", "noise")
    if output is None:
        options.refuse_useless(context, "no model is written without --output", "load", "think", "fcfs")
    counts = {name: int(count) for name, count in numbers(servers, "--servers").items()}
    is_toml = False
    if throughput or utilization:
        found_rates, found_used = pairs(throughput, "--throughput"), pairs(utilization, "--utilization")
        text = prometheus_measurements(file, found_rates, found_used, response, counts)
    elif file.suffix.lower() == ".csv":
        text = csv_measurements(file, counts)
    else:
        options.refuse_useless(context, f"{file} names the servers of its stations", "servers", "response")
        text, is_toml = text_of(file), True
    with naming(file):
        found = run(text, method, drift=drift, measurement=noise, is_json=not is_toml)
    if samples is not None:
        if is_toml:
            raise UsageError("--samples writes what was read from CSV or Prometheus; this is a description already")
        atomic_write(samples, _as_csv(json.loads(text)))
        typer.echo(f"wrote {samples}", err=True)
    if output is not None:
        _write_model(output, found, load, think, fcfs)
    if as_json:
        print_json({"schema": "servsim.model.fit/1", **found.data})
        return
    _show(found.data)


def _show(found: dict[str, Any]) -> None:
    rows = [
        [f"{d['station']} / {d['class']}", *(time_text(d[key]) for key in ("demand", "low", "high")), d.get("note", "")]
        for d in found["demands"]
    ]
    table(["station / class", "demand", "low", "high", ""], rows)
    for b in found["background"]:
        spread = f"{b['low']:.1%} to {b['high']:.1%}"
        typer.echo(f"{b['station']}: {b['utilization']:.1%} busy ({spread}) without any request")
    if found["background"]:
        where = " and ".join(b["station"] for b in found["background"])
        what = f"intervals of {where} are at {found['background'][0]['confidence']:.0%}"
        typer.echo(f"note: {what}: what runs besides requests is told only where it happens to be large", err=True)
    if presumed := found.get("presumed"):
        what = f"too few samples tell whether {' or '.join(presumed)} did anything besides requests"
        typer.echo(f"note: {what}; demands and intervals presume that nothing was", err=True)
    for one in found.get("scatter", []):
        what = f"samples of {one['station']} scatter {one['times']:.1f} times as far as --drift and --noise say"
        typer.echo(f"note: {what}; intervals are as much wider, and larger ones of both would fit", err=True)
    for o in found["outliers"]:
        what = (
            f"sample {o['sample']}: {o['station']} was {o['measured']:.1%} busy where the others say {o['fitted']:.1%}"
        )
        typer.echo(f"note: {what}; look at what else ran then, or leave it out", err=True)
    typer.echo(f"condition of the throughputs: {found['condition']:.3g}", err=True)


def _write_model(output: Path, found: Any, load: float | None, think: str | None, fcfs: list[str]) -> None:
    from servsim.model.fitted import from_fit
    from servsim.model.goals import duration

    if load is None or load <= 0.0:
        raise UsageError("a model needs its load: give --load, with --think for users")
    seconds = duration(think) if think is not None else None
    if think is not None and seconds is None:
        raise UsageError(f'--think {think!r} is no time; write for example "5 s"')
    network = from_fit(found, think=seconds, load=load, in_turn=fcfs)
    beside = [
        f"# {b['station']} is {b['utilization']:.1%} busy without requests, which get the rest of it."
        for b in found.data["background"]
    ]
    atomic_write(output, "\n".join(["# Demands as measured.", *beside, network.to_toml()]))
    typer.echo(f"wrote {output}", err=True)


def _as_csv(measured: dict[str, Any]) -> str:
    """Return measurements as :func:`servsim.model.measurements.csv_measurements` reads them."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    waits = any("response" in sample for sample in measured["sample"])
    names = [f"throughput {c}" for c in measured["classes"]] + [f"utilization {s}" for s in measured["stations"]]
    rows.writerow([*names, *(["response"] if waits else [])])
    for sample in measured["sample"]:
        row = [*sample["throughput"], *sample["utilization"]]
        rows.writerow([*row, *([sample.get("response", "")] if waits else [])])
    return out.getvalue()
