"""``servsim variability``: how much runs differ by seed, part of the trace, capture, and over time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.cli import options
from servsim.cli.options import Settings
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.text import columns

if TYPE_CHECKING:
    from servsim.statistics.intervals import Estimate
    from servsim.statistics.nested import Spread
    from servsim.variability import Variability


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("variability")(variability)


def variability(
    traces: Annotated[list[Path], typer.Argument(help="One capture or several.", metavar="TRACE...")],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description: file or shipped name.")],
    transactions: Annotated[int, typer.Option(min=1, help="Transactions of each run.")],
    parts: Annotated[int, typer.Option(min=1, help="Disjoint parts of each trace.")] = 1,
    warmup: Annotated[int, typer.Option("--warm-up", min=0, help="Transactions before the first part.")] = 0,
    replications: Annotated[int, typer.Option(min=0, max=100_000, help="Seeds of each part.")] = 10,
    seed: Annotated[int, typer.Option(min=0, callback=options.seed, help="Seed of the first run.")] = 1,
    settings: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.variability/1.")] = False,
) -> None:
    """Tell apart what makes short runs differ (Alameldeen et al. 2003, Figures 2 and 3).

    Several captures (`servsim capture --captures N`) also give the mean over captures, with the interval
    that holds for another capture of the same configuration.

    Example: servsim variability a.svt b.svt -m foglia-2004-8p --transactions 20 --parts 4 --warm-up 20
    """
    from servsim.variability import variability as measure

    with Progress() as progress:
        found = measure(
            traces,
            machine,
            transactions=transactions,
            parts=parts,
            warmup=warmup,
            replications=replications,
            seed=seed,
            overrides=settings or (),
            say=progress,
        )
    deliver(found.to_dict(), as_json, lambda: _text(found))


def _text(found: "Variability") -> str:
    means = []
    for cell in found.cells:
        known = cell.known
        assert known.half_width is not None and known.sd is not None
        where = f"{Path(cell.trace).name}, {cell.transactions} after {cell.warmup}"
        means.append([where, *_known(known), f"sd {100 * known.sd / known.mean:.2f} %"])
    over = found.over_captures
    if over is not None and over.half_width is not None:
        means.append([f"over {over.n} captures", *_known(over), ""])
    sources = [
        [what, *_ends(spread)]
        for what, spread in (
            ("seeds (random memory delays)", found.seeds),
            ("parts of the trace, beyond seeds", found.parts),
            ("captures, beyond seeds and parts", found.captures),
        )
    ]
    lines = ["cycles per transaction, by part of the trace (mean, 95 % interval)", *_indented(means)]
    lines += ["", "standard deviation in % of the mean, by source (95 % interval)", *_indented(sources)]
    if found.over_time:
        rows = [["cycles", "variation, %", "autocorrelation", "intervals"]]
        for row in found.over_time:
            rows.append([f"{row.cycles:,}", f"{row.variation:.1f}", f"{row.autocorrelation:.2f}", str(row.intervals)])
        lines += ["", "work within a run, by length of the interval (time variability)", *_indented(rows, left=0)]
    return "\n".join(lines)


def _known(known: "Estimate") -> list[str]:
    return [f"{known.mean:,.0f}", f"± {known.half_width:,.0f}", f"n = {known.n}"]


def _ends(spread: "Spread | None") -> list[str]:
    if spread is None:
        return ["one only", ""]
    low, high = spread.interval_95
    return [f"{spread.percent:.2f}", f"{low:.2f} to {high:.2f}"]


def _indented(rows: list[list[str]], left: int = 1) -> list[str]:
    return [f"  {line}" for line in columns(rows, left=left)]
