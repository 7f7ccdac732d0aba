"""One run of the guest: resumed from a checkpoint, given its orders, watched until it powers off.

The checkpoint is not changed: the root disk's layer is opened as a snapshot whose writes go to
an unnamed file, and every run has its own control disk. Any number of runs may go on at once.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.capture import control, ending, seal, store
from servsim.capture.boot import Running, emulator_running
from servsim.capture.checkpoint import Checkpoint
from servsim.capture.emulator import Plugin, find_emulator
from servsim.capture.steps import Report, silent
from servsim.errors import CheckFailed, EnvironmentProblem


@dataclass(frozen=True)
class GuestResult:
    """What a run left behind.

    Attributes
    ----------
    result
        The driver's result (JSON).
    ready_s
        Seconds of the host from the start of the emulator until the guest went on.
    elapsed_s
        Seconds of the host from then until the emulator had ended.
    console_log, emulator_log
        What the guest and the emulator printed.
    """

    result: dict[str, Any]
    ready_s: float
    elapsed_s: float
    console_log: Path
    emulator_log: Path


def resume(
    checkpoint: Checkpoint,
    transactions: int,
    seed: int,
    plugins: Sequence[Plugin] = (),
    timeout_s: float = 3600.0,
    progress: Report = silent,
    check: bool = True,
    lead_in: int | None = None,
    look: Callable[[], None] = lambda: None,
) -> GuestResult:
    """Resume a guest, have its driver run transactions, and wait until it powers off.

    Parameters
    ----------
    checkpoint
        From :func:`servsim.capture.checkpoint.ensure_checkpoint`.
    transactions
        Transactions to run, over all users.
    seed
        Seed of their requests.
    plugins
        Instrumentation to load.
    timeout_s
        Seconds of the host allowed for everything.
    progress
        Takes each line of progress.
    check
        Whether the driver checks the consistency conditions afterwards.
    lead_in
        Transactions before the measurement, over all users; without it one for each user.
    look
        Called several times a second while the guest runs; what it raises ends the run.

    Returns
    -------
    GuestResult
        The driver's result and where the logs are.

    Raises
    ------
    CheckFailed
        When the driver says the run is not valid or a consistency condition is violated.
    EnvironmentProblem
        When the emulator fails, the guest hangs, or leaves no result; the sentence names a log.
    """
    emulator = find_emulator()
    runs = store.guest_dir() / "runs"
    console, log = store.new_log("run-console"), store.new_log("run-emulator")
    with (
        store.scratch(runs, "run-") as folder,
        seal.Check(checkpoint.directory, checkpoint.image.directory) as sealed,
    ):
        disk = folder / "control.raw"
        orders = {"transactions": transactions, "seed": seed, "check": check, "lead_in": lead_in}
        control.create(disk, orders)
        # The snapshot's unnamed file belongs in the cache, not on a small /var/tmp.
        env = {**os.environ, "TMPDIR": str(folder)}
        began = time.monotonic()
        deadline = began + timeout_s
        machine = checkpoint.machine(disk, console)
        with (
            sealed.explains_failures(),
            emulator_running(
                emulator, machine, log, progress, incoming=checkpoint.state, plugins=plugins, env=env
            ) as running,
        ):

            def looks() -> None:
                sealed.found()
                look()

            running.look = looks
            _wait_loaded(running, deadline, log)
            ready = time.monotonic()
            progress(f"guest: resumed in {ready - began:.1f} s")
            running.qmp.command("cont")
            _wait_end(running, deadline, timeout_s)
            ended = time.monotonic()
            result = _result(disk, running)
    return GuestResult(result, ready - began, ended - ready, console, log)


def _wait_loaded(running: Running, deadline: float, log: Path) -> None:
    """Wait until the saved state has been read."""
    while running.qmp.command("query-status")["status"] == "inmigrate":
        if time.monotonic() > deadline:
            raise EnvironmentProblem(f"the checkpoint was not read in time; what the emulator said is in {log}")
        time.sleep(0.01)


def _wait_end(running: Running, deadline: float, timeout_s: float) -> None:
    """Wait for the power-off and the end of the emulator, which may still write a trace's end."""
    event = running.wait_event(("SHUTDOWN", "GUEST_PANICKED"), deadline - time.monotonic())
    if event is None:
        raise EnvironmentProblem(
            f"the guest did not finish within {timeout_s:.0f} s and {running.last_words()}; "
            f"its console is in {running.console}"
        )
    if event == "GUEST_PANICKED":
        raise EnvironmentProblem(f"the guest's kernel panicked; its console is in {running.console}")
    # Once the emulator is shutting down it ends by itself; the wait for a closed connection
    # passes on the guest's last words, and the process is waited for without a limit of its own.
    while running.process.poll() is None:
        if time.monotonic() > deadline:
            raise EnvironmentProblem(f"the emulator did not end within {timeout_s:.0f} s after the guest powered off")
        time.sleep(0.01)
    running.listen()
    if running.process.returncode != 0:
        raise EnvironmentProblem(
            f"the emulator failed with code {running.process.returncode}; the guest's console is in {running.console}"
        )


def _result(disk: Path, running: Running) -> dict[str, Any]:
    """Return the driver's result if its exit code says that the run is valid."""
    code, console = ending.code(running), f"its console is in {running.console}"
    if code is None:
        raise EnvironmentProblem(f"the guest ended before its driver did; {console}")
    if code == 1:
        raise CheckFailed(f"the run in the guest is not valid: {ending.why(running, disk, code)}; {console}")
    if code != 0:
        why = ending.why(running, disk, code)
        raise EnvironmentProblem(f"the driver in the guest failed with code {code}: {why}; {console}")
    return control.read_result(disk)
