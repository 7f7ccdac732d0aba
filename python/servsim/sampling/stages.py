"""How far a sampled run is, over all of its stages, and what it will cost: estimates for people, in no result."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servsim.progress import Held, Show, held_by
from servsim.sampling.coarse import FEW_CHANGED, FEW_RUNS, Known
from servsim.statistics.sampling import FIRST_LOOK, FIRST_STAGE

#: Takes a stage by name, and how much of it is done out of how much, in units of its own; zero where it is not known.
Told = Callable[[str, int, int], None]

HASH, FIRST_PASS, LIVE_POINTS, WINDOWS, COARSE = "hash", "first pass", "live-points", "windows", "coarse runs"
#: Coarse runs that are made although somebody asked to stop: without them windows tell nothing.
LAST_COARSE = "coarse runs of what was sampled"
#: What the stages are called where they are shown.
SHOWN = {
    HASH: "hashing the trace",
    FIRST_PASS: "reading the trace for the first time",
    LIVE_POINTS: "making live-points",
    WINDOWS: "timing windows",
    COARSE: "coarse runs",
    LAST_COARSE: "coarse runs of what was sampled (Ctrl-C again drops it)",
}
#: Time of a byte that is hashed, of a reference in the pass that makes live-points, of one in windows, and of coarse
#: runs for each reference of the range, beside one of the first pass: by captures of Redis and OLTP, on two cores.
TIMES = {HASH: 0.1, LIVE_POINTS: 3.0, WINDOWS: 25.0, COARSE: 0.3}

#: How likely it is taken that the first look is not enough.
MORE = 0.5


@dataclass(frozen=True)
class Prospect:
    """What a sampled run will take in references, by what a trace says of itself.

    Attributes
    ----------
    passed : float
        References until the last transaction to measure ends: of the pass that makes live-points, and of a full run.
    window : float
        Those of a window.
    """

    passed: float
    window: float

    @classmethod
    def of(cls, held: Held, known: Known) -> "Prospect | None":
        """Return what follows of what is known (`servsim._core.sample`), or None where the trace does not say."""
        if not held.transactions or not held.instructions:
            return None
        each, range_ = held.references / held.transactions, known["range"]
        # When the last measured transaction ends, every other user is somewhere in one of its own.
        passed = min(held.references, each * (known["warmup"] + range_["transactions"] + range_["users"] / 2))
        work = range_["window"]
        window = (work["warmup"] + work["measured"]) * held.references / held.instructions
        return cls(passed, window)

    def sentence(self, precision: float, made: bool) -> str:
        """Say what a run costs, before it does; ``made`` if its live-points are there."""
        timed = [f"{count * self.window / 1e6:,.1f} M" for count in (FIRST_LOOK, FIRST_STAGE)]
        shares = [f"{100 * count * self.window / self.passed:.1f} %" for count in (FIRST_LOOK, FIRST_STAGE)]
        first = (
            "live-points are there; "
            if made
            else f"about {self.passed / 1e6:,.0f} M references go through the caches alone to make live-points, once "
            "for all machines of this shape; then "
        )
        return (
            f"cost: {first}{timed[0]} are timed in {FIRST_LOOK} windows, {shares[0]} of a full run, or {timed[1]} in "
            f"{FIRST_STAGE}, {shares[1]}, and more if these do not give ±{100 * precision:g} %; beside them "
            f"{FEW_RUNS + FEW_CHANGED} coarse runs or more, each a hundredth of a full run's time"
        )


class Stages:
    """Shows the share done of one sampled run, or of several designs one after another; it never falls.

    How many windows are needed is known only when some were timed, so the share of what is under way is one of what is
    left. It ends before the share is one where the first look is enough.

    Parameters
    ----------
    show
        Takes what is being done and the share done of all of it.
    trace
        The trace.
    share
        About which share of it is measured or lies before.
    designs
        How many are sampled.
    """

    def __init__(self, show: Show, trace: Path, share: float = 0.75, designs: int = 1) -> None:
        self._show, self._designs = show, designs
        held = held_by(trace)
        # Any numbers will do where the trace does not say.
        references = held.references or 1.0
        self._passed = share * references
        size = trace.stat().st_size if trace.is_file() else 0
        self._window = 0.01 * self._passed
        self._weights = {
            HASH: TIMES[HASH] * size,
            FIRST_PASS: references,
            LIVE_POINTS: TIMES[LIVE_POINTS] * self._passed,
            COARSE: TIMES[COARSE] * self._passed,
        }
        self._timed = 0
        self._now, self._done, self._begin, self._share = "", 0, 0.0, 0.0

    def expect(self, prospect: Prospect) -> None:
        """Take what is expected now that it is known what will be measured."""
        self._passed, self._window = prospect.passed, prospect.window
        self._weights[LIVE_POINTS] = TIMES[LIVE_POINTS] * self._passed
        self._weights[COARSE] = TIMES[COARSE] * self._passed

    def of(self, name: str) -> Told:
        """Return what is told of the stages of a design."""
        return lambda what, done, of: self(what, done, of, f"{name}: ")

    def __call__(self, what: str, done: int, of: int, of_whom: str = "") -> None:
        """Take how far a stage is."""
        if what not in SHOWN:
            return
        if what != self._now or done < self._done:
            self._begin = self._share
            self._timed += what == WINDOWS
        self._now, self._done = what, done
        part = min(1.0, done / (of or self._passed))
        weight = self._weight(what, of)
        share = self._begin + (1 - self._begin) * part * weight / (weight + self._later(what))
        self._share = max(self._share, share)
        amount = f": {done / 1e6:,.0f} of about {self._passed / 1e6:,.0f} M references" if what == LIVE_POINTS else ""
        self._show(f"{of_whom}{SHOWN[what]}{amount}", self._share)

    def _weight(self, what: str, of: int) -> float:
        if what == WINDOWS:
            return TIMES[WINDOWS] * of
        return self._weights[COARSE if what == LAST_COARSE else what]

    def _later(self, what: str) -> float:
        """Return what is expected after a stage."""
        if what == LAST_COARSE:
            return 0.0
        weights, window = self._weights, TIMES[WINDOWS] * self._window
        to_come = max(0, self._designs - self._timed)
        passes = to_come - (what == LIVE_POINTS)
        coarse = to_come + (what == WINDOWS and self._timed <= self._designs)
        rounds = 2 * self._designs - max(self._timed, self._designs)
        return (
            (what == HASH) * weights[FIRST_PASS]
            + passes * weights[LIVE_POINTS]
            + coarse * weights[COARSE]
            + to_come * FIRST_LOOK * window
            + MORE * max(0, rounds) * (FIRST_STAGE - FIRST_LOOK) * window
        )
