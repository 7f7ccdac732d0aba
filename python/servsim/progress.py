"""How far a simulation is, from the references that it reports: how many there will be, as well as that can be known.

A captured trace states its totals. A run of some of its transactions takes about their share of its references; the
share is an estimate, for people to see how long they will wait, and enters no result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from servsim.errors import ServsimError
from servsim.trace.files import captured_facts

#: Takes what is being done and, when it is known, the fraction done.
Show = Callable[..., None]

#: Bytes of a reference in the exchange format raw16.
_RAW16 = 16


def expected_references(
    traces: Path | Sequence[Path],
    *,
    transactions: int | str | None = None,
    references: int | None = None,
    warmup: int | None = None,
    functional_warmup: str | int | None = None,
    replications: int = 1,
) -> float | None:
    """Return about how many references runs of traces will take, or None when one of them does not tell.

    Parameters
    ----------
    traces
        Any trace, or several that are run alike.
    transactions, references, warmup, functional_warmup
        As for `servsim.simulation.simulate`, which chooses the middle half of a trace without them.
    replications
        How many runs of each; a functional warm-up is made once for all.
    """
    several = [traces] if isinstance(traces, Path) else traces
    if references is not None:
        before = references if warmup is None else warmup
        warm = sum(_warmed(functional_warmup, held_by(trace))[0] for trace in several) if functional_warmup else 0.0
        return warm + float(len(several) * replications * (before + references))
    parts = [_expected(trace, transactions, warmup, functional_warmup, replications) for trace in several]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


@dataclass(frozen=True)
class Held:
    """What a trace says that it holds; zero where it does not tell."""

    references: float = 0.0
    instructions: float = 0.0
    transactions: float = 0.0
    users: float = 0.0


def held_by(trace: Path) -> Held:
    """Return what a trace holds."""
    if trace.suffix == ".raw16" and trace.is_file():
        return Held(trace.stat().st_size / _RAW16)
    try:
        info = captured_facts(trace)
        totals = info["totals"]
    except (ServsimError, OSError, ValueError):
        totals = None
    if not totals:
        return Held()
    provenance = info["meta"].get("provenance")
    users = provenance.get("users") if isinstance(provenance, dict) else None
    instructions = float(totals["instructions"])
    references = instructions + float(totals["data_references"])
    return Held(references, instructions, float(totals.get("transactions") or 0), float(users or 0))


def _warmed(amount: str | int | None, held: Held) -> tuple[float, float]:
    """Return about how many references a functional warm-up takes, and which share of the trace it leaves behind."""
    text = str(amount or 0)
    references = held.references
    if text == "whole trace":
        return references, 0.0
    number = text.split(maxsplit=1)[0].replace("_", "")
    # A wrong amount is refused by the simulation itself.
    count = float(number) if number.isdigit() else 0.0
    if text.endswith("references"):
        return count, min(1.0, count / references) if references else 0.0
    share = min(1.0, count / held.transactions) if held.transactions else 0.0
    return share * references, share


def _expected(
    trace: Path,
    transactions: int | str | None,
    warmup: int | None,
    functional_warmup: str | int | None,
    replications: int,
) -> float | None:
    held = held_by(trace)
    whole = held.references
    if not whole:
        return None
    warm, passed = _warmed(functional_warmup, held)
    share = 1.0 - passed
    if held.transactions and not isinstance(transactions, str):
        left = held.transactions * share
        before = left / 4 if warmup is None else warmup
        last = max(before, 3 * left / 4) if transactions is None else before + transactions
        # When the last measured transaction ends, every other user is somewhere in one of its own.
        share = min(share, (last + held.users / 2) / held.transactions)
    return float(warm + replications * share * whole)


def of_references(show: Show, what: str, expected: float | None) -> Callable[[int], None]:
    """Return a function that takes the references so far and shows them, with the share of those expected."""

    def told(references: int) -> None:
        if expected is None:
            show(f"{what}: {references / 1e6:,.1f} million references", None)
        else:
            # The last percent is shown by the end itself: what is expected is an estimate.
            share = min(0.99, references / expected) if expected else 0.0
            show(f"{what}: {references / 1e6:,.0f} of about {expected / 1e6:,.0f} million references", share)

    return told


def of_runs(show: Show, runs: int, expected: float | None) -> Callable[[str], Callable[[int], None]]:
    """Return a function that names the next of several like simulations and returns what takes its references.

    Parameters
    ----------
    show
        Takes what is being done and the fraction done of all of them.
    runs
        How many there will be.
    expected
        References of each, as `expected_references` tells them; without it the fraction grows from run to run.
    """
    begun = 0

    def begin(what: str) -> Callable[[int], None]:
        nonlocal begun
        before, begun = begun, begun + 1
        text = f"{what} ({begun} of {runs})"

        def told(references: int) -> None:
            show(text, (before + (min(0.99, references / expected) if expected else 0.0)) / runs)

        told(0)
        return told

    return begin
