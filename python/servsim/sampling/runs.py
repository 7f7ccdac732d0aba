"""Sampled simulation: as many windows of a trace as a promised precision needs, instead of the whole trace.

The simulator times windows from live-points, which one functional pass leaves in a file (`servsim._core.sample`); here
is decided which and how many, and whether a run can be sampled at all. What they say of the whole is in
`servsim.sampling.estimates`.
"""

import json
from collections.abc import Callable
from math import ceil, hypot, sqrt
from pathlib import Path

from servsim import _core
from servsim.cache import folder
from servsim.errors import Interrupted, UsageError
from servsim.hashes import file_hash
from servsim.machines import machine_text
from servsim.progress import Show, held_by
from servsim.result_warnings import ResultWarning, put, recorded
from servsim.run_options import refuse_impossible
from servsim.sampling.coarse import CoarseRun, Known, coarse_runs, order_of
from servsim.sampling.estimates import (
    are_missing,
    cost,
    estimate,
    half_of,
    model_of,
    out_of_work,
    reached,
    refuse_unsuitable,
    summary,
    suspicions,
    unknown_of,
)
from servsim.sampling.stages import HASH, Prospect, Stages, Told
from servsim.simulation import findings_folder
from servsim.statistics import sampling
from servsim.text import share
from servsim.trace.files import trace_file

#: Name of the format of the result.
SCHEMA = "servsim.sample/1"
#: What every sampled result says of its interval: on which traces it was held to full runs.
UNTESTED = ResultWarning(
    "note",
    "coverage-tested-on-few",
    "the interval was held to full runs of captures of Redis, a Java server and OLTP on one to four processors, and "
    "covered 96 % of 620, and of Redis with slow memory all 210 of a later round; of another workload compare once "
    "with a run without --precision before you rely on it (docs/sampling.md)",
)
#: Fewest windows that say anything: an interval needs a spread.
LEAST_WINDOWS = 3
#: Windows to time next, by number, and coarse runs to make then.
Wish = tuple[list[int], list[CoarseRun]]
#: Least precision that is promised: functional warming alone is not closer.
LEAST = 0.005


def precision_of(text: str, option: str = "--precision") -> float:
    """Return the share that a precision such as ``2%`` or ``0.02`` stands for.

    Raises
    ------
    UsageError
        When it is no number between `LEAST` and one half.
    """
    wanted = share(text)
    if not LEAST <= wanted <= 0.5:
        raise UsageError(
            f"{option} {text}: give a share of the mean from {100 * LEAST:g}% to 50%, for example 2%; the state "
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
    progress: Show | None = None,
    say: Callable[[str], None] | None = None,
) -> Known:
    """Time windows of a trace until cycles per transaction are known as precisely as asked.

    Parameters
    ----------
    trace, machine, format, overrides, transactions, warmup, users, seed, threads
        As for `servsim.simulate`; the windows are taken from the transactions that it would measure.
    precision
        Half of the 95 % interval, as a share of the mean, for example 0.02.
    live_points
        File of the live-points; made if there is none. Without it one in the cache.
    choice
        Order of the windows: see `servsim.statistics.sampling.order`.
    all_windows
        Time every window there is, whatever the precision: what any choice of them would have told follows.
    progress
        Takes what is being done and the share done of all of it.
    say
        Called with a sentence on what it is going to cost, before anything is simulated, and with one on how many
        windows are needed, once the first have told.

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
    stages = Stages(progress, path) if progress is not None and path.exists() else None
    plan = _Plan(precision, seed, choice, say, all_windows, path, stages)
    document = timed(
        trace,
        machine,
        plan.choose,
        format=format,
        overrides=overrides,
        transactions=transactions,
        warmup=warmup,
        users=users,
        seed=seed,
        threads=threads,
        live_points=live_points,
        told=stages,
    )
    windows = document["windows"]
    if len(windows) < LEAST_WINDOWS or not document["coarse"]:
        raise KeyboardInterrupt
    document["options"] |= {"precision": precision, "choice": choice}
    document["summary"] = summary(document)
    document["precision"] = reached(document)
    document["cost"] = cost(document)
    doubts = [UNTESTED, *out_of_work(document), *suspicions(windows)]
    users = document["range"]["users"]
    if warmup is not None and warmup < users:
        text = (
            f"a warm-up of {warmup} transactions for {users} users: some may not have ended their first one before the "
            "measurement, which makes work that is measured unlike work that is not; give one for each user at least"
        )
        doubts.append(ResultWarning("weak", "short-warm-up", text))
    put(document, [*recorded(document), *doubts])
    if document.get("interrupted"):
        put(document, [*recorded(document), ResultWarning("weak", "interrupted", plan.interrupted(document))])
        raise Interrupted(document)
    return document


def timed(
    trace: str | Path,
    machine: str | Path,
    choose: Callable[[str], Wish],
    *,
    trace_hash: str | None = None,
    format: str | None = None,
    overrides: list[str] | None = None,
    transactions: int | str | None = None,
    warmup: int | None = None,
    users: int | None = None,
    seed: int = 1,
    threads: int | None = None,
    live_points: str | Path | None = None,
    told: Told | None = None,
) -> Known:
    """Do what ``choose`` wishes, which is given what is known so far as JSON, until it wishes nothing.

    Parameters
    ----------
    choose
        Where live-points have to be made it is asked before that as well, with a range of which nothing is counted and
        without ``points``.
    trace_hash
        Hash of the trace, where it is known already.
    told
        Takes how far each stage is.

    Raises
    ------
    UsageError
        When the trace cannot be read or its windows not be timed, and whatever ``choose`` raises.
    """
    path = trace_file(trace)
    refuse_impossible(
        {"transactions": transactions, "warmup": warmup, "users": users, "seed": seed, "threads": threads}
    )
    if live_points is not None and Path(live_points).is_dir():
        raise UsageError(f"--live-points {live_points} is a folder: name a file in it")
    text = _core.sample(
        path,
        machine_text(machine),
        choose,
        Path(live_points) if live_points is not None else folder("live-points"),
        is_folder=live_points is None,
        machine_file=str(machine),
        trace_hash=trace_hash or file_hash(path, told and (lambda done, of: told(HASH, done, of))),
        findings=findings_folder(),
        format=format,
        overrides=overrides or [],
        transactions=transactions,
        warmup=warmup,
        users=users,
        seed=seed,
        threads=threads,
        progress=told,
    )
    document: Known = json.loads(text)
    return document


def refuse_short(known: Known, wanted: int, why: str) -> None:
    """Say how many transactions are missing for ``wanted`` windows."""
    count, there = len(known["points"]), known["range"]["transactions"]
    missing = -(-there * (wanted - count) // max(1, count))
    raise UsageError(
        f"{why} {wanted} windows, and the {there} transactions to measure hold {count}: {are_missing(missing)} "
        "(twice as many in a trace, of which the middle half is measured); capture a longer trace, ask for less "
        "precision, or simulate all of it without --precision"
    )


def refuse_sparse(known: Known, wanted: int, precision: float) -> None:
    """Refuse a precision that takes more windows than there are live-points, where a longer trace has no more."""
    count, found, unknown = len(known["points"]), estimate(known), unknown_of(known).half_width
    each = found.share / found.n
    with_all = found.half_width / found.mean * sqrt(max(0.0, 1 / count - each) / (1 / found.n - each))
    best = hypot(with_all, order_of(known), model_of(known)) + unknown
    raise UsageError(
        f"±{100 * precision:g} % takes {wanted} windows, and a trace has live-points for about {count}, however long: "
        f"ask for {ceil(1000 * best + 0.5) / 10:g}% at best, or simulate all of it without --precision"
    )


class _Plan:
    """Which windows are timed next: a look, the first stage if that is not enough, as many as it says, then none."""

    def __init__(
        self,
        precision: float,
        seed: int,
        choice: str,
        say: Callable[[str], None] | None,
        all_windows: bool,
        trace: Path | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.precision, self.seed, self.choice, self.say = precision, seed, choice, say
        self.all_windows, self.trace, self.stages = all_windows, trace, stages
        self.wanted, self._told_cost = sampling.FIRST_LOOK, False

    def choose(self, text: str) -> Wish:
        """Return what is to be done next, given what is known."""
        known: Known = json.loads(text)
        self._tell_cost(known)
        return self._wish(known) if "points" in known else ([], [])

    def _wish(self, known: Known) -> Wish:
        """Return the windows and coarse runs to make next."""
        count, done = len(known["points"]), len(known["windows"])
        if done == 0 and count < sampling.FIRST_STAGE:
            refuse_short(known, sampling.FIRST_STAGE, "a first look takes")
        if done == 0:
            return self._order(count)[: count if self.all_windows else self.wanted], []
        if done < LEAST_WINDOWS:
            return [], []
        if coarse := coarse_runs(known, self.seed, 0.0 if self.all_windows else self.precision):
            return [], coarse
        if self.all_windows or done > sampling.FIRST_STAGE or self.wanted > sampling.FIRST_STAGE:
            return [], []
        if done < sampling.FIRST_STAGE:
            return self._after_look(known)
        refuse_unsuitable(known, self.precision)
        self.wanted = sampling.windows_for(estimate(known), self._for_windows(known))
        window, room = known["range"]["window"], known["range"]["spacing"]
        if self.wanted > count and room > 2 * (window["warmup"] + window["measured"]):
            refuse_sparse(known, self.wanted, self.precision)
        if self.wanted > count:
            refuse_short(known, self.wanted, f"±{100 * self.precision:g} % takes")
        self._tell(known, self.wanted)
        return self._order(count)[done : self.wanted], []

    def _after_look(self, known: Known) -> Wish:
        """Return the rest of the first stage, unless the look before it tells enough."""
        done, found = len(known["windows"]), estimate(known)
        if found.half_width / found.mean < sampling.LOOK_PART * self._for_windows(known):
            self._tell(known, done)
            return [], []
        self.wanted = sampling.FIRST_STAGE
        return self._order(len(known["points"]))[done : self.wanted], []

    def _for_windows(self, known: Known) -> float:
        """Return what the order and what no window tells leave of the promise: choice and order are independent."""
        room = max(0.0, self.precision - unknown_of(known).half_width)
        return sqrt(max(0.0, room**2 - order_of(known) ** 2 - model_of(known) ** 2))

    def interrupted(self, known: Known) -> str:
        """Say what is known of a run that was interrupted, and how many windows its precision would take."""
        done, there = len(known["windows"]), len(known["points"])
        text = f"interrupted: {done} windows had ended, which give ±{100 * half_of(known):.1f} %; "
        room, found = self._for_windows(known), estimate(known)
        close = found.half_width / found.mean < sampling.LOOK_PART * room
        if self.all_windows:
            return f"{text}all {there} were asked for"
        if not room:
            return f"{text}by now what no window tells leaves no room for ±{100 * self.precision:g} %"
        needed = sampling.FIRST_LOOK if close else max(sampling.FIRST_STAGE, sampling.windows_for(found, room))
        if needed <= done:
            return f"{text}they are enough for ±{100 * self.precision:g} %"
        of = f" (the trace has {there})" if needed > there else f" of {there}"
        return f"{text}about {needed}{of} would be needed for ±{100 * self.precision:g} %"

    def _tell_cost(self, known: Known) -> None:
        """Say once what the run is going to cost."""
        if self._told_cost or self.trace is None:
            return
        self._told_cost = True
        prospect = Prospect.of(held_by(self.trace), known)
        if prospect is None:
            return
        if self.stages is not None:
            self.stages.expect(prospect)
        if self.say is not None:
            self.say(prospect.sentence(self.precision, made="points" in known))

    def _tell(self, known: Known, wanted: int) -> None:
        """Say how many windows are needed, and what those that were timed give."""
        if self.say is not None:
            done, count, reached = len(known["windows"]), len(known["points"]), 100 * half_of(known)
            each = sum(window["timed_references"] for window in known["windows"]) / done
            self.say(
                f"{done} windows give ±{reached:.1f} %; {wanted} of {count} are needed in all, "
                f"{wanted * each / 1e6:,.1f} M references"
            )

    def _order(self, count: int) -> list[int]:
        return sampling.order(count, self.seed, self.choice)
