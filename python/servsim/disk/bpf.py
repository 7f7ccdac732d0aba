"""Block requests of a Linux host from a small program in the kernel (BPF), at less cost than trace events.

The program (``crates/servsim-py/bpf/block_requests.bpf.c``) runs where the kernel's trace events ``block_rq_insert``,
``block_rq_issue`` and ``block_rq_complete`` would be made and notes the same facts, in a ring of each processor that
lies in this process's memory too. Events that found their ring full, that came while the same part of the program was
running on their processor, or that the kernel counted and did not run it for, are counted as lost. Nothing is left in
the kernel, however this process ends.
"""

import errno
import mmap
import os
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from servsim import _core
from servsim.disk import libbpf
from servsim.disk.chosen import Sink
from servsim.disk.diskstats import completed
from servsim.disk.lines import line
from servsim.errors import EnvironmentProblem

#: Events in the ring of a processor, a power of two: 16 MiB, which last for 1.3 s of 100,000 requests/s.
PLACES = 1 << 18
#: Share of a ring that is worth a copy.
WORTH = 0.25

#: A record, as the program has it (``struct event``).
EVENT = np.dtype(
    [
        ("serial", "u8"),
        ("time_ns", "u8"),
        ("sector", "u8"),
        ("device", "u4"),
        ("flags", "u4"),
        ("bytes", "u4"),
        ("error", "i4"),
        ("pid", "i4"),
        ("kind", "u2"),
        ("processor", "u2"),
        ("process", "S16"),
    ]
)
#: The words of a ring (``struct ring``) and their places in it.
RING_WORDS, RESERVED, LOST, TAKEN = 16, 0, 1, 8
#: Names of the events by kind, and the parts of the program that note them.
NAMES = (b"block_rq_insert", b"block_rq_issue", b"block_rq_complete")
PARTS = ("servsim_insert", "servsim_issue", "servsim_complete")
COMPLETE = 2

#: Bits of a request's flags that hold its operation (Linux, include/linux/blk_types.h, REQ_OP_BITS).
_OPERATION = 0xFF
#: What the kernel gives for the outcome of a request (block/blk-core.c, blk_errors), as far as all versions agree;
#: for others it gives EIO.
_ERRORS = (
    0,
    errno.EOPNOTSUPP,
    errno.ETIMEDOUT,
    errno.ENOSPC,
    errno.ENOLINK,
    errno.EREMOTEIO,
    errno.EBADE,
    errno.ENODATA,
    errno.EILSEQ,
    errno.ENOMEM,
    errno.EIO,
    errno.EREMCHG,
    errno.EAGAIN,
    errno.EBUSY,
)
#: Events made text at a time.
_CHUNK = 1 << 14


def check() -> None:
    """Raise if this host cannot capture so.

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When the program was not built, libbpf is missing, or the kernel refuses the program.
    """
    Words.of_this_kernel()
    _load(1, 128).close()


def _load(processors: int, places: int) -> libbpf.Program:
    code = _core.disk_capture_program()
    if code is None:
        raise EnvironmentProblem(
            "servsim was built without clang (`apt-get install clang libbpf-dev`, then build it again)"
        )
    known = 1 + _last_processor("possible")
    return libbpf.Program(code, {"rings": known, "events": processors * places}, struct.pack("=I", places))


def _last_processor(which: str) -> int:
    """Return the last number in a list of the kernel's such as ``0-3,8``."""
    text = Path("/sys/devices/system/cpu", which).read_text(encoding="ascii").strip()
    return int(text.replace("-", ",").split(",")[-1])


class Words:
    """The letters that the kernel writes for the flags of a request (``blk_fill_rwbs``).

    Parameters
    ----------
    operations
        Values by name, of the kernel's ``enum req_op``.
    bits
        Numbers of bits by name, of its ``enum req_flag_bits``.
    """

    def __init__(self, operations: dict[str, int], bits: dict[str, int]) -> None:
        letters = {"READ": b"R", "WRITE": b"W", "FLUSH": b"F", "DISCARD": b"D", "SECURE_ERASE": b"DE"}
        self._operations = {operations[f"REQ_OP_{name}"]: word for name, word in letters.items()}
        # Commands for the drive itself have no place on it.
        self._commands = {operations[name] for name in ("REQ_OP_DRV_IN", "REQ_OP_DRV_OUT")}
        #: Operations that the kernel does not count as reads or writes.
        self.uncounted = [operations["REQ_OP_FLUSH"], operations["REQ_OP_DISCARD"]]
        self._preflush = 1 << bits["__REQ_PREFLUSH"]
        tail = {"FUA": b"F", "RAHEAD": b"A", "SYNC": b"S", "META": b"M", "ATOMIC": b"U"}
        self._tail = [(1 << bits[f"__REQ_{name}"], letter) for name, letter in tail.items() if f"__REQ_{name}" in bits]
        self.of = cache(self._of)

    @classmethod
    def of_this_kernel(cls) -> "Words":
        """Return the letters for the flags of the running kernel."""
        return cls(libbpf.enumerators("req_op", "req_opf"), libbpf.enumerators("req_flag_bits"))

    def _of(self, flags: int) -> tuple[bytes, bool]:
        """Return the letters, and whether it is a command for the drive itself."""
        operation = flags & _OPERATION
        head = b"F" if flags & self._preflush else b""
        tail = b"".join(letter for bit, letter in self._tail if flags & bit)
        return head + self._operations.get(operation, b"N") + tail, operation in self._commands


def text_of(events: npt.NDArray[Any], words: Words) -> Iterator[bytes]:
    """Yield events as lines, in order of time.

    Parameters
    ----------
    events
        Of the type :data:`EVENT`, in any order.
    words
        The letters for their flags.
    """
    order = np.argsort(events["time_ns"], kind="stable")
    for first in range(0, len(order), _CHUNK):
        for event in events[order[first : first + _CHUNK]].tolist():
            yield _line(event, words)


def _line(event: tuple[Any, ...], words: Words) -> bytes:
    _, time_ns, sector, device, flags, size, error, pid, kind, processor, process = event
    rwbs, command = words.of(flags)
    sectors, told, last = size >> 9, None, b"%d" % _errno(error)
    if kind != COMPLETE:
        told, last = size, process
        # A request without a place has -1, for which the kernel writes 0.
        if command or sector == 2**64 - 1:
            sector = 0
        if command:
            sectors = 0
    return line(NAMES[kind], processor, time_ns, pid, device, rwbs, told, b"", sector, sectors, last)


def _errno(error: int) -> int:
    """Return an outcome as the trace event has it; before Linux 5.16 it comes so."""
    if error < 0:
        return error
    return -(_ERRORS[error] if error < len(_ERRORS) else errno.EIO)


class Rings:
    """The program in the kernel and its rings, from entering to leaving.

    Parameters
    ----------
    folder
        Where records are kept meanwhile, in a file without a name.
    places
        Events in the ring of a processor, a power of two of at least 128.
    """

    #: What is not worth a copy yet leaves room for 1 s of 100,000 requests/s.
    period_s = 0.5

    def __init__(self, folder: Path, places: int = PLACES) -> None:
        self._folder = folder
        self._places = places
        self._processors = 1 + _last_processor("online")
        self._open = ExitStack()
        self._began: Counter[int] | None = None
        self._expected: Counter[int] = Counter()

    def __enter__(self) -> "Rings":
        self._words = Words.of_this_kernel()
        try:
            self._program = _load(self._processors, self._places)
            self._open.callback(self._program.close)
            self._spool: IO[bytes] = self._open.enter_context(tempfile.TemporaryFile(dir=self._folder))
            self._rings = self._map("rings", "u8", RING_WORDS * (1 + _last_processor("possible"))).reshape(
                -1, RING_WORDS
            )
            self._events = self._map("events", EVENT, self._processors * self._places).reshape(
                self._processors, self._places
            )
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The memory is given back when nothing refers to it.
        del self._rings, self._events
        self._open.close()

    def _map(self, name: str, kind: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        kind = np.dtype(kind)
        size = -(-count * kind.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(self._program.map_descriptor(name), size)
        return np.frombuffer(memory, kind, count)

    def record(self, on: bool) -> None:
        """Begin or stop to record."""
        # The kernel's count is taken within the time of recording, so that no event of it may be missing.
        if on:
            self._program.attach(*PARTS)
            self._began = completed()
        else:
            if self._began is not None:
                self._expected += completed() - self._began
                self._began = None
            self._program.detach()

    def copy(self, rest: bool = False) -> None:
        """Copy what has been recorded to the file.

        Parameters
        ----------
        rest
            All of it; else only rings of which a share of :data:`WORTH` is taken up. The others can wait: a copy costs
            as much as thousands of records, and may cause requests of its own.
        """
        for ring, events in zip(self._rings, self._events, strict=False):
            taken, reserved = int(ring[TAKEN]), int(ring[RESERVED])
            if not rest and reserved - taken < WORTH * self._places:
                continue
            while taken < reserved:
                first = taken % self._places
                count = self._finished(events[first : first + reserved - taken]["serial"], taken)
                if count == 0:
                    break
                self._spool.write(events[first : first + count].data)
                taken += count
                ring[TAKEN] = taken

    @staticmethod
    def _finished(serials: npt.NDArray[np.uint64], taken: int) -> int:
        """Return how many records from the first are complete: whoever reserved one may still be writing it."""
        missing = serials != np.arange(taken + 1, taken + 1 + len(serials), dtype=np.uint64)
        return int(missing.argmax()) if missing.any() else len(serials)

    def lost_events(self) -> int:
        """Events that are not in the file, over all processors: at least so many."""
        rings = self._rings
        known = rings[: self._processors]
        left = int((known[:, RESERVED] - known[:, TAKEN]).sum())
        lost = int(rings[:, LOST].sum()) + left + self._program.missed(*PARTS)
        return max(lost, (self._expected - self._completed()).total())

    def _spooled(self) -> npt.NDArray[Any]:
        """Return what was copied."""
        self._spool.flush()
        if self._spool.seek(0, os.SEEK_END) == 0:
            return np.empty(0, EVENT)
        return np.memmap(self._spool, EVENT, "r")

    def _completed(self) -> Counter[int]:
        """Return the reads and writes completed in what was copied, by device."""
        events = self._spooled()
        counted = (events["kind"] == COMPLETE) & ~np.isin(events["flags"] & _OPERATION, self._words.uncounted)
        devices, counts = np.unique(events["device"][counted], return_counts=True)
        return Counter(dict(zip(devices.tolist(), counts.tolist(), strict=True)))

    def write(self, sink: Sink) -> int:
        """Write what was copied to ``sink`` as text, in order of time; return the bytes."""
        return sum(sink.write(text) for text in text_of(self._spooled(), self._words))
