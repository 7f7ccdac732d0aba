"""Designs compared on common windows of a trace: which needs fewer cycles for a transaction, without full runs.

All designs time windows at the same places of the trace; machines of one shape even from the same live-points. What
makes a window slow there makes it slow on all, so their ratio is known from fewer windows than the figures of each.
Places are those of the machine with most processors, which has the fewest live-points; the others take the nearest they
have. How many are timed follows from the spread of the ratios in a first look and in the first stage, never from the
ratios themselves.

What they say is in `servsim.comparison.ratios`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.comparison.designs import Machine
from servsim.comparison.ratios import judged, look_is_enough, windows_needed, windows_wanted
from servsim.errors import Interrupted
from servsim.hashes import file_hash
from servsim.machines import machine_text, resolve
from servsim.progress import Show
from servsim.result_warnings import ResultWarning
from servsim.sampling.coarse import Known, coarse_runs
from servsim.sampling.runs import Wish, refuse_short, timed
from servsim.sampling.stages import HASH, Stages, Told
from servsim.statistics import sampling

#: Fewest common windows that say anything: an interval needs a spread.
LEAST_WINDOWS = 3


@dataclass(frozen=True)
class Asked:
    """What is common to all designs: the trace, what of it is measured, and how precisely ratios shall be known."""

    trace: Path
    precision: float
    seed: int = 1
    transactions: int | str | None = None
    warmup: int | None = None
    format: str | None = None
    overrides: tuple[str, ...] = ()
    threads: int | None = None


class _Windows:
    """The windows of one design so far."""

    def __init__(self, machine: Machine, asked: Asked, trace_hash: str) -> None:
        self.machine, self._asked, self._hash = machine, asked, trace_hash
        self.overrides = [*asked.overrides, *machine.overrides]
        resolved = resolve(machine_text(machine.description), machine.description, self.overrides)
        self.processors = int(resolved["processors"])
        self.document: Known = {}
        self.interrupted = False

    def more(self, choose: Callable[[Known], list[int]], told: Told | None) -> None:
        """Time the windows that ``choose`` names, given what is known before; they are added to those before."""
        before, coarse = self.document.get("windows", []), self.document.get("coarse", [])

        def once(text: str) -> Wish:
            known: Known = json.loads(text)
            if "points" not in known:
                return [], []
            if not known["windows"]:
                return choose(known), []
            known |= {"windows": before + known["windows"], "coarse": coarse + known["coarse"]}
            return [], coarse_runs(known, asked.seed, asked.precision)

        asked = self._asked
        found = timed(
            asked.trace,
            self.machine.description,
            once,
            trace_hash=self._hash,
            format=asked.format,
            overrides=self.overrides,
            transactions=asked.transactions,
            warmup=asked.warmup,
            seed=asked.seed,
            threads=asked.threads,
            told=told,
        )
        self.interrupted = bool(found.get("interrupted"))
        if self.document:
            found["live_points"] = self.document["live_points"]
        self.document = found | {"windows": before + found["windows"], "coarse": coarse + found["coarse"]}


def compare_windows(
    machines: Sequence[Machine],
    asked: Asked,
    *,
    progress: Show | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time common windows of a trace on every machine, and say which need fewer cycles for a transaction.

    Parameters
    ----------
    machines
        Two or more.
    asked
        What is common to them; ``precision`` is half of the 95 % interval of every ratio, as a share of it.
    progress
        Takes what is being done and the share done of all of it.
    say
        Called with a sentence on what will be simulated, once the first windows have told.

    Returns
    -------
    dict
        Schema ``servsim.compare-windows/1``.

    Raises
    ------
    UsageError
        As `servsim.sampling.sample` where windows cannot be timed at all, or are too few for a first stage.
    Interrupted
        When it was interrupted after windows enough of all designs; it holds the comparison by then.
    """
    stages = Stages(progress, asked.trace, designs=len(machines)) if progress and asked.trace.exists() else None
    hashed = (lambda done, of: stages(HASH, done, of)) if stages else None
    trace_hash = file_hash(asked.trace, hashed) if asked.trace.exists() else None
    designs = [_Windows(machine, asked, trace_hash or "") for machine in machines]
    first = max(designs, key=lambda design: design.processors)
    in_turn = [first, *(design for design in designs if design is not first)]
    places: list[int] = []

    def chosen(known: Known, low: int, high: int | None) -> list[int]:
        nonlocal places
        if not places:
            if len(known["points"]) < sampling.FIRST_STAGE:
                refuse_short(known, sampling.FIRST_STAGE, "a first look takes")
            places = sampling.order(len(known["points"]), asked.seed)
        points = nearest(known, first.document or known, places)
        return points[low:high]

    def stage(low: int, high: int) -> None:
        for design in in_turn:
            told = stages and stages.of(design.machine.label)
            design.more(lambda known: chosen(known, low, high), told)
            if design.interrupted:
                raise KeyboardInterrupt

    wanted = sampling.FIRST_LOOK
    try:
        stage(0, wanted)
        timed = wanted
        if not look_is_enough([design.document for design in designs], asked.precision):
            wanted = sampling.FIRST_STAGE
            stage(timed, wanted)
            timed = wanted
        wanted, why = windows_wanted([design.document for design in designs], asked.precision)
        if say is not None:
            say(why)
        if wanted > timed:
            stage(timed, wanted)
    except KeyboardInterrupt:
        done = [len(design.document.get("windows", [])) * bool(design.document.get("coarse")) for design in designs]
        if min(done) < LEAST_WINDOWS:
            raise
        common = _common(designs)
        result = judged(common, asked.precision, wanted)
        text = windows_needed([document for _, document in common], asked.precision)
        result["warnings"].insert(0, ResultWarning("weak", "interrupted", text).to_dict())
        result["interrupted"] = True
        raise Interrupted(result) from None
    return judged(_common(designs), asked.precision, wanted)


def _common(designs: Sequence[_Windows]) -> list[tuple[str, Known]]:
    """Return names and documents, with as many windows as all have."""
    count = min(len(design.document["windows"]) for design in designs)
    return [
        (design.machine.label, design.document | {"windows": design.document["windows"][:count]}) for design in designs
    ]


def nearest(known: Known, base: Known, places: Sequence[int]) -> list[int]:
    """Return the live-points of ``known`` nearest to places of ``base``, each once, by their share of the range.

    Examples
    --------
    >>> of = lambda count, spacing: {"points": [None] * count, "range": {"spacing": spacing, "instructions": 1000}}
    >>> nearest(of(10, 100), of(5, 200), [3, 0, 4])
    [6, 0, 8]
    """

    def at(document: Known, point: int) -> float:
        return float(point * document["range"]["spacing"] / document["range"]["instructions"])

    free = set(range(len(known["points"])))
    found = []
    for place in places:
        if not free:
            break
        wish = at(base, place)
        best = min(free, key=lambda point: (abs(at(known, point) - wish), point))
        free.discard(best)
        found.append(best)
    return found
