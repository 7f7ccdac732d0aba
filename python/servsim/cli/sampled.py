"""``servsim simulate --precision``: as much of a trace as the promise needs, and what it cost."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

from servsim.cli import numbers
from servsim.cli.printing import deliver
from servsim.cli.progress import Progress
from servsim.cli.terminal import warn
from servsim.cli.windows import in_trace
from servsim.errors import Interrupted, UsageError
from servsim.result_warnings import recorded
from servsim.text import columns


def refuse_beside(given: dict[str, object]) -> None:
    """Refuse options that a sampled run has no use for, by name."""
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise UsageError(
            f"--precision samples windows of one trace until they are enough: leave out {', '.join(wrong)}, or "
            "simulate the whole trace without --precision"
        )


def run(trace: Path, machine: str, precision: str, output: Path | None, as_json: bool, **options: Any) -> None:
    """Sample, say what it costs before and after, and show the result."""
    numbers.load("numpy", "scipy.special")
    from servsim.sampling import precision_of, sample

    share = precision_of(precision)
    stopped: Interrupted | None = None
    try:
        with Progress() as progress:
            result = sample(trace, machine, share, progress=progress, say=progress.note, **options)
    except Interrupted as stop:
        stopped, result = stop, stop.result
    warn(recorded(result))
    print(f"servsim: {_cost(result)}", file=sys.stderr)
    deliver(result, as_json, None if output else partial(_table, result), output)
    if stopped is not None:
        raise stopped


def _cost(result: dict[str, Any]) -> str:
    """Return what was timed, and what the live-points took or saved."""
    cost, points = result["cost"], result["live_points"]
    timed = cost["timed_references"] / 1e6
    told = f"timed {timed:,.1f} M references, {100 * cost['share_of_full_run']:.1f} % of a full run"
    if not points["made"]:
        return f"{told}; live-points of {points['file']}"
    return (
        f"{told}; {cost['functional_references'] / 1e6:,.0f} M went through the caches alone, once for all machines of "
        f"this shape, to make {points['file']} ({points['bytes'] / 1e6:,.0f} MB)"
    )


def _table(result: dict[str, Any]) -> str:
    """Return the estimates for people."""
    machine, window, known = result["machine"], result["options"]["window"], result["precision"]
    lines = [
        f"{machine['name']}: {machine['processors']} processors, {machine['cache']['size']} caches, "
        f"{machine['cache']['line']} lines, {machine['protocol']['name']}, {result['engine']} engine, sampled",
        f"sampled: {in_trace(window)}, {result['cost']['windows']} of {result['cost']['live_points']} windows",
        f"intervals: for the run of all of them, on this capture; ± {100 * known['of_windows']:.2f} % by the choice "
        f"of windows, ± {100 * known['of_order']:.2f} % by the order of tasks,",
        f"  in which single runs differ, ± {100 * known['of_model']:.2f} % by what misses cost beside the windows, and "
        f"± {100 * known['of_misses']:.2f} % by misses that windows do not tell",
        "",
    ]
    rows = []
    for name, entry in result["summary"].items():
        low, high = entry["interval_95"]
        half = (high - low) / 2
        digits = 0 if half >= 10 else 4
        rows.append([name, f"{entry['mean']:,.{digits}f} ± {half:,.{digits}f} (95 %)", entry["unit"]])
    return "\n".join([*lines, *columns(rows, left=3)])
