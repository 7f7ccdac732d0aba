"""``servsim place``: where pages should lie and threads run on a machine with nodes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import options
from servsim.cli.options import Settings
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import say
from servsim.files import atomic_write
from servsim.text import columns
from servsim.trace.files import trace_file


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("place")(command)


def command(
    trace: Annotated[Path, typer.Argument(help="Captured trace or importable file.")],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description with nodes: file or shipped name.")],
    settings: Settings = None,
    format: Annotated[str | None, typer.Option(help="Format of the trace when its name does not say.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, callback=options.seed, help="Seed to learn from; the next are measured.")
    ] = 1,
    replications: Annotated[int, typer.Option(min=2, max=1000, help="Seeds that are measured.")] = 3,
    hints: Annotated[bool, typer.Option(help="Look for falsely shared lines as well.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.place/1.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the placement file, for simulate --placement.")
    ] = None,
) -> None:
    """Advise where pages should lie and threads run, with the gain predicted and then simulated on other runs.

    Compared is with what the machine says of node.placement and node.threads. Where no gain above 5 % is predicted,
    there is no advice.

    Example: servsim place ocean.svt -m brock-2001-4x4 --set node.placement=striped -o placement.toml
    """
    from servsim.placement.advise import advise
    from servsim.placement.hints import falsely_shared
    from servsim.progress import expected_references, of_references

    trace_file(trace)
    with Progress() as progress:
        whole: dict[str, Any] = {"transactions": "all", "warmup": 0}

        def stage(what: str, runs: int, window: Mapping[str, int]) -> Callable[[int], None]:
            return of_references(progress, what, expected_references(trace, replications=runs, **{**whole, **window}))

        found = advise(
            trace,
            machine,
            format=format,
            overrides=settings or [],
            seed=seed,
            replications=replications,
            stage=stage,
        )
        if hints:
            found["hints"] = falsely_shared(
                trace,
                machine,
                format=format,
                overrides=settings or [],
                progress=stage("looking for falsely shared lines", 1, {}),
            )
    if output is not None and found["placement"] is not None:
        atomic_write(output, found["placement"])
        say(f"wrote {output}: {found['rules']:,} rules")
    deliver(found, as_json, lambda: "\n".join(_text(found, output)))


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _known(entry: dict[str, Any]) -> str:
    """Return a share with its interval."""
    mean, interval = entry["mean"], entry["interval_95"]
    if interval is None:
        return f"{_percent(mean)} (n = {entry['n']}, no interval)"
    return f"{_percent(mean)} ({100 * interval[0]:.1f} to {100 * interval[1]:.1f}, n = {entry['n']})"


def _beside(loss: float) -> str:
    """Return how much less than the advice something else gains, in points."""
    return f"{abs(100 * loss):.1f} points {'less' if loss >= 0 else 'more'} than the advice"


def _window(window: dict[str, Any] | None) -> str:
    return f"transactions {window['first']:,} to {window['last']:,}, " if window else ""


def _text(found: dict[str, Any], output: Path | None) -> list[str]:
    """Return the gain, predicted and measured, and what goes where."""
    predicted, measured, learnt = found["predicted"], found["measured"], found["learnt"]
    lines = [f"{found['trace']['name']} on {found['machine']['name']}"]
    held_out = f"; each of {learnt['parts']} parts is predicted from the others" if learnt["parts"] > 1 else ""
    lines.append(f"learnt from {_window(learnt['window'])}seed {learnt['seed']}{held_out}")
    if not found["advised"]:
        lines += [
            "",
            f"No advice: the best placement found promises {_percent(predicted['gain'])}, and 5 % or less is not worth "
            f"a placement file ({_percent(predicted['remote_share']['before'])} of the fetches are remote as it is).",
        ]
        return [*lines, *_hints(found)]
    seeds = measured["seeds"]
    lines.append(f"measured on {_window(measured['window'])}seeds {seeds[0]} to {seeds[-1]}")
    rows = [["", "predicted", "simulated (95 % interval)"]]
    rows.append(["gain in transactions per cycle", _percent(predicted["gain"]), _known(measured["gain"])])
    for key in ("before", "after"):
        share = measured["remote_share"][key]
        rows.append([f"remote fetches {key}", _percent(predicted["remote_share"][key]), _known(share)])
    lines += ["", *columns(rows), "", *_placed(found)]
    one = found["numactl"]
    lines += [
        "",
        f"Nearest that numactl can say of a whole process: {one['command']}",
        f"  predicted gain {_percent(one['predicted_gain'])}, {_beside(one['loss'])}",
    ]
    if output is None:
        lines += ["", "With -o FILE the placement file is written, for `servsim simulate --placement FILE`."]
    return [*lines, *_hints(found)]


def _placed(found: dict[str, Any], most: int = 15) -> list[str]:
    nodes = sorted({node for row in found["data"] for node in row["pages"]}, key=int)
    rows = [["data", "fetches from memory", *(f"pages on {node}" for node in nodes)]]
    for row in found["data"][:most]:
        rows.append([row["data"], f"{row['fetches']:,}", *(f"{row['pages'].get(node, 0):,}" for node in nodes)])
    more = len(found["data"]) - most
    return [*columns(rows), *([f"and {more:,} more"] if more > 0 else [])]


def _hints(found: dict[str, Any]) -> list[str]:
    """Return what to pad."""
    hints = found.get("hints")
    if not hints:
        return []
    rows = [["line", "data", "misses by false sharing", "written by"]]
    rows += [[one["address"], one["data"], f"{one['false_sharing']:,}", ", ".join(one["tasks"][:4])] for one in hints]
    size = hints[0]["pad_bytes"]
    return [
        "",
        f"Falsely shared lines: tasks use different bytes of them. Pad what they hold to {size} B and simulate again.",
        *columns(rows, left=2),
    ]
