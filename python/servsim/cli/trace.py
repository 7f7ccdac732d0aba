"""``servsim trace``: what a trace holds, and traces made from traces."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.errors import UsageError

trace = typer.Typer(help="Look into a trace; cut, merge and sample traces.", no_args_is_help=True)

TracePath = Annotated[Path, typer.Argument(metavar="TRACE", help="A captured trace (.svt).")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The trace to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the subcommand to the application."""
    app.add_typer(trace, name="trace")


@trace.command()
def info(path: TracePath, as_json: AsJson = False) -> None:
    """Print what the tables of a trace say: workload, tasks, totals. Instant."""
    from servsim import _core
    from servsim.trace import tables

    text = _core.trace_info(path)
    found = json.loads(text)
    _warn(found)
    typer.echo(text) if as_json else tables.info(found)


@trace.command()
def stats(path: TracePath, as_json: AsJson = False) -> None:
    """Walk a trace and print references by task and mode, system calls, I/O, transactions."""
    from servsim import _core
    from servsim.trace import tables

    text = _core.trace_stats(path)
    found = json.loads(text)
    _warn(found)
    typer.echo(text) if as_json else tables.stats(found["statistics"])


@trace.command()
def cut(
    path: TracePath,
    output: Output,
    transactions: Annotated[str | None, typer.Option(help="FROM:TO, transactions counted from 0.")] = None,
    time: Annotated[str | None, typer.Option(help="FROM:TO in guest milliseconds.")] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Keep this task; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a part of a trace: a range of transactions, of time, or some tasks."""
    from servsim import _core

    between = _range("--transactions", transactions)
    window = _range("--time", time, scale=1_000_000)
    _refuse_overwriting(output, [path])
    _done(_core.trace_cut(path, output, between, window, pid), output, as_json)


@trace.command()
def sample(
    path: TracePath,
    output: Output,
    keep: Annotated[int, typer.Option(min=1, help="Keep this many transactions ...")],
    of: Annotated[int, typer.Option("--of", min=1, help="... of every so many.")],
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
    """Write several traces in a row as one; the tasks of each stay tasks of their own."""
    from servsim import _core

    _refuse_overwriting(output, paths)
    _done(_core.trace_merge(paths, output), output, as_json)


def _range(option: str, text: str | None, scale: int = 1) -> tuple[int, int] | None:
    """Read ``FROM:TO``; both are numbers, the second is exclusive."""
    if text is None:
        return None
    try:
        first, last = (float(part) for part in text.split(":"))
    except ValueError:
        raise UsageError(f"{option} {text} is not a range: write FROM:TO, for example {option} 100:200") from None
    if not 0 <= first < last:
        raise UsageError(f"{option} {text} is empty: the end must be greater than the beginning")
    return round(first * scale), round(last * scale)


def _refuse_overwriting(output: Path, inputs: list[Path]) -> None:
    """Refuse an output that is one of the inputs, which would be lost."""
    if any(output.exists() and output.samefile(path) for path in inputs if path.exists()):
        raise UsageError(f"{output} is also an input: choose another name for the output")


def _warn(found: dict[str, Any]) -> None:
    """Say on stderr when the trace is not whole."""
    if found["truncated"]:
        typer.echo(f"servsim: warning: {found['truncated']}", err=True)


def _done(text: str, output: Path, as_json: bool) -> None:
    """Report what was written."""
    from servsim.trace import tables

    typer.echo(text) if as_json else tables.written(output, json.loads(text))
