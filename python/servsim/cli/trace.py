"""``servsim trace``: what a trace holds, and traces made from traces."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import options
from servsim.cli.options import AsJson
from servsim.cli.printing import print_json
from servsim.errors import CheckFailed, UsageError
from servsim.limits import LARGEST_COUNT
from servsim.trace import formats as known
from servsim.trace.files import captured_facts

trace = typer.Typer(
    help="Look into a trace; cut, merge and sample traces; import and export other formats.", no_args_is_help=True
)

#: Largest number of a Linux process that a trace holds.
LARGEST_PID = 2**32 - 1

TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="A captured trace (.svt).")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The trace to write.")]
ForeignPath = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of any format that is read.")]
ForeignOutput = Annotated[
    Path, typer.Option("--output", "-o", help="The trace to write; .gz, .xz or .zst at its end compresses it.")
]
OnlyOption = Annotated[str, typer.Option(help="References to write: all, fetch or data.")]
ProcessorsOption = Annotated[
    int, typer.Option(min=1, max=64, help="Processors over which tasks are spread by rank, for raw16.")
]


def register(app: typer.Typer) -> None:
    """Add the subcommand to the application."""
    app.add_typer(trace, name="trace")


@trace.command()
def info(path: TracePath, as_json: AsJson = False) -> None:
    """Print what the tables of a trace say: workload, tasks, totals. Instant."""
    from servsim.trace import tables

    found = captured_facts(path)
    _warn(found)
    print_json(found) if as_json else tables.info(found)


@trace.command()
def stats(path: TracePath, as_json: AsJson = False) -> None:
    """Walk a trace and print references by task and mode, system calls, I/O, transactions."""
    from servsim import _core
    from servsim.trace import tables

    found = json.loads(_core.trace_stats(path))
    _warn(found)
    print_json(found) if as_json else tables.stats(found["statistics"])


@trace.command()
def check(path: TracePath, as_json: AsJson = False) -> None:
    """Check everything that a trace claims; exit 1, with what is wrong, when it contradicts itself or is not whole."""
    from servsim import _core
    from servsim.trace import tables

    found = json.loads(_core.trace_check(path))
    print_json(found) if as_json else tables.check(found)
    if found["findings"]:
        count = len(found["findings"]) + found["more_findings"]
        raise CheckFailed(
            f"{path} breaks the rules of traces in {count:,} place{'' if count == 1 else 's'}: capture it again"
        )


@trace.command()
def cut(
    path: TracePath,
    output: Output,
    transactions: Annotated[str | None, typer.Option(help="FROM:TO, transactions counted from 0.")] = None,
    time: Annotated[str | None, typer.Option(help="FROM:TO in guest milliseconds.")] = None,
    references: Annotated[
        int | None, typer.Option(min=1, callback=options.count, help="The first so many references.")
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(min=0, max=LARGEST_PID, help="Keep this task; repeatable.")] = None,
    as_load: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Count tasks of this name to the load generator, which figures exclude; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a part of a trace: a range of transactions, of time, its first references, or some tasks."""
    from servsim import _core

    between = _range("--transactions", transactions)
    window = _range("--time", time, scale=1_000_000)
    _refuse_overwriting(output, [path])
    _refuse_unknown(path, pid or [])
    _refuse_beyond(path, between)
    _done(_core.trace_cut(path, output, between, window, pid, as_load or [], references), output, as_json)


@trace.command()
def sample(
    path: TracePath,
    output: Output,
    keep: Annotated[int, typer.Option(min=1, callback=options.count, help="Keep this many transactions ...")],
    of: Annotated[int, typer.Option("--of", min=1, callback=options.count, help="... of every so many.")],
    as_json: AsJson = False,
) -> None:
    """Keep the first K of every N transactions."""
    from servsim import _core

    _refuse_overwriting(output, [path])
    _done(_core.trace_sample(path, output, keep, of), output, as_json)


@trace.command()
def merge(
    paths: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of one workload.")],
    output: Output,
    as_json: AsJson = False,
) -> None:
    """Write several traces of one workload as one, whose tasks run side by side when it is simulated.

    The file holds one trace after the other, and stated times follow one another. The tasks of each stay tasks of
    their own, and nothing lets those of one wait for the end of another: merging a trace with itself doubles the
    users. The same address is the same memory, and the same lock, in all of them.
    """
    from servsim import _core

    _refuse_overwriting(output, paths)
    _done(_core.trace_merge(paths, output), output, as_json)


@trace.command("formats")
def list_formats(as_json: AsJson = False) -> None:
    """List the formats of traces: their extensions, what they hold, what they lack."""
    from servsim.trace import tables

    print_json(known.DOCUMENT) if as_json else tables.formats(known.DOCUMENT)


@trace.command()
def export(
    path: ForeignPath,
    output: ForeignOutput,
    format: Annotated[str | None, typer.Option(help=f"Format to write: {', '.join(known.WRITTEN)}.")] = None,
    source: Annotated[str | None, typer.Option("--from", help=known.HELP)] = None,
    only: OnlyOption = "all",
    processors: ProcessorsOption = 1,
    as_json: AsJson = False,
) -> None:
    """Write a trace in a format of other tools; says once what that format cannot hold."""
    target = format or known.of_name(output.name)
    if target is None:
        raise UsageError(f"the name {output} does not tell a format: say --format {'|'.join(known.WRITTEN)}")
    _convert(path, output, target, source, only, processors, as_json)


@trace.command("import")
def import_(
    path: ForeignPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace to write: *.raw16 or *.txt.")],
    format: Annotated[str | None, typer.Option(help=known.HELP)] = None,
    only: OnlyOption = "all",
    processors: ProcessorsOption = 1,
    as_json: AsJson = False,
) -> None:
    """Check a trace of another tool and keep it in an exchange format of servsim, raw16 or text.

    No command needs this first: `simulate` reads every format directly. A raw16 file is read faster.
    """
    target = known.of_name(output.name)
    if target not in ("raw16", "text"):
        raise UsageError(f"{output}: an imported trace is kept as *.raw16 or *.txt; use export for other formats")
    _convert(path, output, target, format, only, processors, as_json)


def _convert(
    path: Path, output: Path, target: str, source: str | None, only: str, processors: int, as_json: bool
) -> None:
    """Write a trace in another format and report it."""
    from servsim import _core

    _refuse_overwriting(output, [path])
    found = json.loads(_core.trace_export(path, output, target, source, only, processors))
    for note in found["notes"]:
        typer.echo(f"servsim: warning: {note}", err=True)
    if found["lost"]:
        typer.echo(f"servsim: not in {target}: {'; '.join(found['lost'])}", err=True)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{output}: {found['references']:,} references, {found['file_bytes']:,} bytes", err=True)


def _range(option: str, text: str | None, scale: int = 1) -> tuple[int, int] | None:
    """Read ``FROM:TO``; both are numbers, the second is exclusive."""
    if text is None:
        return None
    try:
        first, last = (float(part) for part in text.split(":"))
    except ValueError:
        raise UsageError(f"{option} {text} is not a range: write FROM:TO, for example {option} 100:200") from None
    if not (math.isfinite(first) and math.isfinite(last) and last * scale <= LARGEST_COUNT):
        raise UsageError(f"{option} {text} is no range of a trace: write two numbers, FROM:TO")
    if not 0 <= first < last:
        raise UsageError(f"{option} {text} is empty: the end must be greater than the beginning")
    return round(first * scale), round(last * scale)


def _refuse_overwriting(output: Path, inputs: list[Path]) -> None:
    """Refuse an output that is one of the inputs, which would be lost."""
    if any(output.exists() and output.samefile(path) for path in inputs if path.exists()):
        raise UsageError(f"{output} is also an input: choose another name for the output")


def _refuse_unknown(path: Path, pids: list[int]) -> None:
    """Refuse numbers of processes that no task of the trace has."""
    known = {task["pid"] for task in captured_facts(path)["tasks"]} if pids else set()
    if strange := [str(pid) for pid in pids if pid not in known]:
        there = ", ".join(map(str, sorted(known)))
        raise UsageError(f"no task of {path} is process {' or '.join(strange)}: give one of {there}")


def _refuse_beyond(path: Path, between: tuple[int, int] | None) -> None:
    """Refuse transactions that the trace does not have."""
    if between is None:
        return
    first, last = between
    totals = captured_facts(path)["totals"]
    if totals is not None and last > (there := totals["transactions"]):
        within = (
            f"write --transactions {min(first, max(0, there - 1))}:{there}" if there else "leave --transactions out"
        )
        raise UsageError(f"{path} holds {there:,} transactions, not those of --transactions {first}:{last}: {within}")


def _warn(found: dict[str, Any]) -> None:
    """Say on stderr when the trace is not whole."""
    if found["truncated"]:
        typer.echo(f"servsim: warning: {found['truncated']}", err=True)


def _done(text: str, output: Path, as_json: bool) -> None:
    """Report what was written."""
    from servsim.trace import tables

    found = json.loads(text)
    document = {"schema": "servsim.trace.written/1", "output": str(output), **found}
    print_json(document) if as_json else tables.written(output, found)
