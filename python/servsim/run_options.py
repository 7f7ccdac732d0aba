"""The options of a run, once for the Python interface, the command line and whatever runs simulations for others."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from servsim.limits import LARGEST_COUNT, LARGEST_SEED, whole


class RunOptions(TypedDict, total=False):
    """What `servsim.simulate` and `servsim.simulation.simulate` take by name; each may be left out.

    Attributes
    ----------
    engine : str, default "timing"
        ``timing`` (tasks re-scheduled, cycles) or ``functional`` (order of the trace, exact counts).
    transactions : int or str, optional
        Number of transactions to measure, or ``"all"`` and what the trace holds after the last. Without it the
        middle half of the trace's transactions, or the whole of a trace that marks none; the options of the
        result tell which.
    references : int, optional
        Number of references to measure instead of transactions, cut wherever so many have been made: rates per
        reference and shares of time then, and no figure per transaction.
    warmup : int, optional
        Transactions that are timed before the measurement; without it a quarter of the trace's, at least
        one for each of its users. With ``references`` it counts these, and is as many without it.
    replications : int, default 1
        Runs with successive seeds.
    seed : int, default 1
        Seed of the first run; the same seed gives the same bytes.
    threads : int, optional
        Host threads: one replication each, all cores without it; a functional run is divided over
        them only when they are given.
    functional_warmup : str or int, optional
        How much of the trace warms the caches without timing before the run begins there: a number of
        transactions, or text such as ``"5000000 references"``; with ``"whole trace"`` it begins again after
        all of it. The same for all replications.
    save_checkpoint : str or Path, optional
        File that keeps the state at the end of the functional warm-up; replaced if it exists.
    from_checkpoint : str or Path, optional
        File that ``save_checkpoint`` wrote: begin there, instead of a functional warm-up.
    users : int, optional
        Run only so many of the users that transactions end for; all without it. Refused when a task that
        stays waits for one that would go.
    placement : str or Path, optional
        Placement file: where pages lie and where tasks run on a machine with nodes (docs/placement.md).
    monitor : str or Path, optional
        Program of the monitor of traffic between nodes (docs/monitor.md).
    progress : callable, optional
        Called a few times a second with the number of references simulated so far.
    """

    engine: str
    transactions: int | str | None
    references: int | None
    warmup: int | None
    replications: int
    seed: int
    threads: int | None
    functional_warmup: str | int | None
    save_checkpoint: str | Path | None
    from_checkpoint: str | Path | None
    users: int | None
    placement: str | Path | None
    monitor: str | Path | None
    progress: Callable[[int], None] | None


#: Options that are whole numbers, with the least and the greatest value.
_NUMBERS = {
    "transactions": (1, LARGEST_COUNT),
    "references": (1, LARGEST_COUNT),
    "warmup": (0, LARGEST_COUNT),
    "replications": (1, 100_000),
    "seed": (0, LARGEST_SEED),
    "threads": (1, 65_536),
    "users": (1, 2**31),
}


def refuse_impossible(options: Mapping[str, Any]) -> None:
    """Refuse numbers that no run can have, before the native module cannot even take them."""
    for name, (least, most) in _NUMBERS.items():
        value = options.get(name)
        if not (name == "transactions" and value == "all"):
            whole(name, value, least, most)
