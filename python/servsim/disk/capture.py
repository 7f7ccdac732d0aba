"""Capturing block requests of a Linux host through the kernel's trace events (tracefs).

Uses a trace instance of its own, so that it disturbs no other tracer: ``block_rq_insert``, ``block_rq_issue``
and ``block_rq_complete`` go to a ring buffer, a reader copies its pages to a file, and when the capture ends they
become text that the ``tracefs`` importer reads. A request arrives when it is inserted into the scheduler's queue
or, given to the driver directly, when it is issued: the place where the collection of Thornock et al. (1997) sat.
What was asked for before requests were merged (``block_bio_queue``) is left out: it doubles the cost of a request,
and what was merged never completes under its own name. Events lost are counted by the kernel and reported. The
reader's own writes carry its process name; the importer can flag or leave them out.
"""

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from servsim.disk import ring
from servsim.errors import EnvironmentProblem, UsageError

#: Trace events recorded.
EVENTS = ("block_rq_insert", "block_rq_issue", "block_rq_complete")
#: Where tracefs is mounted.
TRACEFS = Path("/sys/kernel/tracing")
#: Ring buffer for each processor, KiB.
BUFFER_KIB = 16_384
#: Time between two looks at the ring buffer, s: waking rarely, with much to copy each time, keeps the reader's own
#: requests few. The buffer of a processor lasts for 0.8 s of 100,000 requests/s.
PERIOD_S = 0.2


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


def _others_trace(tracefs: Path) -> bool:
    """Whether someone else records events now."""
    return any(path.read_text().strip() for path in [tracefs / "set_event", *tracefs.glob("instances/*/set_event")])


class Instance:
    """A trace instance for block events, from entering to leaving.

    Parameters
    ----------
    folder
        Where the pages are kept meanwhile, in files without a name.
    tracefs
        Where tracefs is mounted.
    """

    def __init__(self, folder: Path, tracefs: Path = TRACEFS) -> None:
        self._events = tracefs / "events"
        self._path = tracefs / "instances" / f"servsim-{os.getpid()}"
        # To note the names of processes, every change of process is traced too: a third of the whole cost, and
        # the events bring the name along. The setting reaches what others record, so it stays if they do.
        self._names_processes = _others_trace(tracefs)
        self._folder = folder
        self._pipes: dict[int, int] = {}
        self._spools: dict[int, IO[bytes]] = {}
        self._size = ring.page_bytes(self._events)
        self._open = ExitStack()

    def __enter__(self) -> "Instance":
        self._path.mkdir()
        self._open.callback(self._path.rmdir)
        try:
            (self._path / "buffer_size_kb").write_text(str(BUFFER_KIB))
            if not self._names_processes:
                (self._path / "trace_options").write_text("norecord-cmd")
            for path in self._path.glob("per_cpu/cpu*/trace_pipe_raw"):
                processor = int(path.parent.name.removeprefix("cpu"))
                self._pipes[processor] = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                self._open.callback(os.close, self._pipes[processor])
                spool = tempfile.TemporaryFile(dir=self._folder, buffering=1 << 20)
                self._spools[processor] = self._open.enter_context(spool)
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.record(False)
        self._open.close()

    def record(self, on: bool) -> None:
        """Begin or stop to record."""
        for event in EVENTS:
            enable = self._path / "events" / "block" / event / "enable"
            if enable.exists():
                enable.write_text("1" if on else "0")

    def copy(self) -> None:
        """Copy what has been recorded to the files."""
        for processor, pipe in self._pipes.items():
            spool = self._spools[processor]
            try:
                while data := os.read(pipe, self._size):
                    spool.write(data)
            except BlockingIOError:
                pass

    def lost_events(self) -> int:
        """Events the kernel dropped or overwrote, over all processors."""
        lost = 0
        for stats in self._path.glob("per_cpu/cpu*/stats"):
            for line in stats.read_text().splitlines():
                name, _, value = line.partition(":")
                if name in ("overrun", "dropped events"):
                    lost += int(value)
        return lost

    def write(self, sink: IO[bytes]) -> int:
        """Write what was copied to ``sink`` as text, in order of time; return the bytes."""
        formats = [self._events / "block" / event / "format" for event in EVENTS]
        layouts = dict(ring.layout_of(path.read_text()) for path in formats if path.exists())
        for spool in self._spools.values():
            spool.seek(0)
        return sum(sink.write(line) for line in ring.lines(self._spools, self._size, layouts))


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
        ``seconds``, ``bytes`` written, ``lost_events``, ``reader_cpu_seconds`` (processor time of the reader while
        it recorded), ``other_cpu_seconds`` (its processor time before and after), ``tracer`` (process name to flag
        or leave out on import).

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
    cpu_began = time.process_time()
    with Instance(output.parent, tracefs) as instance:
        began, set_up = time.monotonic(), time.process_time()
        instance.record(True)
        _copy(instance, began + seconds)
        instance.record(False)
        instance.copy()
        seconds, reader = time.monotonic() - began, time.process_time() - set_up
        lost = instance.lost_events()
        with output.open("wb") as sink:
            written = instance.write(sink)
            sink.write(f"CPU:0 [LOST {lost} EVENTS]\n".encode() if lost else b"")
    return {
        "seconds": seconds,
        "bytes": written,
        "lost_events": lost,
        "reader_cpu_seconds": reader,
        "other_cpu_seconds": time.process_time() - cpu_began - reader,
        "tracer": Path("/proc/self/comm").read_text().strip(),
    }


def _copy(instance: Instance, until: float) -> None:
    """Copy what is recorded until a time; Ctrl-C ends it early."""
    try:
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, PERIOD_S))
            instance.copy()
    except KeyboardInterrupt:
        pass
