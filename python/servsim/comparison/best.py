"""The best of many designs: which of them may be it, and which are proven not to be.

Selection of a subset that holds the best (Gupta, Technometrics 7, 1965; Hsu, Multiple Comparisons, 1996): a design is
excluded when a test finds it worse than the best mean, with the level shared by as many tests as the best design
could fail (Bonferroni). Whichever design is the best in truth, it is excluded in at most 5 % of studies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from servsim.comparison.judge import SIGNIFICANT
from servsim.statistics.comparison import difference
from servsim.statistics.intervals import LEAST, Estimate, estimate, reported


@dataclass(frozen=True)
class Place:
    """A design in the order of means.

    Attributes
    ----------
    number : int
        Its number among those that were given, from 0.
    known : Estimate
        Mean of its figure.
    may_be_best : bool
        Whether it is not proven that another is better.
    """

    number: int
    known: Estimate
    may_be_best: bool


def places(values: Sequence[Sequence[float]], *, sign: int = 1, paired: bool) -> list[Place]:
    """Order designs by their means, the best first, and exclude those that are proven to be worse than the best.

    Parameters
    ----------
    values : sequence of sequence of float
        The figure of each design, a value for each run (or capture). Of fewer than `LEAST` runs, and of runs that
        never vary, nothing is known but the mean, and nothing is proven.
    sign : int, default 1
        1 where the least is best, -1 where the most is.
    paired : bool
        Whether the i-th runs of all designs belong together.

    Returns
    -------
    list of Place
        One for each design.

    Examples
    --------
    >>> [(p.number, p.may_be_best) for p in places([[5.0, 5.1, 5.2], [3.1, 3.2, 3.0], [3.1, 3.3, 3.1]], paired=False)]
    [(1, True), (2, True), (0, False)]
    """
    order = sorted(range(len(values)), key=lambda number: sign * reported(values[number]).mean)
    first, *_ = order
    varies = [len(runs) >= LEAST and bool(estimate(runs).sd) for runs in values]

    def may_be_best(number: int) -> bool:
        if number == first or not (varies[first] and varies[number]):
            return True
        one_sided = difference(values[number], values[first], paired=paired).p / 2
        return one_sided * (len(values) - 1) >= SIGNIFICANT

    return [Place(number, reported(values[number]), may_be_best(number)) for number in order]
