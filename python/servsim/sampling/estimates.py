"""What timed windows say of the whole: cycles for an instruction and for a transaction, and what no window tells.

Computed from the document of a sampled run alone (`servsim.sampling.runs`), so that other windows, or fewer, can be
tried on it afterwards.
"""

from dataclasses import dataclass
from math import ceil, hypot, log, sqrt
from typing import Any

from servsim import registry
from servsim.errors import UsageError
from servsim.result_warnings import ResultWarning
from servsim.statistics import sampling

#: Columns of what is known of every window: counts of the functional pass for an instruction.
KNOWN = ("misses", "memory_reads")
#: Times that processors spend on misses.
STALLS = ("memory_stall", "bus_wait")
#: A second half of windows that differs from the first by more than this, beyond chance, began too early.
UNSETTLED = 0.02

Known = dict[str, Any]


def estimate(known: Known) -> sampling.Sampled:
    """Estimate cycles for an instruction from the windows timed so far."""
    windows, points, all_of_it = known["windows"], known["points"], known["range"]
    measured = sum(window["instructions"] for window in windows)
    return sampling.estimate(
        [window["cycles"] / window["instructions"] for window in windows],
        [rates(points[window["point"]]) for window in windows],
        rates(all_of_it),
        measured / all_of_it["instructions"],
    )


def ends_of(known: Known) -> sampling.Ends:
    """Estimate instructions for a transaction."""
    return sampling.work_between(known["range"]["ends"], known["range"]["users"])


def rates(counted: Known) -> list[float]:
    """Return what the functional pass counted for an instruction."""
    return [counted["counts"][name] / max(1, counted["instructions"]) for name in KNOWN]


@dataclass(frozen=True)
class Unknown:
    """What windows may be wrong by however many there are, as shares of cycles for an instruction.

    Attributes
    ----------
    idle : float
        Share of the time that the windows' processors were idle: whom a disk or a lock keeps waiting at a live-point is
        decided by the first pass, which has no time, so idle time may be none or twice as much.
    misses : float
        Share of the time that windows spent on misses, as far as they had others than the first pass had over the same
        instructions: then the order in which tasks touch what they share decides how many there are.
    """

    idle: float
    misses: float

    @property
    def half_width(self) -> float:
        """Both, which may go the same way."""
        return self.idle + self.misses


def unknown_of(known: Known) -> Unknown:
    """Return what the windows timed so far may be wrong by together."""
    windows = known["windows"]
    total = max(1, sum(_time_of(window) for window in windows))
    stalls = sum(int(window[part]) for window in windows for part in STALLS)
    # Of what the pass counted, as many as the windows would have had at its rate.
    expected = sum(rates(known["points"][window["point"]])[0] * window["instructions"] for window in windows)
    had = sum(window["misses"] for window in windows)
    gap = abs(had - expected) / max(1.0, min(had, expected))
    return Unknown(sum(window["idle"] for window in windows) / total, min(1.0, gap) * stalls / total)


def refuse_unsuitable(known: Known, precision: float) -> None:
    """Refuse runs of which windows do not tell enough for the precision, however many there are.

    Raises
    ------
    UsageError
        With what is not known of them, and the remedy.
    """
    unknown, ends = unknown_of(known), ends_of(known).half_width
    # The windows need a part of the promise as well: half of the square of what is left.
    if precision - unknown.half_width >= sqrt(2) * ends and unknown.half_width < precision:
        return
    if unknown.idle >= unknown.misses:
        why = (
            f"its processors are idle for {100 * unknown.idle:.1f} % of the time, waiting for disks, for locks or for "
            "work, and how long they wait is not known in windows"
        )
    else:
        why = (
            "windows have other misses than the run without time that they begin from, since tasks share what they "
            f"write at once, which leaves {100 * unknown.misses:.1f} % of the time open"
        )
    least = 100 * (unknown.half_width + sqrt(2) * ends)
    remedy = f"ask for {ceil(least + 0.1)}% at best, or " if least < 49 else ""
    raise UsageError(
        f"this run cannot be sampled to ±{100 * precision:g} %: {why}; {remedy}simulate it in one piece, without "
        "--precision"
    )


def _time_of(window: Known) -> int:
    """Return the cycles of all processors in a window."""
    return sum(int(window[part]) for part in registry.processor_times())


def suspicions(windows: list[Known]) -> list[ResultWarning]:
    """Return what makes the windows doubtful."""
    gaps = []
    for window in windows:
        first = window["first_half"]
        rest = (window["cycles"] - first["cycles"]) / max(1, window["instructions"] - first["instructions"])
        gaps.append(log(max(1e-9, rest) / max(1e-9, first["cycles"] / max(1, first["instructions"]))))
    gap = sampling.estimate(gaps, [[] for _ in gaps], [], 0.0)
    found = []
    if abs(gap.mean) - gap.half_width > UNSETTLED:
        text = (
            f"the second half of windows takes {100 * gap.mean:+.1f} % (± {100 * gap.half_width:.1f}) of the first: "
            "they had not settled when their measurement began, so the interval may miss the full run"
        )
        found.append(ResultWarning("weak", "unsettled-windows", text))
    if cut := sum(window["cut_short"] for window in windows):
        found.append(ResultWarning("weak", "short-windows", f"the trace ended in {cut} of {len(windows)} windows"))
    return found


def half_of(known: Known) -> float:
    """Return half of the interval of cycles for a transaction, as a share of the mean."""
    found = estimate(known)
    return hypot(found.half_width / found.mean, ends_of(known).half_width) + unknown_of(known).half_width


def summary(document: Known) -> Known:
    """Return the estimates with their 95 % intervals, in the form of a result's summary."""
    found, ends = estimate(document), ends_of(document)
    of_windows = found.half_width / found.mean + unknown_of(document).half_width
    both = half_of(document)

    def entry(mean: float, half: float, unit: str) -> Known:
        return {"mean": mean, "interval_95": [mean * (1 - half), mean * (1 + half)], "n": found.n, "unit": unit}

    cycles = found.mean * ends.mean
    rate = 1e6 / cycles
    through = {
        "mean": rate,
        "interval_95": [rate / (1 + both), rate / max(1e-9, 1 - both)],
        "n": found.n,
        "unit": "transactions",
    }
    return {
        "cycles_per_transaction": entry(cycles, both, "cycles"),
        "transactions_per_million_cycles": through,
        "cycles_per_instruction": entry(found.mean, of_windows, "cycles"),
        "instructions_per_transaction": entry(ends.mean, ends.half_width, "instructions"),
    }


def reached(document: Known) -> Known:
    """Return how precise cycles per transaction are, and what the error is made of, as shares of the mean."""
    found, ends, unknown = estimate(document), ends_of(document), unknown_of(document)
    return {
        "half_width": half_of(document),
        "of_windows": found.half_width / found.mean,
        "of_ends": ends.half_width,
        "of_idle": unknown.idle,
        "of_misses": unknown.misses,
        "explained_by_misses": found.explained,
        "sampled_share": found.share,
    }


def cost(document: Known) -> Known:
    """Return what was timed, beside what the whole run would have timed, in references."""
    timed = sum(window["timed_references"] for window in document["windows"])
    options, all_of_it = document["options"], document["range"]
    part = (options["warmup"] + options["transactions"]) / options["transactions"]
    whole = round(all_of_it["counts"]["references"] * part)
    return {
        "timed_references": timed,
        "full_run_references": whole,
        "share_of_full_run": timed / whole,
        "functional_references": document["live_points"]["references"],
        "windows": len(document["windows"]),
        "live_points": len(document["points"]),
    }
