"""Capturing block requests of a Linux host through the kernel's trace events (tracefs).

Uses a trace instance of its own, so that it disturbs no other tracer: ``block_rq_insert``, ``block_rq_issue``
and ``block_rq_complete`` go to a ring buffer, a reader copies them to a file as text that the ``tracefs``
importer reads. A request arrives when it is inserted into the scheduler's queue or, given to the driver
directly, when it is issued: the place where the collection of Thornock et al. (1997) sat. What was asked
for before requests were merged (``block_bio_queue``) is left out: it doubles the cost of a request, and what was
merged never completes under its own name. Events lost are counted by the kernel and reported. The reader's own
writes carry its process name; the importer can flag or leave them out.
"""

import os
import select
import time
from pathlib import Path
from typing import Any

from servsim.errors import EnvironmentProblem, UsageError

#: Trace events recorded.
EVENTS = ("block_rq_insert", "block_rq_issue", "block_rq_complete")
#: Where tracefs is mounted.
TRACEFS = Path("/sys/kernel/tracing")
#: Ring buffer for each processor, KiB.
BUFFER_KIB = 16_384


def check(tracefs: Path = TRACEFS) -> None:
    """Raise if this host cannot capture.

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When tracefs is absent, not writable, or has no block events; the message says what to do.
    """
    if not (tracefs / "instances").is_dir():
        raise EnvironmentProblem(
            f"{tracefs} is not mounted; as root: mount -t tracefs tracefs {tracefs}, in a kernel with tracing"
        )
    if not os.access(tracefs / "instances", os.W_OK):
        raise EnvironmentProblem(f"{tracefs} is not writable; capture as root")
    if not (tracefs / "events" / "block" / "block_rq_complete").is_dir():
        raise EnvironmentProblem("this kernel has no block trace events (CONFIG_BLK_DEV_IO_TRACE)")


def _lost_events(instance: Path) -> int:
    """Events the kernel dropped or overwrote, over all processors."""
    lost = 0
    for stats in instance.glob("per_cpu/cpu*/stats"):
        for line in stats.read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("overrun", "dropped events"):
                lost += int(value)
    return lost


def capture(output: Path, seconds: float, tracefs: Path = TRACEFS) -> dict[str, Any]:
    """Record all block requests of this host for some time.

    Parameters
    ----------
    output
        Text file to write (format ``tracefs``).
    seconds
        How long; Ctrl-C ends it early and keeps what was recorded.
    tracefs
        Where tracefs is mounted.

    Returns
    -------
    dict
        ``seconds``, ``bytes`` written, ``lost_events``, ``reader_cpu_seconds`` (what the capture itself
        cost in processor time), ``tracer`` (process name to flag or leave out on import).

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When this host cannot capture.
    servsim.errors.UsageError
        When ``output`` cannot be written.
    """
    check(tracefs)
    try:
        output.touch()
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    instance = tracefs / "instances" / f"servsim-{os.getpid()}"
    instance.mkdir()
    began, cpu_began, written = time.monotonic(), time.process_time(), 0
    try:
        (instance / "buffer_size_kb").write_text(str(BUFFER_KIB))
        for event in EVENTS:
            enable = instance / "events" / "block" / event / "enable"
            if enable.exists():
                enable.write_text("1")
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            with output.open("wb") as sink:
                written = _copy(pipe, sink, began + seconds)
                for event in EVENTS:
                    enable = instance / "events" / "block" / event / "enable"
                    if enable.exists():
                        enable.write_text("0")
                written += _copy(pipe, sink, time.monotonic() + 0.2)
                lost = _lost_events(instance)
                sink.write(f"CPU:0 [LOST {lost} EVENTS]\n".encode() if lost else b"")
        finally:
            os.close(pipe)
    finally:
        instance.rmdir()
    return {
        "seconds": time.monotonic() - began,
        "bytes": written,
        "lost_events": lost,
        "reader_cpu_seconds": time.process_time() - cpu_began,
        "tracer": Path("/proc/self/comm").read_text().strip(),
    }


def _copy(pipe: int, sink: Any, until: float) -> int:
    """Copy what the pipe has until a time; Ctrl-C ends it early. Returns the bytes copied."""
    written = 0
    try:
        while (left := until - time.monotonic()) > 0:
            # Waking rarely, with much to write each time, keeps the reader's own requests few.
            time.sleep(min(left, 0.1))
            while select.select([pipe], [], [], 0)[0]:
                try:
                    data = os.read(pipe, 1 << 20)
                except BlockingIOError:
                    break
                if not data:
                    break
                sink.write(data)
                written += len(data)
    except KeyboardInterrupt:
        pass
    return written
