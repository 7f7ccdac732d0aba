"""What designs can be compared by: any figure or counter of the registry."""

from dataclasses import dataclass

from servsim import registry
from servsim.errors import UsageError
from servsim.replication import value
from servsim.result import Result


@dataclass(frozen=True)
class Metric:
    """A figure of a replication.

    Attributes
    ----------
    name, title, unit : str
        Name on the command line, wording, and unit; none for shares and ratios.
    lower_is_better : bool or None
        Which way is better; None where the figure does not say.
    needs : tuple of str
        What every replication must have, and greater than zero.
    """

    name: str
    title: str
    unit: str
    lower_is_better: bool | None
    needs: tuple[str, ...]

    @property
    def sign(self) -> int:
        """By what figures are multiplied so that the first design has the least: 1 or -1."""
        return -1 if self.lower_is_better is False else 1

    @property
    def verdict(self) -> str:
        """What the first of two designs is, where the figures prove it."""
        return "lower" if self.lower_is_better is None else "better"

    def values(self, result: Result) -> list[float]:
        """Return the figure of each replication, in the order of the result; of several captures, each one's mean.

        Raises
        ------
        UsageError
            When a replication lacks it, with the remedy.
        """
        found = [value(replication, self.name) for replication in result.replications]
        known = [figure for figure in found if figure is not None]
        if len(known) < len(found):
            raise UsageError(f"{result.source} does not record {self.title}: {_REMEDY}")
        return result.independent(known)


_REMEDY = (
    "no transaction ended in its window, its machine lacks what is counted, or it was made by the functional engine or "
    "an older servsim; measure a longer window, simulate again, or compare by another figure, for example --by gsp"
)

#: By what designs are compared unless something else is asked for: Alameldeen et al. 2003 do.
USUAL = "cycles_per_transaction"


def metric(name: str = USUAL) -> Metric:
    """Return a metric by the path of its figure.

    Raises
    ------
    UsageError
        When there is no such figure.
    """
    known = registry.choose(name, "designs cannot be compared by")
    unit = registry.unit(name).removesuffix("/transaction")
    lower = None if known.better is None else known.better == "lower"
    return Metric(name, registry.title(name), "" if unit == "1" else unit, lower, known.needs)
