"""``servsim monitor``: which data the traffic between nodes concerns."""

from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import options
from servsim.cli.options import Settings
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import say, warn
from servsim.errors import UsageError
from servsim.text import columns


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("monitor")(command)


def command(
    trace: Annotated[Path, typer.Argument(help="Captured trace or importable file.")],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description with nodes: file or shipped name.")],
    settings: Settings = None,
    mode: Annotated[str, typer.Option(help="card (what leaves a node) or simulator (all, with processors).")] = "card",
    placement: Annotated[Path | None, typer.Option(help="A placement file for pages and tasks.")] = None,
    format: Annotated[str | None, typer.Option(help="Format of the trace when its name does not say.")] = None,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.TRANSACTIONS)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.WARM_UP)] = None,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the run.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="Most rows to show.")] = 20,
    csv: Annotated[Path | None, typer.Option(help="Write every counter as CSV.")] = None,
    arrow: Annotated[Path | None, typer.Option(help="Write every counter as an Arrow file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw accesses over memory, as .svg or .html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.monitor/1.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the JSON to a file.")] = None,
) -> None:
    """Say which data the traffic between nodes concerns: 2 MiB granules, then 4 KiB, then 32 B where it is busiest.

    Example: servsim monitor oltp.svt -m brock-2001-4x4 --plot busy.html --csv busy.csv
    """
    from servsim import monitor
    from servsim.progress import expected_references, of_references

    counted = options.transactions(transactions)
    if plot is not None and plot.suffix not in (".svg", ".html"):
        raise UsageError(f"--plot {plot}: write it as .svg or .html")
    with Progress() as progress:
        expected = expected_references(trace, transactions=counted, warmup=warmup)
        found = monitor.watch(
            trace,
            machine,
            mode=mode,
            format=format,
            overrides=settings or [],
            placement=placement,
            transactions=counted,
            warmup=warmup,
            seed=seed,
            stage=lambda what: of_references(progress, what, expected),
        )
    warn(warning["text"] for warning in found["warnings"] if warning["rank"] == "invalid")
    for path, write in ((csv, monitor.csv), (arrow, monitor.arrow)):
        if path is not None:
            say(f"wrote {path}: {write(found, path):,} counters")
    if plot is not None:
        from servsim.monitor.plot import write as draw

        draw(found, plot)
        say(f"wrote {plot}")
    deliver(found, as_json, lambda: "\n".join(_text(found, top)), output)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _text(found: dict[str, Any], top: int) -> list[str]:
    """Return the passes, the data with most traffic, and the busiest lines."""
    from servsim.monitor.filters import size

    machine = found["machine"]
    kind = "transactions between nodes" if found["mode"] == "card" else "transactions, those inside nodes included"
    rows = [["granules", "filters", "counted", "of what was seen"]]
    for one in found["passes"]:
        part = _share(one["counted"], one["seen"])
        rows.append([size(one["granularity_bytes"]), str(len(one["filters"])), f"{one['counted']:,}", part])
    lines = [f"{found['trace']['name']} on {machine['name']}: {kind}, by the node that asks", "", *columns(rows)]
    nodes = sorted({node for row in found["data"] for node in row["by_node"]}, key=int)
    whole = sum(row["count"] for row in found["data"])
    if not whole:
        return [*lines, "", "no traffic was counted: all that the processors missed lay in their own nodes"]
    table = [["data", "count", "share", *(f"node {node}" for node in nodes)]]
    for row in found["data"][:top]:
        by_node = [f"{row['by_node'].get(node, 0):,}" for node in nodes]
        table.append([row["data"], f"{row['count']:,}", _share(row["count"], whole), *by_node])
    left = found["data"][top:]
    if left:
        table.append([f"{len(left):,} others", f"{sum(row['count'] for row in left):,}", "", *("" for _ in nodes)])
    finest = found["passes"][-1]
    head = f"busiest granules of {size(finest['granularity_bytes'])}"
    return [*lines, "", *columns(table), "", head, *_lines(finest, top)]


def _lines(finest: dict[str, Any], top: int) -> list[str]:
    histogram = finest["histogram"]
    granules: dict[str, tuple[str, dict[int, int]]] = {}
    for address, data, node, count in zip(
        *(histogram[name] for name in ("address", "data", "node", "count")), strict=True
    ):
        nodes = granules.setdefault(address, (data or "(unknown)", {}))[1]
        nodes[node] = nodes.get(node, 0) + count
    busiest = sorted(granules.items(), key=lambda item: (-sum(item[1][1].values()), item[0]))[: min(top, 10)]
    rows = [["address", "data", "count", "by node"]]
    for address, (data, nodes) in busiest:
        by_node = ", ".join(f"{node}: {nodes[node]:,}" for node in sorted(nodes))
        rows.append([address, data, f"{sum(nodes.values()):,}", by_node])
    return columns(rows, left=2)
