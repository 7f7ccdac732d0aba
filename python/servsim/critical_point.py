"""The critical point: the largest number of processors that is still worth adding.

Foglia et al. 2004 call a machine scalable up to N processors when the next one adds less than 0.5 to
the global system power: the smallest N with GSP(N+1) - GSP(N) < 0.5. All machines run the same seeds,
so that differences between them are not differences of luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from servsim.documents import LARGEST
from servsim.errors import UsageError
from servsim.result_warnings import ResultWarning, by_rank
from servsim.statistics.intervals import Estimate, estimate
from servsim.sweep import Study, conduct
from servsim.sweep.conduct import Progress

#: Gain of GSP per processor below which adding one is no longer worth it (Foglia et al. 2004, 5.2.2).
LEAST_GAIN = 0.5


def crossing(gsp: Mapping[int, float], least_gain: float = LEAST_GAIN) -> float | None:
    """Return the critical point of one curve.

    Parameters
    ----------
    gsp : mapping of int to float
        GSP by number of processors, at least two.
    least_gain : float, default 0.5
        Gain per processor below which adding one is no longer worth it.

    Returns
    -------
    float or None
        The smallest N whose successor gains less. Where numbers are not consecutive, the gain per
        processor is taken at the middle of each step and interpolated. None when the gain never falls
        below; the smallest number when it is below from the start.

    Raises
    ------
    UsageError
        For fewer than two numbers of processors.

    Examples
    --------
    >>> crossing({1: 1.0, 2: 1.9, 3: 2.6, 4: 3.0})
    3.0
    """
    counts = sorted(gsp)
    if len(counts) < 2:
        raise UsageError("a critical point needs GSP at two numbers of processors or more")
    gains = {below: (gsp[above] - gsp[below]) / (above - below) for below, above in pairwise(counts)}
    return _first_below(counts, gains, least_gain)


def _first_below(counts: Sequence[int], gains: Mapping[int, float], least_gain: float) -> float | None:
    """Return where the gain falls below the least, from that behind each number of processors but the last."""
    last: tuple[float, float] | None = None
    for below, above in pairwise(counts):
        step, gain, middle = above - below, gains[below], (below + above - 1) / 2
        if gain < least_gain:
            if step == 1 or last is None:
                return float(below)
            return last[0] + (middle - last[0]) * (last[1] - least_gain) / (last[1] - gain)
        last = (middle, gain)
    return None


@dataclass(frozen=True)
class CriticalPoint:
    """A critical point with what it rests on.

    Attributes
    ----------
    point : float or None
        Of the mean curve; None when the gain never falls below the threshold.
    low, high : float or None
        Ends of its 95 % interval: where the lower ends of the gains' intervals fall below the threshold, and where the
        upper ends do. ``high`` is None when these never do: the point may lie beyond. Both are None for one seed.
    by_seed : list of float or None
        Of each seed's own curve. Single seeds' curves fall below by chance before their mean does, so the mean of
        these is no estimate of the point.
    gsp : dict of int to Estimate
        The curve.
    gains : dict of int to Estimate
        Paired gain of one more processor, by the number before.
    least_gain : float
        The threshold.
    """

    point: float | None
    low: float | None
    high: float | None
    by_seed: list[float | None]
    gsp: dict[int, Estimate]
    gains: dict[int, Estimate]
    least_gain: float

    @property
    def settled(self) -> bool:
        """Whether every gain up to the point lies above the threshold, and the next below, beyond chance."""
        for count in sorted(self.gains):
            gain = self.gains[count]
            if gain.low is None or gain.high is None:
                return False
            if self.point is not None and count >= self.point:
                return gain.high < self.least_gain
            if gain.low < self.least_gain:
                return False
        return self.point is None


def critical_point(curves: Mapping[int, Sequence[float]], least_gain: float = LEAST_GAIN) -> CriticalPoint:
    """Find the critical point of several seeds' curves.

    Parameters
    ----------
    curves : mapping of int to sequence of float
        GSP of every seed, in the same order, by number of processors.
    least_gain : float, default 0.5
        What one more processor must add to the GSP.

    Returns
    -------
    CriticalPoint
        Of the mean curve, with that of every seed.

    Raises
    ------
    UsageError
        For fewer than two numbers of processors, unequal numbers of seeds, or what is no GSP.
    """
    counts = sorted(curves)
    for count, values in curves.items():
        for value in values:
            if not 0.0 <= value <= LARGEST:
                raise UsageError(f"{value} is no GSP of {count} processors: give a number from 0")
    seeds = {len(values) for values in curves.values()}
    if len(seeds) != 1 or 0 in seeds:
        raise UsageError("a critical point needs the same seeds at every number of processors")
    gsp = {count: estimate(list(curves[count])) for count in counts}
    gains = {
        below: estimate([(b - a) / (above - below) for a, b in zip(curves[below], curves[above], strict=True)])
        for below, above in pairwise(counts)
    }
    point = crossing({count: gsp[count].mean for count in counts}, least_gain)
    # The lower end lies above the point in truth only if the gain behind that is misjudged: one interval's chance. The
    # upper end lies below it only if an earlier gain is, of which only those near the threshold can be.
    lows = {below: gain.low for below, gain in gains.items() if gain.low is not None}
    highs = {below: gain.high for below, gain in gains.items() if gain.high is not None}
    low, high = (_first_below(counts, ends, least_gain) if ends else None for ends in (lows, highs))
    by_seed = [crossing({c: curves[c][i] for c in counts}, least_gain) for i in range(seeds.pop())]
    return CriticalPoint(point, low, high, by_seed, gsp, gains, least_gain)


#: Numbers of processors that are run together before looking whether the point is passed.
CHUNK = 4

#: Gains below the threshold that must follow, so that one low gain by chance does not end the search.
BEYOND = 2


def scale(
    trace: Path,
    machine: str,
    counts: Sequence[int],
    overrides: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    *,
    options: Mapping[str, Any],
    on: str = "local",
    progress: Progress | None = None,
) -> tuple[CriticalPoint, list[ResultWarning]]:
    """Find a critical point by a sweep over the number of processors, which ends once it is passed.

    Parameters
    ----------
    trace, machine
        What runs on what.
    counts : sequence of int
        Numbers of processors to try, ascending.
    overrides : sequence of str
        Settings to replace, each ``KEY=VALUE``.
    seeds : sequence of int
        Seeds, the same at every number.
    folder : Path
        The sweep's directory, kept and continued.
    options : mapping
        ``transactions`` and ``warmup``, when given.
    on : str, default "local"
        Where runs are made.

    Returns
    -------
    CriticalPoint, list of ResultWarning
        The point, and the warnings of the runs.

    Raises
    ------
    UsageError
        For wrong settings, or when ``processors`` is among them.
    """
    pairs = [text.partition("=") for text in overrides]
    settings: dict[str, str | int | float] = {key.strip(): value.strip() for key, _, value in pairs}
    if "processors" in settings:
        raise UsageError("the number of processors is what is searched: leave processors out of --set")
    if any(not equals for _, equals, _ in pairs):
        raise UsageError("a setting is replaced by --set KEY=VALUE")
    fixed = {"trace": str(trace.resolve()), "machine": machine, **options}
    name = f"critical point of {machine}"
    for end in [*range(CHUNK, len(counts), CHUNK), len(counts)]:
        tried = list(counts[:end])
        if len(tried) < 2:
            continue
        points: list[dict[str, str | int | float]] = [{"processors": count} for count in tried]
        study = Study(name, Path(), fixed, settings, {"processors": list(tried)}, points, list(seeds))
        outcome = conduct(study, folder, on=on, progress=progress)
        curves = {
            count: [float(run["gsp"]) for run in point.replications]
            for count, point in zip(tried, outcome.points, strict=True)
        }
        found = critical_point(curves)
        if found.point is not None and sum(count > found.point for count in found.gains) >= BEYOND:
            break
    return found, by_rank(warning for point in outcome.points for warning in point.warnings)
