"""``servsim compare``: which design is really better, or why nobody can tell yet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.cli import compare_windows, options
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import say, warn
from servsim.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from servsim.comparison import Comparison, Design

#: Options, by their parameters, that say how machines are run.
OF_RUNS = (
    "settings",
    "replications",
    "budget",
    "transactions",
    "warmup",
    "functional_warmup",
    "from_checkpoint",
    "seed",
    "format",
    "threads",
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("compare")(compare)


def compare(
    context: typer.Context,
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="A trace to run (or several captures of one workload), results of earlier runs (files, or the "
            "folder of a sweep), or both.",
            metavar="TRACE|RESULT...",
        ),
    ],
    machine: Annotated[
        list[str] | None,
        typer.Option("--machine", "-m", help="A design: NAME or NAME:KEY=VALUE,... Repeatable."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Replace a setting of every machine: KEY=VALUE. Repeatable.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="Figure to compare by, for example gsp; cycles_per_transaction without it.",
            show_default=False,
        ),
    ] = "cycles_per_transaction",
    replications: Annotated[int, typer.Option(min=0, max=100_000, help="Runs per machine, successive seeds.")] = 20,
    precision: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Run until every interval is within this share of its mean, such as 1%."),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, max=100_000, help="Most runs per machine with --precision.")] = 100,
    sampled: Annotated[str | None, typer.Option(metavar="SHARE", help=options.SAMPLED)] = None,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.TRANSACTIONS)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.WARM_UP)] = None,
    functional_warmup: Annotated[
        str | None, typer.Option("--functional-warm-up", metavar="AMOUNT", help=options.FUNCTIONAL_WARM_UP)
    ] = None,
    from_checkpoint: Annotated[Path | None, typer.Option(help=options.FROM_CHECKPOINT)] = None,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the first run.")] = 1,
    format: Annotated[str | None, typer.Option(help="Format of the trace: servsim, text, raw16.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Host threads; all cores without it.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder for the results, to be compared again later.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained HTML page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.compare/1.")] = False,
    require_ranking: Annotated[
        bool, typer.Option("--require-ranking", help="Exit with 1 when some designs cannot be ranked.")
    ] = False,
) -> None:
    """Compare designs: means with intervals, the risk of a wrong conclusion, and a ranking only if it is proven.

    Example: servsim compare oltp.svt -m foglia-2004-8p -m foglia-2004-8p:cache.associativity=4 --replications 20
    """
    from servsim.comparison import check_enough, judge
    from servsim.comparison import designs as parts
    from servsim.comparison.metrics import metric as find
    from servsim.comparison.text import render
    from servsim.statistics.intervals import LEAST

    metric = find(by)
    files, traces = _sorted(inputs)
    machines = parts.told_apart([parts.parse_machine(text) for text in machine or []])
    if sampled is not None:
        unlike = {
            "--by": by != "cycles_per_transaction",
            "--precision": precision,
            "--functional-warm-up": functional_warmup,
            "--from-checkpoint": from_checkpoint,
            "--keep": keep,
            "--html": html,
            "result files": files,
            "all traces but one": len(traces) > 1,
        }
        compare_windows.refuse_beside({name for name, given in unlike.items() if given})
        _check(files, traces, len(machines), None, replications)
        compare_windows.run(
            traces[0],
            machines,
            sampled,
            as_json=as_json,
            require_ranking=require_ranking,
            seed=seed,
            transactions=options.transactions(transactions),
            warmup=warmup,
            format=format,
            overrides=tuple(settings or ()),
            threads=threads,
        )
        return
    wish = None if precision is None else _precision(precision)
    _check(files, traces, len(machines), wish, replications)
    _refuse_useless(context, traces, wish)
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise UsageError(f"{keep} is not empty, and results are never overwritten: choose another folder for --keep")
    earlier = parts.from_files(files, metric)
    check_enough(earlier, metric)
    found: list[Design] = []
    stopped = None
    interrupted: parts.InterruptedDesigns | None = None
    with Progress() as progress:
        if machines:
            runs = parts.Runs(
                tuple(traces),
                replications,
                seed,
                options.transactions(transactions),
                warmup,
                format,
                tuple(settings or ()),
                threads,
                functional_warmup,
                from_checkpoint,
                progress,
            )
            try:
                found, stopped = parts.run(machines, runs, metric, wish, budget, progress.note)
            except parts.InterruptedDesigns as stop:
                interrupted, found = stop, stop.designs
    found += earlier
    if len(found) < 2 and interrupted is None:
        raise UsageError(
            f"these are {len(files)} results of one design, {found[0].name}: a comparison needs two; give another's too"
        )
    if keep is not None:
        for path in parts.keep(found, keep):
            say(f"wrote {path}")
    if interrupted is not None:
        say(interrupted.sentence(kept=keep is not None))
        # What can be said of them is said; one design, or too few runs of a design, compares with nothing.
        if len(found) < 2 or any(len(metric.values(design.result)) < LEAST for design in found):
            raise interrupted
    comparison = judge(found, metric, stopped=stopped, precision=wish)
    if html is not None:
        from servsim.comparison.page import write

        say(f"wrote {write(comparison, html)}")
    warn(comparison.warnings)
    deliver(comparison.to_dict(), as_json, lambda: render(comparison))
    _end(comparison, interrupted, require_ranking)


def _end(comparison: "Comparison", interrupted: KeyboardInterrupt | None, require_ranking: bool) -> None:
    """End with the exit code that the comparison deserves."""
    if interrupted is not None:
        raise interrupted
    if comparison.barred is not None:
        raise CheckFailed(f"nothing was ranked: {comparison.barred}")
    if require_ranking and not comparison.ranked:
        raise CheckFailed("some designs cannot be ranked; the reasons are above")


def _precision(text: str) -> float:
    """Return the share of its mean within which every interval is wished to be."""
    from servsim.text import share

    wish = share(text)
    if not 0 < wish < 1:
        raise UsageError(f"--precision {text}: give a share of the mean below 100%, for example 1% or 0.01")
    return wish


def _check(files: list[Path], traces: list[Path], machines: int, precision: float | None, runs: int) -> None:
    """Refuse what cannot be compared, before anything is run."""
    from servsim.statistics.intervals import LEAST

    if machines and not traces:
        raise UsageError("machines need a trace to run, and none was given")
    if len(traces) > 1 and precision is not None:
        raise UsageError(
            "--precision decides how many replications are made, and intervals over several captures do not narrow "
            "with them: leave it out, or give more captures"
        )
    if traces and not machines:
        raise UsageError(f"{traces[0]} is a trace: name the machines to run it on with --machine, twice or more")
    if len(files) + machines < 2:
        raise UsageError("a comparison needs two designs: give --machine twice, or two result files")
    if files and precision is not None:
        raise UsageError("--precision decides how many runs are made, so it cannot be used with result files")
    if machines and precision is None and runs < LEAST and len(traces) == 1:
        raise UsageError(
            f"--replications {runs} gives no interval, for {LEAST} runs are the least that say how much runs differ: "
            "use --replications 10 or more"
        )


def _refuse_useless(context: typer.Context, traces: list[Path], precision: float | None) -> None:
    """Refuse options that say how machines are run where none is, or how many runs where something else decides."""
    if not traces:
        options.refuse_useless(context, "these are results of earlier runs, and no machine is run", *OF_RUNS)
    if precision is None:
        options.refuse_useless(context, "--precision, which it bounds, is not given", "budget")
    else:
        options.refuse_useless(context, "--precision decides how many runs are made, --budget at most", "replications")


def _sorted(inputs: list[Path]) -> tuple[list[Path], list[Path]]:
    """Tell result files, which begin with a brace, and the runs of sweeps from traces."""
    from servsim.machines import shipped_machines
    from servsim.report import files as runs_of

    files: list[Path] = []
    traces: list[Path] = []
    for path in inputs:
        if path.is_dir():
            files += runs_of([path])
            continue
        if path.suffix == ".toml" or (not path.is_file() and str(path).partition(":")[0] in shipped_machines()):
            raise UsageError(f"{str(path)!r} is a machine: name it with --machine, so: --machine {path}")
        if not path.is_file():
            raise UsageError(f"there is no trace or result {str(path)!r}")
        with path.open("rb") as file:
            head = file.read(64).lstrip()
        if not head:
            raise UsageError(f"{path} is empty: it is neither a trace nor a result")
        # A list is no result either, and its reader says so.
        (files if head.startswith((b"{", b"[")) else traces).append(path)
    return files, traces
