"""Capturing a workload: from its folder, with values for its settings, to a trace; kernel included."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from servsim.capture.checkpoint import Checkpoint, ensure_checkpoint
from servsim.capture.emulator import Plugin
from servsim.capture.folder_settings import FolderSettings
from servsim.capture.record import DEVICES, Captured, description, record
from servsim.capture.steps import Report, silent
from servsim.capture.warmth import sentence
from servsim.workloads import driver

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
    checkpoint = ensure_checkpoint(settings, progress)
    lead_in = settings.users * (1 + APART * moment)
    orders = {"transactions": transactions, "seed": seed, "lead_in": lead_in}
    meta = description(settings.folder, checkpoint, {**orders, **_said(settings, checkpoint)})
    if settings.folder.has("files"):
        meta["files"] = driver.answer(settings.folder.path / "files", [checkpoint.image.root, DEVICES[0]])
    watching = observers(checkpoint) if observers else ()
    return record(
        checkpoint,
        settings.folder,
        meta,
        transactions,
        seed,
        output,
        progress,
        observers=watching,
        lead_in=lead_in,
    )


def _said(settings: FolderSettings, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what the trace says of the guest beside the orders: its scale, its warmth, every setting."""
    report, given = checkpoint.warm_up(), settings.values().get("warm_up", "")
    told: dict[str, Any] = {"users": settings.users, "settings": settings.described()}
    if settings.folder.data:
        told["scale"] = settings.data()
    if report is not None or given.isdecimal():
        told["warm_up"] = sentence(report, int(given) if given.isdecimal() else None)
    return told
