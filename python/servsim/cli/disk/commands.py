"""``servsim disk``: models built from block traces, judged and used.

Over 400 lines: eight subcommands, each little more than its options.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Disks: import, fit, evaluate, simulate, reorganise, capture.")

Trace = Annotated[str, typer.Argument(help="Trace file.")]
Format = Annotated[str | None, typer.Option("--format", help="Trace format; recognised if left out.")]
Columns = Annotated[str | None, typer.Option(help="CSV: column names with units, in order.")]
Device = Annotated[str | None, typer.Option(help="Use one device of the trace only.")]
Tracer = Annotated[str | None, typer.Option(help="Process whose requests are the tracer's own.")]
ExcludeTracer = Annotated[bool, typer.Option("--exclude-tracer", help="Leave the tracer's requests out.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed.")]
Kind = Annotated[str, typer.Option("--model", help="forest, paper, unconditional, mechanical, ssd.")]
ModelFile = Annotated[str | None, typer.Option("--model-file", help="A fitted model, instead of fitting one.")]
Scheduler = Annotated[str | None, typer.Option(help="fcfs, sstf or c-scan instead of the inferred one.")]
Slots = Annotated[int | None, typer.Option(min=1, help="Requests served at a time instead of the inferred number.")]
Drive = Annotated[str | None, typer.Option(help="mechanical: hp97560 or hp335h; ssd: agrawal2008.")]
OtherDevice = Annotated[bool, typer.Option("--allow-other-device", help="Take a model of another class of device.")]


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="disk")


def _source(
    trace: str,
    form: str | None = None,
    columns: str | None = None,
    device: str | None = None,
    tracer: str | None = None,
    exclude_tracer: bool = False,
) -> Any:
    from servsim.disk import Source

    return Source(trace, form, columns, tracer, exclude_tracer, device)


def _print_json(value: dict[str, Any]) -> None:
    json.dump(value, sys.stdout, indent=2)
    print()


def _warn(report: dict[str, Any] | None) -> None:
    """Tell on stderr what an import could not keep."""
    for warning in (report or {}).get("warnings", []):
        print(f"warning: {warning['count']} {warning['what']}", file=sys.stderr)
    for note in (report or {}).get("notes", []):
        print(f"note: {note}", file=sys.stderr)


def _server(server: dict[str, Any]) -> str:
    return f"{server['discipline']}, {server['slots']} at a time"


@app.command("formats")
def formats(as_json: Json = False) -> None:
    """List trace formats, kinds of models and drives."""
    from servsim import disk

    catalogue = disk.catalogue()
    if as_json:
        _print_json({"schema": "servsim.disk.formats/1", **catalogue})
        return
    for title in ("formats", "models"):
        print(f"{title}:")
        for entry in catalogue[title]:
            print(f"  {entry['name']:<14} {entry['about']}")
    print("drives: " + ", ".join(catalogue["drives"]))


@app.command("import")
def import_(
    trace: Trace,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write servsim's binary form here.")] = None,
    form: Format = None,
    columns: Columns = None,
    device: Device = None,
    tracer: Tracer = None,
    exclude_tracer: ExcludeTracer = False,
    as_json: Json = False,
) -> None:
    """Read a trace of any format, report what could not be kept, write it in binary form."""
    from servsim import disk

    report = disk.import_trace(_source(trace, form, columns, device, tracer, exclude_tracer), output)
    if as_json:
        _print_json({"schema": "servsim.disk.import/1", **report, "output": output})
        return
    _warn(report)
    print(f"{report['requests']} requests of {len(report['devices'])} device(s) from a {report['format']} trace")
    if output:
        print(f"wrote {output}")


@app.command()
def fit(
    trace: Annotated[str | None, typer.Argument(help="Trace file (not for mechanical and ssd).")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Model file to write.")] = None,
    kind: Kind = "forest",
    train: Annotated[float, typer.Option(help="Share of each device's requests to train on.")] = 1.0,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    slots: Slots = None,
    drive: Drive = None,
    form: Format = None,
    columns: Columns = None,
    device: Device = None,
    tracer: Tracer = None,
    exclude_tracer: ExcludeTracer = False,
    as_json: Json = False,
) -> None:
    """Fit a model to each device of a trace and write it to a file."""
    from servsim import disk

    if trace is None and kind not in ("mechanical", "ssd"):
        raise UsageError(f"a {kind} model is fitted to a trace: name one")
    source = _source(trace or "", form, columns, device, tracer, exclude_tracer)
    result = disk.fit(source, output, kind=kind, train=train, seed=seed, scheduler=scheduler, slots=slots, drive=drive)
    if as_json:
        _print_json(result)
        return
    _warn(result["import"])
    _print_models(result)
    if output:
        print(f"wrote {output}, {result['bytes']} bytes")


def _print_models(result: dict[str, Any]) -> None:
    for device in result["devices"]:
        print(f"{device['device']}: {device['kind']}, {_server(device['server'])}")
        if training := device["training"]:
            print(f"  trained on {training['requests']} requests, mean response {training['mean_response_us']:.1f} us")
        if (inference := device["inference"]) and inference["choices"]:
            names = ("fcfs", "sstf", "c-scan")
            shares = ", ".join(
                f"{name} {100 * share:.1f} %" for name, share in zip(names, inference["agreement"], strict=True)
            )
            print(f"  of {inference['choices']} choices of the scheduler each explains: {shares}")
        for name, share in list((device["model"].get("importance") or {}).items())[:6]:
            print(f"  {name:<28} {100 * share:5.1f} % of what is explained")


@app.command()
def info(model: Annotated[str, typer.Argument(help="Model file.")], as_json: Json = False) -> None:
    """Show what is in a model file."""
    from servsim import disk

    result = disk.info(model)
    if as_json:
        _print_json(result)
        return
    print(f"{model}: {result['bytes']} bytes")
    _print_models(result)
    for device in result["devices"]:
        details = {k: v for k, v in device["model"].items() if k != "importance"}
        print(f"  {device['device']}: {json.dumps(details)}")


def _truths(pairs: list[str]) -> list[tuple[float, Any]]:
    """Read ``1.2=FILE`` options."""
    truths: list[tuple[float, Any]] = []
    for pair in pairs:
        load, _, path = pair.partition("=")
        try:
            truths.append((float(load), path))
        except ValueError:
            raise UsageError(f"--truth {pair}: write a load factor and a trace, such as 1.2=at-1.2.csv") from None
        if not path:
            raise UsageError(f"--truth {pair}: the trace is missing; write 1.2=at-1.2.csv")
    return truths


@app.command()
def evaluate(
    trace: Trace,
    kind: Kind = "forest",
    model_file: ModelFile = None,
    train: Annotated[float, typer.Option(help="Share of each device's requests that trains.")] = 0.24,
    seed: Seed = 0,
    load: Annotated[list[float] | None, typer.Option(help="Also simulate at this load factor.")] = None,
    truth: Annotated[list[str] | None, typer.Option(help="LOAD=TRACE: compare with what really happened.")] = None,
    scheduler: Scheduler = None,
    slots: Slots = None,
    drive: Drive = None,
    form: Format = None,
    columns: Columns = None,
    device: Device = None,
    allow_other_device: OtherDevice = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for quantile and density plots (SVG).")] = None,
    as_json: Json = False,
) -> None:
    """Judge a model on the requests it was not fitted to."""
    from servsim import disk

    source = _source(trace, form, columns, device)
    truths = [(factor, _source(path, form, columns, device)) for factor, path in _truths(truth or [])]
    result = disk.evaluate(
        source,
        kind=kind,
        model=model_file,
        train=train,
        seed=seed,
        loads=load or [],
        truths=truths,
        scheduler=scheduler,
        slots=slots,
        drive=drive,
        allow_other_device=allow_other_device,
    )
    if plots:
        _write_plots(result, plots)
    if as_json:
        _print_json(result)
        return
    _warn(result["import"])
    for entry in result["devices"]:
        _print_evaluation(entry)


def _write_plots(result: dict[str, Any], folder: Path) -> None:
    from servsim.disk.plots import evaluation_svg

    folder.mkdir(parents=True, exist_ok=True)
    for device in result["devices"]:
        path = folder / f"{device['device'].replace('/', '_')}-{device['model']}.svg"
        path.write_text(evaluation_svg(device))
        print(f"wrote {path}", file=sys.stderr)


def _print_evaluation(entry: dict[str, Any]) -> None:
    print(
        f"{entry['device']}: {entry['model']}, trained on {entry['trained_on']} of "
        f"{entry['requests']} requests; "
        f"{_server(entry['server'])}"
    )
    print(f"  {'':<22}{'queue from trace':>18}{'free running':>16}")
    one, free = entry["one_step"], entry["free_running"]
    rows = [
        ("real mean, ms", "real_mean_ms"),
        ("simulated mean, ms", "simulated_mean_ms"),
        ("D all, %", "d_all_percent"),
        ("D rest, %", "d_rest_percent"),
        ("D99, %", "d99_percent"),
        ("floor of D99, %", "floor99_percent"),
    ]
    for title, key in rows:
        print(f"  {title:<22}{one[key]:>18.3f}{free[key]:>16.3f}")
    print(f"  {'slices, %':<22}{one['slice']['percent']:>18.3f}{free['slice']['percent']:>16.3f}")
    print(f"  {'floor of slices, %':<22}{one['slice']['floor_percent']:>18.3f}{free['slice']['floor_percent']:>16.3f}")
    print(
        f"  {'acf 1 (real)':<22}{one['acf_simulated'][0]:>18.3f}{free['acf_simulated'][0]:>16.3f}"
        f"  ({one['acf_real'][0]:.3f})"
    )
    print(
        f"  CRPS skill {entry['crps_skill']:.3f}; outside the training support {100 * entry['outside_support']:.1f} %"
    )
    for row in entry["closed_loop"]:
        text = f"  load x{row['load']:g}: mean {row['simulated_mean_ms']:.3f} ms"
        text += f", busy {100 * row['utilization']:.0f} %"
        if row["real_mean_ms"] is not None:
            text += f"; truth {row['real_mean_ms']:.3f} ms ({row['mean_error_percent']:+.1f} %)"
            text += f", D {row['d_percent']:.1f} %"
        print(text)
    for line in entry["verdict"]:
        print(f"  {line}")


@app.command()
def simulate(
    trace: Trace,
    model: Annotated[str, typer.Option("--model-file", "-m", help="Model file.")],
    mode: Annotated[
        str, typer.Option(help="closed (the server makes the queue) or open (queue of the trace).")
    ] = "closed",
    load: Annotated[float, typer.Option(help="Factor on the density of arrivals.")] = 1.0,
    seed: Seed = 0,
    block_map: Annotated[str | None, typer.Option("--map", help="Block map to apply first.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write arrival_ns,response_ns here (CSV).")
    ] = None,
    form: Format = None,
    columns: Columns = None,
    device: Device = None,
    allow_other_device: OtherDevice = False,
    as_json: Json = False,
) -> None:
    """Run a model on the requests of a trace: open or closed loop, scaled load, remapped."""
    import numpy as np

    from servsim import disk

    run = disk.simulate(
        _source(trace, form, columns, device),
        model,
        mode=mode,
        load=load,
        seed=seed,
        map_path=block_map,
        allow_other_device=allow_other_device,
    )
    if output:
        table = np.column_stack([run.arrival_ns, run.response_ns])
        np.savetxt(output, table, fmt="%d", delimiter=",", header="arrival_ns,response_ns", comments="")
    if as_json:
        _print_json(run.summary)
        return
    _warn(run.summary["import"])
    for entry in run.summary["devices"]:
        figures = entry["figures"]
        text = f"{entry['device']}: {entry['requests']} requests"
        text += f", mean response {figures['simulated_mean_ms']:.3f} ms"
        if "utilization" in figures:
            text += f", p99 {figures['simulated_p99_ms']:.3f} ms, busy {100 * figures['utilization']:.1f} %"
        print(text)


@app.command()
def reorganize(
    trace: Trace,
    policy: Annotated[list[str] | None, typer.Option(help="hot-block and/or organ-pipe (both if left out).")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Hottest blocks (8 sectors) to move on each device.")] = 1000,
    kind: Kind = "forest",
    model_file: ModelFile = None,
    train: Annotated[float, typer.Option(help="Share of each device's requests to train on.")] = 1.0,
    load: Annotated[float, typer.Option(help="Load factor of the prediction.")] = 1.0,
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the block maps.")] = None,
    form: Format = None,
    columns: Columns = None,
    device: Device = None,
    allow_other_device: OtherDevice = False,
    as_json: Json = False,
) -> None:
    """Move the hottest blocks together on paper, and predict what that would bring."""
    from servsim import disk

    result, maps = disk.reorganize(
        _source(trace, form, columns, device),
        policies=policy or ["hot-block", "organ-pipe"],
        blocks=blocks,
        kind=kind,
        model=model_file,
        train=train,
        load=load,
        seed=seed,
        allow_other_device=allow_other_device,
    )
    if output:
        output.mkdir(parents=True, exist_ok=True)
        for name, how, text in maps:
            path = output / f"{name.replace('/', '_')}-{how}.map"
            path.write_text(text)
            print(f"wrote {path}", file=sys.stderr)
    if as_json:
        _print_json(result)
        return
    _warn(result["import"])
    for entry in result["results"]:
        what = entry["prediction"]
        print(
            f"{entry['device']}, {entry['policy']}: mean response {what['change_percent']:+.2f} % "
            f"(95 % interval of the draws +-{what['half_width_percent']:.2f}), "
            f"{what['before_ms']:.3f} -> {what['after_ms']:.3f} ms"
        )
        print(
            f"  seek distance {what['seek_distance_change_percent']:+.1f} %, zero seeks "
            f"{100 * what['zero_seek_before']:.1f} -> {100 * what['zero_seek_after']:.1f} %, "
            "hottest blocks hold "
            f"{100 * what['covered']:.1f} % of requests, "
            f"{100 * what['outside_support']:.1f} % of the moved requests "
            "are unlike any in the training part"
        )


@app.command()
def capture(
    output: Annotated[Path, typer.Option("--output", "-o", help="Trace to write (format tracefs).")],
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to record.")] = 10.0,
    as_json: Json = False,
) -> None:
    """Record the block requests of this Linux host (as root)."""
    from servsim import disk
    from servsim.disk.capture import capture as record

    facts = record(output, seconds)
    source = disk.Source(str(output), format="tracefs", tracer=facts["tracer"])
    report: dict[str, Any] = disk.import_trace(source) if output.stat().st_size else {"requests": 0}
    if as_json:
        _print_json({"schema": "servsim.disk.capture/1", "output": str(output), **facts, "import": report})
        return
    _warn(report)
    per_request = 1e6 * facts["reader_cpu_seconds"] / max(report["requests"], 1)
    print(
        f"{report['requests']} requests in {facts['seconds']:.1f} s, {facts['lost_events']} events lost; "
        "the reader used "
        f"{facts['reader_cpu_seconds']:.3f} s of processor time, {per_request:.1f} us a request"
    )
    print(f"wrote {output}; leave the tracer's own requests out with --tracer {facts['tracer']} --exclude-tracer")
