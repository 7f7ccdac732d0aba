"""``servsim simulate``: run a trace on a described machine."""

import sys
import time
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from servsim.cli import numbers, options, sampled, windows
from servsim.cli.options import Settings
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import warn
from servsim.errors import Interrupted, UsageError
from servsim.result_warnings import by_rank, recorded
from servsim.text import columns, decimals_for
from servsim.trace import formats


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("simulate")(command)


def command(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Captured trace, or any that `servsim trace formats` lists; or several captures of one workload.",
        ),
    ],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description: file or shipped name.")],
    settings: Settings = None,
    engine: Annotated[str, typer.Option(help="timing or functional.")] = "timing",
    each: Annotated[
        list[str] | None,
        typer.Option("--each", help="KEY=VALUE,VALUE...: all these machines in one functional pass. Repeatable."),
    ] = None,
    format: Annotated[str | None, typer.Option(help=formats.HELP)] = None,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.TRANSACTIONS)] = None,
    references: Annotated[int | None, typer.Option(min=1, help=options.REFERENCES)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.WARM_UP)] = None,
    functional_warmup: Annotated[
        str | None, typer.Option("--functional-warm-up", metavar="AMOUNT", help=options.FUNCTIONAL_WARM_UP)
    ] = None,
    save_checkpoint: Annotated[
        Path | None, typer.Option(help="Write the state at the end of the functional warm-up to a file.")
    ] = None,
    from_checkpoint: Annotated[Path | None, typer.Option(help=options.FROM_CHECKPOINT)] = None,
    users: Annotated[int | None, typer.Option(min=1, help=options.USERS)] = None,
    placement: Annotated[
        Path | None, typer.Option(help="Where pages lie and tasks run, on a machine with nodes: a placement file.")
    ] = None,
    monitor: Annotated[
        Path | None, typer.Option(help="What of the traffic between nodes is counted: a monitor's program.")
    ] = None,
    precision: Annotated[str | None, typer.Option(metavar="SHARE", help=options.PRECISION)] = None,
    live_points: Annotated[Path | None, typer.Option(help=options.LIVE_POINTS)] = None,
    replications: Annotated[int, typer.Option(min=1, max=100_000, help="Runs, successive seeds.")] = 1,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the first run.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Host threads; all cores without it (one functional run: two).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.simulate/1.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the JSON result to a file.")] = None,
    host_figures: Annotated[
        bool, typer.Option("--host-figures", help="Add host times to the JSON (not repeatable).")
    ] = False,
) -> None:
    """Run a trace on a machine that exists only as a description.

    Several captures of one workload (`servsim capture --captures N`) are one design: each is run with the same
    seeds, and the intervals are over captures.

    Example: servsim simulate oltp.1.svt oltp.2.svt oltp.3.svt -m foglia-2004-4p --replications 3
    """
    # One run has no interval, which is what the distributions are for.
    distributions = ["scipy.special"] if replications > 1 or len(traces) > 1 else []
    numbers.load("numpy", *distributions)
    from servsim.captures import simulate_captures
    from servsim.progress import expected_references, of_references

    if live_points is not None and precision is None:
        raise UsageError("--live-points are what --precision samples from: say how precise, for example --precision 2%")
    if precision is not None:
        sampled.refuse_beside(
            {
                "--each": each,
                "--references": references,
                "--engine": engine != "timing",
                "--functional-warm-up": functional_warmup,
                "--save-checkpoint": save_checkpoint,
                "--from-checkpoint": from_checkpoint,
                "--placement": placement,
                "--monitor": monitor,
                "--replications": replications != 1,
                "--host-figures": host_figures,
                "all traces but one": len(traces) > 1,
            }
        )
        sampled.run(
            traces[0],
            machine,
            precision,
            output,
            as_json,
            format=format,
            overrides=settings or [],
            transactions=options.transactions(transactions),
            warmup=warmup,
            users=users,
            seed=seed,
            threads=threads,
            live_points=live_points,
        )
        return
    if each:
        _refuse_beside_each(
            {
                "--references": references,
                "--warm-up": warmup,
                "--functional-warm-up": functional_warmup,
                "--save-checkpoint": save_checkpoint,
                "--from-checkpoint": from_checkpoint,
                "--replications": replications != 1,
                "--placement": placement,
                "--monitor": monitor,
                "--host-figures": host_figures,
            },
            engine,
        )
        if len(traces) > 1:
            raise UsageError("--each runs one trace: give one, or run the machines one by one")
        counted = options.transactions(transactions)
        _each(traces[0], machine, _values(each), format, settings or [], counted, users, seed, threads, as_json, output)
        return
    started = time.perf_counter()
    counted = options.transactions(transactions)
    stopped: Interrupted | None = None
    runs = "1 run" if replications * len(traces) == 1 else f"{replications * len(traces)} runs"
    try:
        with Progress() as progress:
            expected = expected_references(
                traces,
                transactions=counted if engine == "timing" else "all",
                references=references,
                warmup=warmup,
                functional_warmup=functional_warmup,
                replications=replications if engine == "timing" else 1,
            )
            result = simulate_captures(
                traces,
                machine,
                format=format,
                overrides=settings or [],
                engine=engine,
                transactions=counted,
                references=references,
                warmup=warmup,
                replications=replications,
                seed=seed,
                threads=threads,
                functional_warmup=functional_warmup,
                save_checkpoint=save_checkpoint,
                from_checkpoint=from_checkpoint,
                users=users,
                placement=placement,
                monitor=monitor,
                progress=of_references(progress, f"simulating {runs}", expected),
            )
    except Interrupted as stop:
        stopped, result = stop, stop.result
    seconds = time.perf_counter() - started
    warn(recorded(result))
    host = _host(result, seconds)
    print(f"servsim: {host['summary']}", file=sys.stderr)
    if host_figures:
        result["host"] = host
    deliver(result, as_json, None if output else partial(_table, result), output)
    if stopped is not None:
        raise stopped


def _refuse_beside_each(given: dict[str, object], engine: str) -> None:
    """Refuse what one functional pass over the trace cannot do, by name."""
    if engine != "functional":
        raise UsageError("--each runs with --engine functional only: add it, or run the machines one by one")
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        raise UsageError(
            f"--each runs all machines in one functional pass from the beginning of the trace: leave out "
            f"{', '.join(wrong)}, or run the machines one by one"
        )


def _values(each: list[str]) -> dict[str, list[str]]:
    """Return the values of each setting, from ``KEY=VALUE,VALUE``."""
    found: dict[str, list[str]] = {}
    for text in each:
        key, equals, values = text.partition("=")
        if not equals or not all(value.strip() for value in values.split(",")):
            raise UsageError(f"--each {text}: write KEY=VALUE,VALUE...")
        found.setdefault(key.strip(), []).extend(value.strip() for value in values.split(","))
    return found


def _each(
    trace: Path,
    machine: str,
    each: dict[str, list[str]],
    format: str | None,
    settings: list[str],
    transactions: int | str | None,
    users: int | None,
    seed: int,
    threads: int | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Run many machines in one pass and show one line for each."""
    from servsim.progress import expected_references, of_references
    from servsim.simulation import simulate_each

    with Progress() as progress:
        expected = expected_references(trace, transactions=transactions or "all", warmup=0)
        told = of_references(progress, "simulating all machines", expected)
        result = simulate_each(
            trace,
            machine,
            each,
            format=format,
            overrides=settings,
            transactions=transactions,
            users=users,
            seed=seed,
            threads=threads,
            progress=told,
        )
    warn(by_rank(warning for document in result["results"] for warning in recorded(document)))
    deliver(result, as_json, None if output else partial(_each_table, list(each), result), output)


def _each_table(keys: list[str], result: dict[str, Any]) -> str:
    """Return one line per machine: its settings, references, miss rate, misses by class."""
    first = result["results"][0]["replications"][0]
    classes = list(first["misses"])
    rows = [[*keys, "references", "misses, %", *(name.replace("_", " ") for name in classes)]]
    for variant, document in zip(result["variants"], result["results"], strict=True):
        replication = document["replications"][0]
        references = replication["references"]
        counts = [sum(replication["misses"][name].values()) for name in classes]
        totals = [count for name, count in zip(classes, counts, strict=True) if name != "total"]
        rate = f"{100 * sum(totals) / references:.3f}" if references else "-"
        settings = [text.partition("=")[2] for text in variant]
        rows.append([*settings, f"{references:,}", rate, *(f"{count:,}" for count in counts)])
    return "\n".join(columns(rows, left=0))


def _host(result: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Figures of the host, kept apart from the result because they differ from run to run."""
    references = sum(r["references"] for r in result["replications"])
    cycles = sum(r["cycles"] or 0 for r in result["replications"])
    summary = f"{references / 1e6:,.1f} M measured references in {seconds:.2f} s"
    host: dict[str, Any] = {"seconds": seconds, "references_per_second": references / seconds}
    if cycles:
        from servsim.result import hertz

        simulated = cycles / hertz(result["machine"]["clock"])
        host["simulated_seconds"] = simulated
        host["slowdown"] = seconds / simulated
        summary += f", {host['slowdown']:,.0f} times slower than the modelled machine"
    host["summary"] = summary
    return host


#: What people look for first.
FIRST = (
    "cycles_per_transaction",
    "transactions_per_million_cycles",
    *(f"response_cycles.{name}" for name in ("mean", "p50", "p90", "p95", "p99")),
    "cycles",
    "gsp",
    "bus_utilization",
)


def _figure(entry: dict[str, Any], unit: str = "") -> str:
    """Return a mean with its interval, to two digits of the interval's half width."""
    mean = float(entry["mean"])
    if entry["interval_95"] is None:
        return f"{_plain(mean, mean / 100)} (n = {entry['n']}{unit}, no interval)"
    low, high = entry["interval_95"]
    half = (high - low) / 2
    step = half or mean / 1000
    return f"{_plain(mean, step)} ± {_plain(half, step)} (95 %, n = {entry['n']}{unit})"


def _plain(value: float, step: float) -> str:
    """Return a number without an exponent, to two digits of ``step``."""
    return f"{value:,.{max(0, decimals_for(abs(step), most=12))}f}"


def _intervals(result: dict[str, Any]) -> list[str]:
    """Return what the intervals are over, in one line."""
    runs, captures = len(result["replications"]), len(result.get("captures") or ())
    if captures:
        return [f"intervals: over {captures} captures, {runs // captures} runs of each"]
    if runs == 1 or result["engine"] == "functional":
        return []
    return ["intervals: over seeds, on this one capture; another capture of the workload may differ by more"]


def _table(result: dict[str, Any]) -> str:
    """Return the summary and the miss table of the first replication for people."""
    machine = result["machine"]
    sizes = [machine[key]["size"] for key in ("cache", "l2", "l3")]
    lines = [
        f"{machine['name']}: {machine['processors']} processors, {' + '.join(s for s in sizes if s != 'none')} caches, "
        f"{machine['cache']['line']} lines, {machine['protocol']['name']}, {result['engine']} engine",
        *windows.taken(result["options"].get("window")),
        *_intervals(result),
        "",
    ]
    summary = result["summary"]
    names = [name for name in FIRST if name in summary]
    names += [name for name in summary if name not in FIRST]
    # No figure is negative: what a machine does not have, or did not do, is 0 in every run.
    zeros = [name for name in names if summary[name]["mean"] == 0]
    names = [name for name in names if name not in zeros]
    unit = " captures" if result.get("captures") else ""
    lines += columns([[name, _figure(summary[name], unit)] for name in names], left=2)
    if zeros:
        lines += ["", *wrap(f"0 in every run: {', '.join(zeros)}", 80, subsequent_indent="  ")]
    first = result["replications"][0]
    misses = [[f"misses, seed {first['seed']}", "user", "kernel"]]
    for name, modes in first["misses"].items():
        misses.append([f"  {name}", f"{modes['user']:,}", f"{modes['kernel']:,}"])
    return "\n".join([*lines, "", *columns(misses), *_levels(first)])


def _levels(run: dict[str, Any]) -> list[str]:
    """Return what each cache of a hierarchy was asked and had, for people; nothing where there is but one."""
    if len(run["levels"]) == 1:
        return []
    rows = [[f"levels, seed {run['seed']}", "look-ups", "misses", "miss rate", "unfilled"]]
    for level in run["levels"]:
        asked = level["hits"] + level["misses"]
        share = f"{100 * level['misses'] / asked:.2f} %" if asked else "-"
        rows.append([f"  {level['name']}", f"{asked:,}", f"{level['misses']:,}", share, f"{level['unfilled']:,}"])
    return ["", *columns(rows)]
