"""Which of the requests captured are kept: those of some devices, those that a process asked for.

Both methods of capture write the same lines (:mod:`servsim.disk.lines`). A completion does not tell who asked: it is
kept if what it completes was. What a process writes through the page cache is asked for by a thread of the kernel.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from servsim.errors import UsageError


class Sink(Protocol):
    """Where lines go."""

    def write(self, line: bytes, /) -> int:
        """Take a line; return the bytes written."""


def number_of(name: str, devices: Path = Path("/dev"), known: Path = Path("/sys/dev/block")) -> bytes:
    """Return the numbers of a device as captures tell them, such as ``8,0``.

    Parameters
    ----------
    name
        A name such as ``sda``, a path such as ``/dev/sda``, or the numbers themselves.
    devices
        Where names are looked up.
    known
        The kernel's folder of block devices by number.

    Raises
    ------
    servsim.errors.UsageError
        When no disk is called so, or it is a part of one.
    """
    major, comma, minor = name.partition(",")
    if not (comma and major.isdecimal() and minor.isdecimal()):
        try:
            facts = (devices / name).stat()
        except OSError:
            facts = None
        if facts is None or not stat.S_ISBLK(facts.st_mode):
            raise UsageError(f"--device {name}: no block device is called so; `lsblk` lists them")
        major, minor = str(os.major(facts.st_rdev)), str(os.minor(facts.st_rdev))
    if (known / f"{major}:{minor}" / "partition").exists():
        whole = (known / f"{major}:{minor}").resolve().parent.name
        raise UsageError(
            f"--device {name}: it is a part of {whole}, and requests are told of whole disks: name {whole}"
        )
    return f"{major},{minor}".encode()


class Chosen:
    """A sink of lines that passes on those of chosen devices and processes, or all.

    Parameters
    ----------
    sink
        Where kept lines go.
    devices
        Numbers of devices as :func:`number_of` tells them; none for all.
    processes
        Names of processes; none for all.
    """

    def __init__(self, sink: Sink, devices: Sequence[bytes], processes: Sequence[str]) -> None:
        self._sink, self._devices = sink, frozenset(devices)
        # The kernel keeps 15 bytes of a name.
        self._processes = frozenset(name.encode()[:15] for name in processes)
        self._open: set[tuple[bytes, bytes]] = set()

    def write(self, line: bytes) -> int:
        """Write a line if it is kept; return the bytes written."""
        return self._sink.write(line) if self._keeps(line) else 0

    def _keeps(self, line: bytes) -> bool:
        if not (self._devices or self._processes):
            return True
        # EVENT: DEVICE OPERATION [BYTES] (COMMAND) SECTOR + COUNT [LAST]
        head, _, last = line.rpartition(b" [")
        name, _, rest = head.partition(b": block_rq_")[2].partition(b": ")
        device = rest.partition(b" ")[0]
        if self._devices and device not in self._devices:
            return False
        if not self._processes:
            return True
        request = device, rest.rpartition(b") ")[2].partition(b" ")[0]
        if name == b"complete":
            if request not in self._open:
                return False
            self._open.remove(request)
            return True
        kept = last.rstrip()[:-1] in self._processes
        if kept:
            self._open.add(request)
        # A request that was inserted for a process may be issued by a thread of the kernel.
        return kept or (name == b"issue" and request in self._open)
