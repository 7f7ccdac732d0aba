"""Capturing a workload of which nothing is known but its folder: a user's own server, kernel included."""

from collections.abc import Callable, Sequence
from pathlib import Path

from servsim.capture.checkpoint import Checkpoint, ensure_checkpoint
from servsim.capture.emulator import Plugin
from servsim.capture.folder import FolderSettings
from servsim.capture.oltp import APART
from servsim.capture.record import Captured, description, record
from servsim.capture.steps import Report, silent


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
    checkpoint = ensure_checkpoint(settings, progress)
    lead_in = settings.users * (1 + APART * moment)
    made = {"transactions": transactions, "seed": seed, "lead_in": lead_in, "users": settings.users}
    meta = description(settings.folder, checkpoint, {**made, "settings": settings.described()})
    watching = observers(checkpoint) if observers else ()
    return record(checkpoint, meta, transactions, seed, output, progress, observers=watching, lead_in=lead_in)
