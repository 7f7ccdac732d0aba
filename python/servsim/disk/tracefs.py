"""Block requests of a Linux host from the kernel's trace events (tracefs).

Uses a trace instance of its own, so that it disturbs no other tracer: the events go to a ring buffer, a reader
copies its pages to a file, and when the capture ends they become text. Events lost are counted by the kernel.
"""

import os
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from servsim.disk import ring
from servsim.disk.chosen import Sink
from servsim.errors import EnvironmentProblem

#: Trace events recorded.
EVENTS = ("block_rq_insert", "block_rq_issue", "block_rq_complete")
#: Where tracefs is mounted.
TRACEFS = Path("/sys/kernel/tracing")
#: The clock of events: one for all processors, kept to true seconds, and the one that the other method reads. It costs
#: what the default does, which each processor counts for itself.
CLOCK = "mono"
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


def _others_trace(tracefs: Path) -> bool:
    """Whether someone else records events now."""
    return any(path.read_text().strip() for path in [tracefs / "set_event", *tracefs.glob("instances/*/set_event")])


def _remove_abandoned(instances: Path) -> None:
    """Remove the instances of captures that were killed: the kernel would record into them for ever."""
    for path in instances.glob("servsim-*"):
        if not Path("/proc", path.name.removeprefix("servsim-")).exists():
            with suppress(OSError):
                path.rmdir()


class Instance:
    """A trace instance for block events, from entering to leaving.

    Parameters
    ----------
    folder
        Where the pages are kept meanwhile, in files without a name.
    tracefs
        Where tracefs is mounted.
    """

    #: The buffer of a processor lasts for 0.8 s of 100,000 requests/s.
    period_s = 0.2

    def __init__(self, folder: Path, tracefs: Path = TRACEFS) -> None:
        self._events = tracefs / "events"
        self._path = tracefs / "instances" / f"servsim-{os.getpid()}"
        self._folder = folder
        self._pipes: dict[int, int] = {}
        self._spools: dict[int, IO[bytes]] = {}
        self._size = ring.page_bytes(self._events)
        self._open = ExitStack()

    def __enter__(self) -> "Instance":
        _remove_abandoned(self._path.parent)
        # To note the names of processes, every change of process is traced too: a third of the whole cost, and
        # the events bring the name along. The setting reaches what others record, so it stays if they do.
        names_processes = _others_trace(self._events.parent)
        self._path.mkdir()
        self._open.callback(self._path.rmdir)
        try:
            (self._path / "buffer_size_kb").write_text(str(BUFFER_KIB))
            (self._path / "trace_clock").write_text(CLOCK)
            if not names_processes:
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

    def copy(self, rest: bool = False) -> None:
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

    def write(self, sink: Sink) -> int:
        """Write what was copied to ``sink`` as text, in order of time; return the bytes."""
        formats = [self._events / "block" / event / "format" for event in EVENTS]
        layouts = dict(ring.layout_of(path.read_text()) for path in formats if path.exists())
        for spool in self._spools.values():
            spool.seek(0)
        return sum(sink.write(line) for line in ring.text_of(self._spools, self._size, layouts))
