"""Capturing the OLTP workload: PostgreSQL under a TPC-C-derived load, kernel included."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from servsim.capture import files
from servsim.capture.checkpoint import Checkpoint
from servsim.capture.emulator import Plugin
from servsim.capture.generic import take
from servsim.capture.record import Captured
from servsim.capture.settings import GuestSettings
from servsim.capture.steps import Report, silent
from servsim.capture.warmth import sentence


def capture(
    transactions: int,
    output: Path,
    users: int | None = None,
    progress: Report = silent,
    seed: int = 1,
    settings: GuestSettings | None = None,
    observers: Callable[[Checkpoint], Sequence[Plugin]] | None = None,
    moment: int = 0,
) -> Captured:
    """Capture transactions of PostgreSQL under the TPC-C-derived load.

    Parameters
    ----------
    transactions
        How many, over all users.
    output
        The trace to write.
    users
        Concurrent users, one server process each; the default is that of `GuestSettings`.
    progress
        Takes lines of progress.
    seed
        Seed of the requests.
    settings
        Scale of the database and size of the guest.
    observers
        Given the checkpoint, returns further plug-ins that watch the same run.
    moment
        Where the capture begins: so many times `generic.APART` transactions of each user after the guest went on.

    Returns
    -------
    Captured
        The trace and the reports of plug-in and driver.

    Raises
    ------
    EnvironmentProblem, CheckFailed
        See `servsim.capture.record.record`.
    """
    settings = settings or (GuestSettings(users=users) if users else GuestSettings())
    said = partial(_guest, settings)
    return take(transactions, output, settings, progress, seed, observers, moment, said, files.describe)


def _guest(settings: GuestSettings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the guest was, for whoever reads the trace: its scale, its warmth, every setting."""
    of_guest = asdict(settings)
    return {
        "scale": scale(settings),
        "warm_up": sentence(checkpoint.warm_up(), of_guest.pop("warmup")),
        "load_seed": of_guest.pop("seed"),
        **of_guest,
    }


def scale(settings: GuestSettings) -> str:
    """Say how large the database is, beside the specification's (TPC-C 5.11, clause 1.2.1).

    Examples
    --------
    >>> scale(GuestSettings())
    '200 warehouses of 3 districts of 30 customers, 100 items (TPC-C: 10 districts of 3,000 customers, 100,000 items)'
    """
    return (
        f"{settings.warehouses:,} warehouses of {settings.districts} districts of {settings.customers:,} customers, "
        f"{settings.items:,} items (TPC-C: 10 districts of 3,000 customers, 100,000 items)"
    )
