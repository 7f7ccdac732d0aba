"""``servsim compare --sampled``: designs on common windows of a trace, in words and as JSON."""

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.cli import numbers
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import warn
from servsim.cli.windows import in_trace
from servsim.errors import CheckFailed, Interrupted, UsageError
from servsim.result_warnings import recorded
from servsim.text import columns

if TYPE_CHECKING:
    from servsim.comparison.designs import Machine


def refuse_beside(given: Collection[str]) -> None:
    """Refuse options that a comparison on common windows has no use for, by name."""
    if given:
        raise UsageError(
            f"--sampled compares machines on windows of one trace, by cycles per transaction: leave out "
            f"{', '.join(sorted(given))}, or compare runs, without --sampled"
        )


def run(
    trace: Path, machines: Sequence["Machine"], precision: str, *, as_json: bool, require_ranking: bool, **options: Any
) -> None:
    """Compare, say what it costs before and after, and show what is proven."""
    numbers.load("numpy", "scipy.stats")
    from servsim.comparison.windows import Asked, compare_windows
    from servsim.sampling import precision_of

    asked = Asked(trace, precision_of(precision, "--sampled"), **options)
    stopped: Interrupted | None = None
    try:
        with Progress() as progress:
            result = compare_windows(machines, asked, progress=progress, say=progress.note)
    except Interrupted as stop:
        stopped, result = stop, stop.result
    warn(recorded(result))
    print(f"servsim: {_cost(result)}", file=sys.stderr)
    deliver(result, as_json, lambda: render(result))
    if stopped is not None:
        raise stopped
    if require_ranking and not result["ranked"]:
        raise CheckFailed("some designs cannot be ranked; the reasons are above")


def _cost(result: dict[str, Any]) -> str:
    """Return what was timed, beside full runs and beside each design alone, and what live-points took."""
    costs = [design["cost"] for design in result["designs"]]
    timed = sum(cost["timed_references"] for cost in costs)
    full = sum(cost["full_run_references"] for cost in costs)
    passed = sum(cost["functional_references"] for cost in costs)
    alone = [design["windows_alone"] for design in result["designs"]]
    text = (
        f"timed {timed / 1e6:,.1f} M references, {100 * timed / full:.1f} % of one full run of each; "
        f"{result['common_windows']['timed']} windows of each, where each design alone would need "
        f"{' and '.join(f'{count:,}' for count in alone)} to be known as precisely"
    )
    return f"{text}; {passed / 1e6:,.0f} M went through the caches alone" if passed else text


def render(result: dict[str, Any]) -> str:
    """Return the comparison for people."""
    designs = {design["name"]: design for design in result["designs"]}
    window, common = result["options"]["window"], result["common_windows"]
    lines = [
        _answer(result),
        "",
        f"sampled: {in_trace(window)}, "
        f"{common['timed']} of {common['there']} windows, at the same places for all designs"
        + (" and from the same live-points" if common["same_live_points"] else ""),
        "",
        "cycles per transaction (mean, 95 % interval of it alone)",
    ]
    rows = []
    for place in result["ranking"]:
        entry = designs[place["design"]]["summary"]["cycles_per_transaction"]
        low, high = entry["interval_95"]
        rank = f"{place['best']}" if place["best"] == place["worst"] else f"{place['best']}-{place['worst']}"
        rows.append([rank, place["design"], f"{entry['mean']:,.0f} ± {(high - low) / 2:,.0f}"])
    lines += columns(rows, left=2)
    for pair in result["pairs"]:
        ratio = pair["ratio"]
        low, high = ratio["interval_95"]
        of = {part: f"± {100 * ratio[f'of_{part}']:.2f} %" for part in ("windows", "order", "misses")}
        lines += [
            "",
            f"{pair['a']} takes {ratio['mean']:.4f} of the cycles of {pair['b']} "
            f"({100 * (ratio['mean'] - 1):+.2f} %), 95 % interval {low:.4f} to {high:.4f}, "
            f"p = {ratio['p_adjusted']:.2g}",
            f"  {of['windows']} by the choice of windows, {of['order']} by the order of tasks, in which single "
            f"runs differ, {of['misses']} by misses",
            f"  {pair['better'] + ' is better' if pair['better'] else 'not ranked'}: {pair['reason']}",
        ]
    return "\n".join(
        [*lines, "", "Intervals hold for full runs of these transactions of this capture; another capture may differ."]
    )


def _answer(result: dict[str, Any]) -> str:
    """Return the verdict in one sentence."""
    order = [place["design"] for place in result["ranking"]]
    if result["ranked"]:
        return f"{order[0]} is better: it needs fewer cycles for a transaction than {' and '.join(order[1:])}."
    open_pairs = [pair for pair in result["pairs"] if pair["better"] is None]
    if len(result["pairs"]) == 1:
        return f"{order[0]} and {order[1]} cannot be ranked: {open_pairs[0]['reason']}."
    return f"{len(open_pairs)} of {len(result['pairs'])} pairs of designs cannot be ranked."
