"""The disk commands, each little more than what it asks for and what it prints."""

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli.disk.options import (
    Fitting,
    HeldOut,
    Kind,
    ModelFile,
    OptionalTrace,
    OtherDevice,
    Trace,
    Using,
    expand,
)
from servsim.cli.disk.printing import (
    in_file_name,
    print_evaluation,
    print_models,
    print_run,
    print_sweep,
    warn,
    warn_of_skipped,
    write_plots,
)
from servsim.cli.options import AsJson, load_range, refuse_useless
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.errors import UsageError
from servsim.files import atomic_write, make_folder

app = typer.Typer(no_args_is_help=True, help="Disks: import, fit, evaluate, simulate, sweep, reorganise, capture.")


@app.command("formats")
def formats(as_json: AsJson = False) -> None:
    """List trace formats, kinds of models and drives."""
    from servsim import disk

    catalogue = disk.catalogue()
    if as_json:
        print_json({"schema": "servsim.disk.formats/1", **catalogue})
        return
    print("traces may be compressed: " + ", ".join(f".{extension}" for extension in catalogue["compressions"]))
    for title in ("formats", "models"):
        print(f"{title}:")
        for entry in catalogue[title]:
            print(f"  {entry['name']:<14} {entry['about']}")
    print("drives: " + ", ".join(catalogue["drives"]))


@app.command("import")
@expand
def import_(
    trace: Trace,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write servsim's binary form here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read a trace of any format, report what could not be kept, write it in binary form.

    Example: servsim disk import requests.csv -o requests.bin
    """
    from servsim import disk

    report = disk.import_trace(trace.source(), output)
    if as_json:
        print_json({"schema": "servsim.disk.import/1", **report, "output": output})
        return
    warn(report)
    print(f"{report['requests']} requests of {len(report['devices'])} device(s) from a {report['format']} trace")
    if output:
        print(f"wrote {output}")


@app.command()
@expand
def fit(
    trace: OptionalTrace,
    fitting: Fitting,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Model file to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to each device of a trace and write it to a file.

    Example: servsim disk fit requests.csv -o disk.model
    """
    from servsim import disk

    if trace.trace is None and fitting.kind not in ("mechanical", "ssd"):
        raise UsageError(f"a {fitting.kind} model is fitted to a trace: name one")
    with Progress() as progress:
        progress("fitting a model to every device")
        result = disk.fit(trace.source(), output, **fitting.arguments())
    if as_json:
        print_json(result)
        return
    warn(result["import"])
    warn_of_skipped(result)
    print_models(result)
    if output:
        print(f"wrote {output}, {result['bytes']} bytes")


@app.command()
def info(model: Annotated[str, typer.Argument(help="Model file.")], as_json: AsJson = False) -> None:
    """Show what is in a model file."""
    from servsim import disk

    result = disk.info(model)
    if as_json:
        print_json(result)
        return
    print(f"{model}: {result['bytes']} bytes")
    print_models(result)
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
@expand
def evaluate(
    context: typer.Context,
    trace: Trace,
    fitting: HeldOut,
    model_file: ModelFile = None,
    load: Annotated[list[float] | None, typer.Option(metavar="X", help="Also simulate at this load factor.")] = None,
    truth: Annotated[
        list[str] | None, typer.Option(metavar="X=TRACE", help="Compare, at load X, with what really happened.")
    ] = None,
    allow_other_device: OtherDevice = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for plots of distribution and slices (SVG).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a model on the requests it was not fitted to.

    Example: servsim disk evaluate requests.csv --html evaluation.html
    """
    from servsim import disk

    _refuse_useless_of_models(context, model_file)
    truths = [(factor, trace.source(path)) for factor, path in _truths(truth or [])]
    with Progress() as progress:
        progress("judging the model")
        result = disk.evaluate(
            trace.source(),
            model=model_file,
            loads=load or [],
            truths=truths,
            allow_other_device=allow_other_device,
            **fitting.arguments(),
        )
    if plots:
        write_plots(result, plots)
    if html:
        from servsim.disk.page import write_evaluation

        write_evaluation(result, str(trace.trace), html)
    if as_json:
        print_json(result)
        return
    warn(result["import"])
    warn_of_skipped(result)
    for entry in result["devices"]:
        print_evaluation(entry)


@app.command()
@expand
def simulate(
    trace: Trace,
    using: Using,
    mode: Annotated[
        str, typer.Option(help="closed (the server makes the queue) or open (queue of the trace).")
    ] = "closed",
    load: Annotated[float, typer.Option(help="Factor on the density of arrivals.")] = 1.0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write arrival_ns,response_ns, and the device of several, here (CSV)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a model on the requests of a trace: open or closed loop, scaled load, remapped, as a set of drives.

    Example: servsim disk fit trace.csv -o drive.model && servsim disk simulate trace.csv -m drive.model --set raid1:2
    """
    from servsim import disk

    where = None if output is None else str(output)
    run = disk.simulate(
        trace.source(), using.model, mode=mode, load=load, times=False, output=where, **using.arguments()
    )
    if as_json:
        print_json(run.summary)
        return
    warn(run.summary["import"])
    for entry in run.summary["devices"]:
        print_run(entry)


@app.command()
@expand
def sweep(
    trace: Trace,
    using: Using,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST[:POINTS]", help="Factors on the density of arrivals; up to saturation if left out."
        ),
    ] = None,
    replications: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at each load, by other draws.")] = 4,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a model at several loads: responses, throughput, use, and the knee between them.

    Example: servsim disk fit trace.csv -o drive.model && servsim disk sweep trace.csv -m drive.model --html sweep.html
    """
    from servsim import disk

    loads = None if load is None else load_range(load)
    with Progress() as progress:
        progress("running the model at several loads")
        result = disk.sweep(trace.source(), using.model, loads, runs=replications, **using.arguments())
    if html:
        from servsim.disk.page import write_sweep

        write_sweep(result, str(trace.trace), using.model, html)
    if as_json:
        print_json(result)
        return
    warn(result["import"])
    for entry in result["devices"]:
        print_sweep(entry)


@app.command()
@expand
def reorganize(
    context: typer.Context,
    trace: Trace,
    fitting: Kind,
    policy: Annotated[list[str] | None, typer.Option(help="hot-block and/or organ-pipe (both if left out).")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Hottest blocks (8 sectors) to move on each device.")] = 1000,
    model_file: ModelFile = None,
    load: Annotated[float, typer.Option(help="Load factor of the prediction.")] = 1.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the block maps.")] = None,
    allow_other_device: OtherDevice = False,
    as_json: AsJson = False,
) -> None:
    """Move the hottest blocks together on paper, and predict what that would bring.

    Predicted is for requests that the map is not drawn from: each quarter of the trace is moved by the map of the
    others.

    Example: servsim disk reorganize requests.csv -o maps
    """
    from servsim import disk

    _refuse_useless_of_models(context, model_file)
    result, maps = disk.reorganize(
        trace.source(),
        policies=policy or ["hot-block", "organ-pipe"],
        blocks=blocks,
        model=model_file,
        load=load,
        allow_other_device=allow_other_device,
        **fitting.arguments(),
    )
    if output:
        make_folder(output)
        for name, how, text in maps:
            path = output / f"{in_file_name(name)}-{how}.map"
            atomic_write(path, text)
            print(f"wrote {path}", file=sys.stderr)
    if as_json:
        print_json(result)
        return
    warn(result["import"])
    warn_of_skipped(result)
    for entry in result["results"]:
        what, own = entry["held_out"], entry["prediction"]
        of = " of the draws alone: the model's error is untested here" if what["model_error_percent"] is None else ""
        print(
            f"{entry['device']}, {entry['policy']}: mean response {what['change_percent']:+.2f} % "
            f"(95 % interval +-{what['half_width_percent']:.2f}{of}), "
            f"{what['before_ms']:.3f} -> {what['after_ms']:.3f} ms"
        )
        print(f"  {own['change_percent']:+.2f} % of the very requests that its map is drawn from")
        print(
            f"  seek distance {what['seek_distance_change_percent']:+.1f} %, zero seeks "
            f"{100 * what['zero_seek_before']:.1f} -> {100 * what['zero_seek_after']:.1f} %, "
            f"hottest blocks hold {100 * what['covered']:.1f} % of requests "
            f"({100 * own['covered']:.1f} % of their own), "
            f"{100 * what['outside_support']:.1f} % of the moved requests "
            "are unlike any in the training part"
        )
        if what["bound_to_place"]:
            print("  the model knows blocks by their place, which a move changes: fit one without --model-file")


@app.command()
def capture(
    output: Annotated[Path, typer.Option("--output", "-o", help="Trace to write (format tracefs).")],
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to record.")] = 10.0,
    method: Annotated[
        str, typer.Option(help="bpf: a program in the kernel; tracefs: its trace events; auto: bpf where it works.")
    ] = "auto",
    device: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Keep one disk, such as sda; may be given again.")
    ] = None,
    process: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Keep what processes of this name ask for themselves; may be given again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record the block requests of this Linux host (as root).

    What a process writes through the page cache is asked for by the kernel's own threads: --process leaves it out.

    Example: servsim disk capture -o host.trace --seconds 10 --device sda
    """
    from servsim import disk
    from servsim.disk.capture import capture as record

    facts = record(output, seconds, method, devices=device or (), processes=process or ())
    if facts["method_reason"]:
        reason = facts["method_reason"]
        print(f"captured through tracefs, which costs a request more than bpf: {reason}", file=sys.stderr)
    source = disk.Source(str(output), format="tracefs", tracer=facts["tracer"])
    report: dict[str, Any] = {"requests": 0}
    try:
        if output.stat().st_size:
            report = disk.import_trace(source)
    except UsageError as problem:
        # A host that did nothing but discard, say, is no mistake of the user's.
        print(f"warning: {problem}", file=sys.stderr)
    if as_json:
        print_json({"schema": "servsim.disk.capture/1", "output": str(output), **facts, "import": report})
        return
    warn(report)
    used = f"{facts['reader_cpu_seconds']:.3f} s of processor time"
    if report["requests"]:
        used += f", {1e6 * facts['reader_cpu_seconds'] / report['requests']:.1f} us a request"
    print(
        f"{report['requests']} requests in {facts['seconds']:.1f} s by {facts['method']}, "
        f"{facts['lost_events']} events lost; "
        f"the reader used {used}"
    )
    own = f"; leave the tracer's own requests out with --tracer {facts['tracer']} --exclude-tracer"
    print(f"wrote {output}{own if report.get('by_tracer') else ''}")


def _refuse_useless_of_models(context: typer.Context, model_file: str | None) -> None:
    """Refuse options of fitting beside a model, and without one those of other models, as far as they are there."""
    if model_file is not None:
        of_fitting = {field.name for field in fields(Fitting)} - {"train", "seed"}
        refuse_useless(context, f"{model_file} is fitted already", *(of_fitting & context.params.keys()))
    else:
        refuse_useless(context, "the model is fitted to this trace", "allow_other_device")
