"""Capturing block requests of a Linux host.

The kernel tells of three events of a request: it is inserted, issued, completed. Two methods take them: a program in
the kernel (``bpf``), and the kernel's own trace events (``tracefs``), which cost a request more and need less of a
host. Both keep what happened in memory that a reader copies to a file, and make text of it when the capture ends,
which the ``tracefs`` importer reads. A request arrives when it is inserted into the scheduler's queue or, given to the
driver directly, when it is issued: the place where the collection of Thornock et al. (1997) sat. What was asked for
before requests were merged (``block_bio_queue``) is left out: it doubles the cost of a request, and what was merged
never completes under its own name. Events lost are counted and reported. The reader's own writes carry its process
name; the importer can flag or leave them out.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from servsim.disk import bpf, tracefs
from servsim.disk.chosen import Chosen, Sink, number_of
from servsim.disk.tracefs import TRACEFS
from servsim.errors import EnvironmentProblem, UsageError
from servsim.files import atomic_writer

#: Ways to capture, the cheapest first; ``auto`` takes the first that this host allows.
METHODS = ("bpf", "tracefs")


class Recorder(AbstractContextManager["Recorder"], Protocol):
    """A method at work, from entering to leaving."""

    #: Time between two looks at what has been recorded, s: waking rarely, with much to copy each time, keeps the
    #: reader's time and its own requests few.
    period_s: float

    def record(self, on: bool) -> None:
        """Begin or stop to record."""

    def copy(self, rest: bool = False) -> None:
        """Copy what has been recorded to files; what is little may stay where it is, unless ``rest``."""

    def lost_events(self) -> int:
        """Events that happened and were not recorded."""

    def write(self, sink: Sink) -> int:
        """Write what was copied to ``sink`` as text, in order of time; return the bytes."""


def choose(method: str = "auto", mounted: Path = TRACEFS) -> tuple[str, str | None]:
    """Return the method that is used here.

    Parameters
    ----------
    method
        One of :data:`METHODS`, or ``auto``.
    mounted
        Where tracefs is mounted.

    Returns
    -------
    tuple
        The method, and why it is not the cheapest one, in one sentence; None if it is, or was asked for.

    Raises
    ------
    servsim.errors.UsageError
        When there is no such method.
    servsim.errors.EnvironmentProblem
        When this host does not allow it.
    """
    if method == "bpf":
        bpf.check()
        return method, None
    if method == "tracefs":
        tracefs.check(mounted)
        return method, None
    if method != "auto":
        raise UsageError(f"no method `{method}`: choose auto, {' or '.join(METHODS)}")
    try:
        bpf.check()
    except EnvironmentProblem as problem:
        reason = str(problem)
    else:
        return "bpf", None
    try:
        tracefs.check(mounted)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(f"nothing can be captured: by bpf, {reason}; by tracefs, {problem}") from None
    return "tracefs", reason


def recorder(method: str, folder: Path, mounted: Path = TRACEFS) -> Recorder:
    """Return a method ready to be entered; ``folder`` takes its files without names."""
    return bpf.Rings(folder) if method == "bpf" else tracefs.Instance(folder, mounted)


def capture(
    output: Path,
    seconds: float,
    method: str = "auto",
    mounted: Path = TRACEFS,
    devices: Sequence[str] = (),
    processes: Sequence[str] = (),
) -> dict[str, Any]:
    """Record the block requests of this host for some time.

    Parameters
    ----------
    output
        Text file to write (format ``tracefs``).
    seconds
        How long; Ctrl-C ends it early and keeps what was recorded.
    method
        One of :data:`METHODS`, or ``auto`` for the cheapest that this host allows. Where that is ``bpf`` and it
        loses events, ``auto`` captures once more, for the same time, through ``tracefs``, and keeps what lost fewer.
    mounted
        Where tracefs is mounted.
    devices
        Keep the requests of these disks only (``sda``, ``/dev/sda`` or ``8,0``).
    processes
        Keep what processes of these names asked for only.

    Returns
    -------
    dict
        ``method`` and ``method_reason`` (see :func:`choose`), ``seconds``, ``bytes`` written, ``lost_events``,
        ``reader_cpu_seconds`` (processor time of the reader while it recorded), ``other_cpu_seconds`` (its processor
        time before and after), ``tracer`` (process name to flag or leave out on import).

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When this host cannot capture, or ``output`` cannot be written.
    servsim.errors.UsageError
        When nothing can be called ``output``, or there is no such method.
    """
    numbers = [number_of(name) for name in devices]
    chosen, reason = choose(method, mounted)
    cpu_began = time.process_time()
    with atomic_writer(output, "wb") as sink, ExitStack() as open_instances:

        def run(method: str) -> _Run:
            return _run(open_instances.enter_context(recorder(method, output.parent, mounted)), seconds)

        kept = run(chosen)
        if method == "auto" and chosen == "bpf" and kept.lost and not kept.interrupted and _works(mounted):
            again = run("tracefs")
            if again.lost < kept.lost and not again.interrupted:
                chosen, reason = "tracefs", f"a first capture of the same length by bpf lost {kept.lost} events"
                kept = again
        written = kept.instance.write(Chosen(sink, numbers, processes))
        sink.write(f"CPU:0 [LOST {kept.lost} EVENTS]\n".encode() if kept.lost else b"")
    return {
        "method": chosen,
        "method_reason": reason,
        "seconds": kept.seconds,
        "bytes": written,
        "lost_events": kept.lost,
        "reader_cpu_seconds": kept.reader_cpu_seconds,
        "other_cpu_seconds": time.process_time() - cpu_began - kept.reader_cpu_seconds,
        "tracer": Path("/proc/self/comm").read_text().strip(),
    }


@dataclass(frozen=True)
class _Run:
    """What one recording held."""

    instance: Recorder
    seconds: float
    reader_cpu_seconds: float
    lost: int
    interrupted: bool


def _run(instance: Recorder, seconds: float) -> _Run:
    began, set_up = time.monotonic(), time.process_time()
    interrupted = _record(instance, began + seconds)
    taken, reader = time.monotonic() - began, time.process_time() - set_up
    return _Run(instance, taken, reader, instance.lost_events(), interrupted)


def _works(mounted: Path) -> bool:
    """Whether this host allows the method that loses nothing where programs are not run."""
    try:
        tracefs.check(mounted)
    except EnvironmentProblem:
        return False
    return True


def _record(instance: Recorder, until: float) -> bool:
    """Record until a time, copying now and then; Ctrl-C ends it early, and then the result is true."""
    interrupted = False
    instance.record(True)
    try:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, instance.period_s))
            instance.copy()
    except KeyboardInterrupt:
        interrupted = True
    instance.record(False)
    instance.copy(rest=True)
    return interrupted
