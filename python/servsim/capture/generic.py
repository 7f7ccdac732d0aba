"""Capturing a workload of which nothing is known but its folder: a user's own server, kernel included.

What every capture does with a checkpoint stands here too (`take`), for workloads of which more is known.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from servsim.capture.checkpoint import Checkpoint, ensure_checkpoint
from servsim.capture.emulator import Plugin
from servsim.capture.folder import FolderSettings
from servsim.capture.record import Captured, description, record
from servsim.capture.settings import GuestSettings
from servsim.capture.steps import Report, silent

#: Transactions of each user between the beginnings of two captures of one series.
APART = 4


def capture(
    transactions: int,
    output: Path,
    settings: FolderSettings,
    progress: Report = silent,
    seed: int = 1,
    observers: Callable[[Checkpoint], Sequence[Plugin]] | None = None,
    moment: int = 0,
) -> Captured:
    """Capture transactions of the workload of a folder.

    Parameters
    ----------
    transactions
        How many, over all users.
    output
        The trace to write.
    settings
        The folder, with values for its settings.
    progress
        Takes lines of progress.
    seed
        Seed of the requests.
    observers
        Given the checkpoint, returns further plug-ins that watch the same run.
    moment
        Where the capture begins: so many times `APART` transactions of each user after the guest went on.

    Returns
    -------
    Captured
        The trace and the reports of plug-in and client.

    Raises
    ------
    EnvironmentProblem, CheckFailed
        See `servsim.capture.record.record`.
    """
    said = {"users": settings.users, "settings": settings.described()}
    return take(transactions, output, settings, progress, seed, observers, moment, lambda _: said)


def take(
    transactions: int,
    output: Path,
    settings: FolderSettings | GuestSettings,
    progress: Report,
    seed: int,
    observers: Callable[[Checkpoint], Sequence[Plugin]] | None,
    moment: int,
    said: Callable[[Checkpoint], Mapping[str, Any]],
    files: Callable[[Path, str], str] | None = None,
) -> Captured:
    """Capture from the checkpoint of some settings; parameters and errors as for `capture`, and two more.

    Parameters
    ----------
    said
        What the trace says of the guest beside the orders, given the checkpoint.
    files
        Describes the data of the guest's tree on a device, for workloads whose data can be described.
    """
    checkpoint = ensure_checkpoint(settings, progress)
    lead_in = settings.users * (1 + APART * moment)
    orders = {"transactions": transactions, "seed": seed, "lead_in": lead_in}
    meta = description(settings.folder, checkpoint, {**orders, **said(checkpoint)})
    if files is not None:
        meta["files"] = files(checkpoint.image.root, meta["devices"][0])
    watching = observers(checkpoint) if observers else ()
    return record(
        checkpoint,
        meta,
        transactions,
        seed,
        output,
        progress,
        observers=watching,
        lead_in=lead_in,
        describes_data=files is not None,
    )
