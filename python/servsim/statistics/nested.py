"""Figures of a nested design: replications within captures, and captures within a workload.

Replications of one capture differ in their random delays only; captures differ in their requests and in the order
in which tasks met. Replications of a capture are therefore no independent samples of the workload: the captures
are. Each capture counts with the mean of its replications, and the interval of the mean is Student's over captures.
That is the analysis of variance of a balanced nested design, whose upper level has the captures' degrees of freedom.
"""

from collections.abc import Hashable, Sequence


def unit_means(values: Sequence[float | None], units: Sequence[Hashable]) -> list[float]:
    """Return the mean of each independent unit, in the order in which units first appear.

    Parameters
    ----------
    values : sequence of float or None
        One figure per replication, None where there is none; a unit without any is left out.
    units : sequence of hashable
        The unit of each replication.

    Examples
    --------
    >>> unit_means([1.0, 3.0, 10.0, None], ["a", "a", "b", "b"])
    [2.0, 10.0]
    """
    found: dict[Hashable, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        if value is not None:
            found.setdefault(unit, []).append(value)
    return [group[0] if len(group) == 1 else sum(group) / len(group) for group in found.values()]
