"""What every workload offers, whatever servers it runs: load, run, check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Request", "Workload"]


@dataclass(frozen=True)
class Request:
    """What the person asked for.

    Parameters
    ----------
    scale
        Size of the data, a name or a text that the workload understands; its default without it.
    options
        Options that only the workload knows, as command-line words.
    transactions, seed
        Transactions to measure, over all users, and the seed of data or requests; the workload's own without them.
    settings
        Settings of the workload that replace its defaults.
    json
        Whether the answer is JSON.
    """

    scale: str | None = None
    options: Sequence[str] = ()
    transactions: int | None = None
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    json: bool = False


class Workload(Protocol):
    """One workload of the suite: real servers, their client, and their checks.

    Each step prints its report on standard output, and raises :class:`servsim.errors.CheckFailed`
    behind it when the step's own checks fail.
    """

    #: One line for ``servsim workload list``.
    summary: str

    def load(self, request: Request) -> None:
        """Make the data, replacing any of the same scale."""

    def run(self, request: Request) -> None:
        """Run the client against the server and report."""

    def check(self, request: Request) -> None:
        """Check that the data are consistent."""
