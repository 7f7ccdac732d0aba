"""The kernel's own count of completed requests (``/proc/diskstats``), to check a capture against.

A method can miss events without being told: on some hosts the kernel does not run programs in the context of certain
processes, interrupts among them. What the kernel counted while a capture was on, and the capture does not hold, is
lost. Devices without a queue of requests of their own (device mapper, md) make no events and are left out.
"""

from collections import Counter
from pathlib import Path

#: Fields of a line (Linux, Documentation/admin-guide/iostats.rst): reads and writes completed.
_READS, _WRITES = 3, 7


def completed(counts: Path = Path("/proc/diskstats"), devices: Path = Path("/sys/block")) -> Counter[int]:
    """Return the reads and writes completed since the start of the host, by device (the kernel's ``dev_t``)."""
    found: Counter[int] = Counter()
    for line in counts.read_text(encoding="ascii").splitlines():
        words = line.split()
        # A name's slash is written as an exclamation mark there. Partitions are in no such folder.
        if (devices / words[2].replace("/", "!") / "mq").is_dir():
            found[int(words[0]) << 20 | int(words[1])] = int(words[_READS]) + int(words[_WRITES])
    return found
