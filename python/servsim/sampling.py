"""Sampled simulation: as many windows of a trace as a promised precision needs, instead of the whole trace.

The simulator times windows from live-points, which one functional pass leaves in a file (`servsim._core.sample`); here
is decided which, how many, what they say of the whole, and whether a run can be sampled at all.
"""

import json
from collections.abc import Callable
from math import ceil, hypot, log, sqrt
from pathlib import Path
from typing import Any

from servsim import _core, registry
from servsim.cache import folder
from servsim.errors import Interrupted, UsageError
from servsim.result_warnings import ResultWarning, put, recorded
from servsim.simulation import file_hash, machine_text
from servsim.statistics import sampling
from servsim.text import share

#: Name of the format of the result.
SCHEMA = "servsim.sample/1"
#: What every sampled result says of its interval, until it was held to enough full runs of captured traces.
UNTESTED = ResultWarning(
    "weak",
    "coverage-untested",
    "the interval of sampled windows was tested on made-up studies, and on a handful of captured ones only: compare it "
    "once with a run without --precision before you rely on it",
)
#: Columns of what is known of every window: counts of the functional pass for an instruction.
KNOWN = ("misses", "memory_reads")
#: Processors that are idle for more than this share wait for something longer than a window.
IDLE = 0.25
#: A second half of windows that differs from the first by more than this, beyond chance, began too early.
UNSETTLED = 0.02
#: Least precision that is promised: functional warming alone is not closer.
LEAST = 0.005

Known = dict[str, Any]


def precision_of(text: str) -> float:
    """Return the share that a precision such as ``2%`` or ``0.02`` stands for.

    Raises
    ------
    UsageError
        When it is no number between `LEAST` and one half.
    """
    wanted = share(text)
    if not LEAST <= wanted <= 0.5:
        raise UsageError(
            f"--precision {text}: give a share of the mean from {100 * LEAST:g}% to 50%, for example 2%; the state "
            "that windows begin with is not exact enough for less"
        )
    return wanted


def sample(
    trace: str | Path,
    machine: str | Path,
    precision: float,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    transactions: int | str | None = None,
    warmup: int | None = None,
    users: int | None = None,
    seed: int = 1,
    threads: int | None = None,
    live_points: str | Path | None = None,
    choice: str = "phases",
    all_windows: bool = False,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time windows of a trace until cycles per transaction are known as precisely as asked.

    Parameters
    ----------
    trace, machine, format, overrides, transactions, warmup, users, seed, threads, progress
        As for `servsim.simulate`; the windows are taken from the transactions that it would measure.
    precision
        Half of the 95 % interval, as a share of the mean, for example 0.02.
    live_points
        File of the live-points; made if there is none. Without it one in the cache.
    choice
        Order of the windows: see `servsim.statistics.sampling.order`.
    all_windows
        Time every window there is, whatever the precision: what any choice of them would have told follows.
    say
        Called with a sentence on what will be simulated, once the first windows have told.

    Returns
    -------
    dict
        Schema ``servsim.sample/1``; ``summary`` holds the estimates with their intervals, ``cost`` what they took.

    Raises
    ------
    UsageError
        As `servsim.simulate`; also when the trace is too short for the precision or cannot be sampled.
    Interrupted
        When it was interrupted after windows enough for an interval; it holds the result by then.

    Examples
    --------
    >>> sample("oltp.svt", "foglia-2004-4p", 0.02)  # doctest: +SKIP
    """
    path = Path(trace)
    if not path.exists():
        raise UsageError(f"there is no trace {str(trace)!r}")
    plan = _Plan(precision, seed, choice, say, all_windows)
    text = _core.sample(
        path,
        machine_text(machine),
        plan.choose,
        Path(live_points) if live_points is not None else folder("live-points"),
        is_folder=live_points is None,
        machine_file=str(machine),
        trace_hash=file_hash(path),
        format=format,
        overrides=overrides or [],
        transactions=transactions,
        warmup=warmup,
        users=users,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    document: Known = json.loads(text)
    windows = document["windows"]
    if len(windows) < 3:
        raise KeyboardInterrupt
    document["options"] |= {"precision": precision, "choice": choice}
    document["summary"] = summary(document)
    document["precision"] = reached(document)
    document["cost"] = cost(document)
    doubts = [UNTESTED, *_suspicions(windows)]
    users = document["range"]["users"]
    if warmup is not None and warmup < users:
        text = (
            f"a warm-up of {warmup} transactions for {users} users: some may not have ended their first one before the "
            "measurement, which makes work that is measured unlike work that is not; give one for each user at least"
        )
        doubts.append(ResultWarning("weak", "short-warm-up", text))
    put(document, [*recorded(document), *doubts])
    if document.get("interrupted"):
        text = f"interrupted: {len(windows)} windows had ended, of {plan.wanted} that the precision asked for"
        put(document, [*recorded(document), ResultWarning("weak", "interrupted", text)])
        raise Interrupted(document)
    return document


class _Plan:
    """Which windows are timed next: a first stage, then as many as it says, then none."""

    def __init__(
        self, precision: float, seed: int, choice: str, say: Callable[[str], None] | None, all_windows: bool
    ) -> None:
        self.precision, self.seed, self.choice, self.say = precision, seed, choice, say
        self.all_windows = all_windows
        self.wanted = sampling.FIRST_STAGE

    def choose(self, text: str) -> list[int]:
        """Return the numbers of the windows to time next, given what is known."""
        known: Known = json.loads(text)
        count, done = len(known["points"]), len(known["windows"])
        if done == 0 and count < sampling.FIRST_STAGE:
            self._refuse(known, sampling.FIRST_STAGE, "a first look takes")
        if done == 0:
            self._refuse_few_ends(known)
            return self._order(count)[: count if self.all_windows else self.wanted]
        if self.all_windows:
            refuse_unsuitable(known["windows"])
            return []
        if done > sampling.FIRST_STAGE or self.wanted > sampling.FIRST_STAGE:
            return []
        refuse_unsuitable(known["windows"])
        first = estimate(known)
        # Both errors are independent; what the ends of transactions leave of the promise is the windows'.
        left = self.precision**2 - ends_of(known).half_width ** 2
        self.wanted = sampling.windows_for(first, sqrt(left))
        if self.wanted > count:
            self._refuse(known, self.wanted, f"±{100 * self.precision:g} % takes")
        if self.say is not None:
            reached = 100 * hypot(first.half_width / first.mean, ends_of(known).half_width)
            self.say(f"{done} windows give ±{reached:.1f} %; {self.wanted} of {count} are needed in all")
        return self._order(count)[done : self.wanted]

    def _order(self, count: int) -> list[int]:
        return sampling.order(count, self.seed, self.choice)

    def _refuse_few_ends(self, known: Known) -> None:
        """Refuse what no number of windows can give: too few transactions end in the trace for the precision."""
        there, half = known["range"]["transactions"], ends_of(known).half_width
        # The windows need a part of the promise as well: half of its square.
        allowed = self.precision / sqrt(2)
        if half > allowed:
            missing = ceil(there * (half / allowed - 1))
            raise UsageError(
                f"--precision {100 * self.precision:g}% is out of reach: of the {there} transactions to measure, those "
                f"that {known['range']['users']} users are in the middle of at the first and last end leave ±"
                f"{100 * half:.1f} % open; {missing} more are missing (twice as many in a trace, of which the middle "
                "half is measured); capture a longer trace or ask for less precision"
            )

    def _refuse(self, known: Known, wanted: int, why: str) -> None:
        """Say how many transactions are missing."""
        count, there = len(known["points"]), known["range"]["transactions"]
        missing = -(-there * (wanted - count) // max(1, count))
        raise UsageError(
            f"{why} {wanted} windows, and the {there} transactions to measure hold {count}: {missing} more are missing "
            "(twice as many in a trace, of which the middle half is measured); capture a longer trace, ask for less "
            "precision, or simulate all of it without --precision"
        )


def estimate(known: Known) -> sampling.Sampled:
    """Estimate cycles for an instruction from the windows timed so far."""
    windows, points, all_of_it = known["windows"], known["points"], known["range"]
    measured = sum(window["instructions"] for window in windows)
    return sampling.estimate(
        [window["cycles"] / window["instructions"] for window in windows],
        [_rates(points[window["point"]]) for window in windows],
        _rates(all_of_it),
        measured / all_of_it["instructions"],
    )


def ends_of(known: Known) -> sampling.Ends:
    """Estimate instructions for a transaction."""
    return sampling.work_between(known["range"]["ends"], known["range"]["users"])


def _rates(counted: Known) -> list[float]:
    """Return what the functional pass counted for an instruction."""
    return [counted["counts"][name] / max(1, counted["instructions"]) for name in KNOWN]


def refuse_unsuitable(windows: list[Known]) -> None:
    """Refuse runs of which a window says nothing, because they wait for longer than a window lasts.

    Raises
    ------
    UsageError
        With what the processors do instead, and the remedy.
    """
    total = sum(_time_of(window) for window in windows)
    idle = sum(window["idle"] for window in windows) / max(1, total)
    if idle > IDLE:
        raise UsageError(
            f"this run cannot be sampled: its processors are idle for {100 * idle:.0f} % of the time, waiting for "
            "disks, for locks held across windows or for work, which lasts longer than a window; simulate it in one "
            "piece, without --precision"
        )


def _time_of(window: Known) -> int:
    """Return the cycles of all processors in a window."""
    return sum(int(window[part]) for part in registry.processor_times())


def _suspicions(windows: list[Known]) -> list[ResultWarning]:
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


def summary(document: Known) -> Known:
    """Return the estimates with their 95 % intervals, in the form of a result's summary."""
    found, ends = estimate(document), ends_of(document)
    of_windows = found.half_width / found.mean
    both = hypot(of_windows, ends.half_width)

    def entry(mean: float, half: float, unit: str) -> Known:
        return {"mean": mean, "interval_95": [mean * (1 - half), mean * (1 + half)], "n": found.n, "unit": unit}

    cycles = found.mean * ends.mean
    rate = 1e6 / cycles
    through = {
        "mean": rate,
        "interval_95": [rate / (1 + both), rate / (1 - both)],
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
    found, ends = estimate(document), ends_of(document)
    of_windows = found.half_width / found.mean
    return {
        "half_width": hypot(of_windows, ends.half_width),
        "of_windows": of_windows,
        "of_ends": ends.half_width,
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
