"""Recording a trace: a guest resumed under the capture plug-in, its trace checked, then named.

The plug-in writes beside the final name. Only when the driver in the guest says that its run was
valid, the consistency conditions hold, and the marks in the trace are as many as the driver's
replies, does the trace get its name; in every other case nothing is left behind.
"""

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.cache import checkout
from servsim.capture import room, shared_memory, store
from servsim.capture.checkpoint import Checkpoint
from servsim.capture.emulator import Plugin, find_emulator
from servsim.capture.facts_for_plugin import write_facts
from servsim.capture.folder import Folder
from servsim.capture.run import resume
from servsim.capture.steps import Report, silent
from servsim.errors import CheckFailed, EnvironmentProblem, UsageError

#: Block devices of the guest: its root disk and the control disk.
DEVICES = ("vda", "vdb")
#: Seconds between two looks at how far the guest is.
_PROGRESS_S = 1.0


@dataclass(frozen=True)
class Captured:
    """A trace and what is known of its making.

    Attributes
    ----------
    trace
        The trace file.
    summary
        The plug-in's report: totals, switches, checks of its own.
    driver
        The driver's result in the guest: transactions by kind, consistency, marks.
    ready_s, elapsed_s
        Seconds of the host until the guest went on, and from then until it had powered off.
    provenance
        What the trace says about its making.
    """

    trace: Path
    summary: dict[str, Any]
    driver: dict[str, Any]
    ready_s: float
    elapsed_s: float
    provenance: dict[str, Any]

    def as_document(self) -> dict[str, Any]:
        """Return the document ``servsim.capture/1``."""
        counts = self.summary["totals"]["counts"]
        loads_and_stores = (f"{mode}_{what}" for mode in ("user", "kernel") for what in ("loads", "stores"))
        references = sum(counts[name] for name in loads_and_stores)
        size = self.trace.stat().st_size
        return {
            "schema": "servsim.capture/1",
            "trace": str(self.trace),
            "file_bytes": size,
            "data_references": references,
            "instructions": counts["user_instructions"] + counts["kernel_instructions"],
            "transactions": self.summary["totals"]["transactions"],
            "bytes_per_data_reference": size / references,
            "data_references_per_second": references / self.summary["recording_seconds"],
            "resume_seconds": self.ready_s,
            "guest_seconds": self.elapsed_s,
            "provenance": self.provenance,
            "plugin": self.summary,
            "driver": self.driver,
        }


def record(
    checkpoint: Checkpoint,
    folder: Folder,
    meta: dict[str, Any],
    transactions: int,
    seed: int,
    output: Path,
    progress: Report = silent,
    timeout_s: float = 7200.0,
    observers: Sequence[Plugin] = (),
    lead_in: int | None = None,
) -> Captured:
    """Resume a guest under the capture plug-in and keep the trace if the run was valid.

    Parameters
    ----------
    checkpoint
        Where the guest goes on from.
    folder
        The workload.
    meta
        What the trace says about itself (workload, transaction kinds, devices, provenance).
    transactions, seed
        Orders for the driver in the guest.
    output
        Name of the trace; an older file of that name is replaced only by a valid one.
    progress
        Takes lines of progress.
    timeout_s
        Seconds of the host allowed.
    observers
        Further plug-ins that watch the same run.
    lead_in
        Transactions before those that are recorded, over all users; without it one for each user.

    Raises
    ------
    CheckFailed
        When the driver says the run is not valid, or the trace's marks are not its replies.
    EnvironmentProblem
        When the emulator, the plug-in or the disk fails; the sentence names the cause.
    UsageError
        When the client ends a transaction of a kind that the folder does not declare.
    """
    plugin = plugin_path()
    if output.exists() and not output.is_file():
        raise UsageError(f"{output} is not a file: a trace cannot take its place; choose another name with -o")
    needed = room.for_trace(transactions)
    room.demand(store.existing(output), needed, f"a trace of {transactions:,} transactions", "or name another with -o")
    # A folder of its own beside the final name: two captures of one name never meet, and what a killed
    # one leaves the next one removes.
    with (
        store.scratch(output.absolute().parent, f".{output.name}.capture-") as beside,
        store.scratch(store.guest_dir() / "runs", "capture-") as work,
    ):
        unchecked, facts, summary_file = beside / output.name, work / "facts.json", work / "summary.json"
        try:
            write_facts(checkpoint, folder, facts, unchecked, summary_file, meta)
        except OSError as error:
            raise EnvironmentProblem(
                f"the cache {work.parent} cannot be written ({error}); free some room, or set SERVSIM_CACHE"
            ) from error
        with _progress_of(summary_file.with_suffix(".count"), transactions, progress):
            loaded = (Plugin(plugin, (("facts", str(facts)),)), *observers)

            def look() -> None:
                # A report before the end is one of a capture that was given up: the rest of the run is for nothing.
                if summary_file.exists():
                    _summary(summary_file, summary_file, folder)

            run = resume(checkpoint, transactions, seed, loaded, timeout_s, progress, lead_in=lead_in, look=look)
        summary = _summary(summary_file, run.emulator_log, folder)
        _compare(summary, run.result)
        if "data" in run.result:
            _core.trace_describe_shared_data(unchecked, shared_memory.text(run.result.pop("data")))
        unchecked.replace(output)
    return Captured(output, summary, run.result, run.ready_s, run.elapsed_s, meta.get("provenance", {}))


def description(folder: Folder, checkpoint: Checkpoint, provenance: dict[str, Any]) -> dict[str, Any]:
    """Return what a trace says about itself: its workload, its kinds of transactions, how it was made."""
    return {
        "workload": folder.summary,
        "provenance": {
            "emulator": f"QEMU {find_emulator().version}, one captured processor",
            "checkpoint": checkpoint.directory.name,
            **provenance,
        },
        "per_cpu_area": [0, 0],
        "transaction_kinds": ["none", *folder.transactions],
        "devices": list(DEVICES),
    }


def plugin_path() -> Path:
    """Return the capture plug-in: ``SERVSIM_CAPTURE_PLUGIN``, else the one that ``make build`` left.

    Raises
    ------
    EnvironmentProblem
        When it is not there.
    """
    return built_library("SERVSIM_CAPTURE_PLUGIN", "libservsim_capture.so")


def built_library(variable: str, name: str) -> Path:
    """Return a library named by an environment variable or left in ``target/release`` by the build."""
    given = os.environ.get(variable)
    path = Path(given) if given else checkout("capturing a workload") / "target" / "release" / name
    if not path.is_file():
        raise EnvironmentProblem(f"the plug-in {path} is missing; run `make build`, or name it in {variable}")
    return path.absolute()


@contextlib.contextmanager
def _progress_of(count: Path, transactions: int, progress: Report) -> Iterator[None]:
    """Report how many transactions have ended while the guest runs; the plug-in counts them in a file."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_PROGRESS_S):
            # The file is not there before the first, and may be seen while it is written.
            with contextlib.suppress(OSError, ValueError):
                ended = int(count.read_text())
                if ended >= transactions:  # how long the checks take is known to nobody
                    progress(f"captured {transactions:,} transactions; the guest checks its data", None)
                    return
                progress(f"capturing: {ended:,} of {transactions:,} transactions", ended / transactions)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _summary(path: Path, log: Path, folder: Folder) -> dict[str, Any]:
    """Read the plug-in's report; that of a capture which failed is an error."""
    try:
        summary: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        raise EnvironmentProblem(f"the capture plug-in left no report; what the emulator said is in {log}") from None
    if summary["undeclared_kind"] is not None:
        raise UsageError(f"the capture was given up: {folder.undeclared(summary['undeclared_kind'])}")
    if summary["error"]:
        raise EnvironmentProblem(f"the capture failed: {summary['error']}")
    return summary


def _compare(summary: dict[str, Any], driver: dict[str, Any]) -> None:
    """Compare the marks in the trace with the replies that the driver counted."""
    marked, replied = summary["totals"]["transactions"], driver["orders"]["transactions"]
    if marked != replied:
        raise CheckFailed(f"the trace has {marked} transaction marks but the driver ran {replied} transactions")
    if summary["stale_translations"]:
        raise CheckFailed(
            f"{summary['stale_translations']} of {summary['checked_translations']} remembered address "
            "translations were stale; this emulator does not announce all changes of address spaces"
        )
