"""A mean over all windows of a trace from some of them: what each took, and what is known of all without timing.

A window is a fixed number of instructions; what is estimated is its mean number of cycles for an instruction. Of every
window, timed or not, a functional pass counted the misses, and a window's cycles follow its misses closely. So the
estimate is that of linear regression on them (Cochran, Sampling Techniques, 1977, chapter 7): the mean of the timed
windows, corrected by the difference between their misses and those of the whole range. The windows are a share of the
range, so the error of their choice shrinks with what is left out (the finite population correction).

How many windows are timed follows Stein's two stages, as elsewhere (`servsim.statistics.sequential`): the spread of
the first stage fixes their number. Assumes that the first stage looks like the rest, which random order gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from random import Random

import numpy as np
from numpy.typing import NDArray

from servsim.statistics.intervals import student_quantile

__all__ = ["FIRST_LOOK", "FIRST_STAGE", "PHASES", "Sampled", "estimate", "order", "windows_for"]

#: Windows of the first stage: with fewer, the spread is known too badly to say how many are needed.
FIRST_STAGE = 24
#: Windows of a look before it, one of each of `PHASES` parts of the trace: where their interval is narrower than
#: `LOOK_PART` of what is asked, no more are needed, however badly the spread is known.
FIRST_LOOK, LOOK_PART = 8, 0.5
#: Parts of the trace, one after another, that every round of the order visits once.
PHASES = 8
#: Windows for each column of the regression, at least: fewer fit it to their noise.
PER_COLUMN = 8


@dataclass(frozen=True)
class Sampled:
    """What windows tell of the range that they were taken from.

    Attributes
    ----------
    n : int
        Windows timed.
    mean : float
        Cycles for an instruction.
    sd : float
        What is left of the windows' spread once their misses are known.
    share : float
        Share of the range that the windows measured.
    half_width : float
        Half of the 95 % interval of ``mean``.
    explained : float
        Share of the windows' variance that their misses explain.
    freedom : int
        Degrees of freedom of the interval.
    """

    n: int
    mean: float
    sd: float
    share: float
    half_width: float
    explained: float
    freedom: int

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.half_width / student_quantile(0.95, self.freedom)


def order(count: int, seed: int, choice: str = "phases") -> list[int]:
    """Return the numbers of ``count`` windows in random order.

    Parameters
    ----------
    count : int
        How many there are.
    seed : int
        Seed of the order.
    choice : str, default "phases"
        ``phases``: every round takes one window of each of `PHASES` parts of the trace, in random order, so that any
        first so many cover all of it; ``random``: plain random order.

    Examples
    --------
    >>> sorted(order(20, 1)) == list(range(20)), order(20, 1) == order(20, 2)
    (True, False)
    """
    random = Random(seed)
    windows = list(range(count))
    if choice == "random":
        random.shuffle(windows)
        return windows
    bounds = [count * part // PHASES for part in range(PHASES + 1)]
    parts = [windows[low:high] for low, high in pairwise(bounds)]
    for part in parts:
        random.shuffle(part)
    found: list[int] = []
    while any(parts):
        filled = [part for part in parts if part]
        random.shuffle(filled)
        found += [part.pop() for part in filled]
    return found


def estimate(
    cycles: Sequence[float], known: Sequence[Sequence[float]], of_all: Sequence[float], share: float
) -> Sampled:
    """Estimate the mean of all windows.

    Parameters
    ----------
    cycles : sequence of float
        Cycles for an instruction of the timed windows, at least three.
    known : sequence of sequences of float
        What is known of each timed window besides, such as misses for an instruction.
    of_all : sequence of float
        The same for the whole range.
    share : float
        Share of the range that the windows measured, from 0 to 1.

    Examples
    --------
    >>> exact = estimate([2.0, 4.0, 6.0, 8.0] * 3, [[1.0], [2.0], [3.0], [4.0]] * 3, [3.5], 0.1)
    >>> round(exact.mean, 6), round(exact.half_width, 6)
    (7.0, 0.0)
    """
    y = np.asarray(cycles, dtype=float)
    n = y.size
    columns = _columns(np.asarray(known, dtype=float).reshape(n, -1), n)
    spread = float(y.var(ddof=1))
    if columns:
        table = np.asarray(known, dtype=float).reshape(n, -1)[:, columns]
        middle = table.mean(axis=0)
        slopes, *_ = np.linalg.lstsq(table - middle, y - y.mean(), rcond=None)
        gap = np.asarray(of_all, dtype=float)[columns] - middle
        mean = float(y.mean() + gap @ slopes)
        left = y - y.mean() - (table - middle) @ slopes
        freedom = n - 1 - len(columns)
        variance = float(left @ left) / freedom
        # The slopes are not known exactly either, which counts as far as the windows' misses are not those of all.
        scaled = np.linalg.norm(table - middle, axis=0)
        lever = float(np.linalg.norm(np.linalg.pinv((table - middle) / scaled).T @ (gap / scaled)) ** 2)
    else:
        mean, freedom, variance, lever = float(y.mean()), n - 1, spread, 0.0
    error = sqrt(variance * max(0.0, 1 - share) * (1 / n + lever))
    half = student_quantile(0.95, freedom) * error
    explained = 1 - min(1.0, variance / spread) if spread else 1.0
    return Sampled(n, mean, sqrt(variance), share, half, explained, freedom)


def _columns(table: NDArray[np.float64], n: int) -> list[int]:
    """Return the columns that vary, not all of them together with one before, and that so few windows can bear."""
    found: list[int] = []
    for column in range(table.shape[1]):
        wider = [*found, column]
        if n < PER_COLUMN * len(wider) or not np.ptp(table[:, column]):
            continue
        centred = table[:, wider] - table[:, wider].mean(axis=0)
        scaled = centred / np.linalg.norm(centred, axis=0)
        if np.linalg.matrix_rank(scaled, tol=1e-2) == len(wider):
            found = wider
    return found


def windows_for(first: Sampled, precision: float) -> int:
    """Return how many windows in all give ``± precision`` (a share of the mean), by the spread of the first stage.

    Each of them measures as much of the range as each of the first.
    """
    wish = precision * abs(first.mean)
    quantile = student_quantile(0.95, max(1, first.n - 2))
    # half² = (q s)² (1/n - share/n of one window): solved for n.
    each = first.share / first.n
    without_limit = (quantile * first.sd / wish) ** 2 if wish else float("inf")
    return max(first.n, ceil(without_limit / (1 + without_limit * each)))
