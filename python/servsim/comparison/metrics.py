"""What designs can be compared by: one entry per figure, with its unit and which way is better."""

from collections.abc import Callable
from dataclasses import dataclass

from servsim.errors import UsageError
from servsim.replication import described
from servsim.result import Result


@dataclass(frozen=True)
class Metric:
    """A figure of a replication.

    Attributes
    ----------
    name, title, unit : str
        Name on the command line, wording, and unit.
    lower_is_better : bool
        Which way is better.
    needs : tuple of str
        What every replication must have, and greater than zero.
    """

    name: str
    title: str
    unit: str
    lower_is_better: bool
    needs: tuple[str, ...]

    def values(self, result: Result) -> list[float]:
        """Return the figure of each replication, in the order of the result; of several captures, each one's mean.

        Raises
        ------
        UsageError
            When a replication lacks it, with the remedy.
        """
        found = [self._value(described(replication)) for replication in result.replications]
        known = [value for value in found if value is not None]
        if len(known) < len(found):
            raise UsageError(f"{result.source} does not record {self.title}: {_REMEDY}")
        return result.independent(known)

    def _value(self, figures: dict[str, float]) -> float | None:
        return DERIVED[self.name](figures) if self.name in DERIVED else figures.get(self.name)


_REMEDY = (
    "no transaction ended in its window, or it was made by the functional engine; measure a longer window, "
    "or compare by another figure, for example --by gsp"
)

#: Figures computed from others.
DERIVED: dict[str, Callable[[dict[str, float]], float | None]] = {
    "misses_per_transaction": lambda f: (
        f["misses_per_reference"] * f["references"] * f["cycles_per_transaction"] / f["cycles"]
        if f.get("cycles_per_transaction")
        else None
    ),
}

_TIMED = ("cycles", "transactions")

#: The figures, the first of which is the default: Alameldeen et al. 2003 compare by it.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("cycles_per_transaction", "cycles per transaction", "cycles", True, _TIMED),
        Metric("gsp", "global system power", "processors", False, ("cycles",)),
        Metric("misses_per_reference", "misses per reference", "", True, ("references",)),
        Metric("misses_per_transaction", "misses per transaction", "misses", True, _TIMED),
        Metric("bus_utilization", "bus utilisation", "", True, ("cycles",)),
    )
}


def metric(name: str) -> Metric:
    """Return a metric by name.

    Raises
    ------
    UsageError
        When there is none of this name.
    """
    if name not in METRICS:
        raise UsageError(f"designs cannot be compared by {name!r}; choose one of {', '.join(METRICS)}")
    return METRICS[name]
