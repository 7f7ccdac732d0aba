"""The host as a machine description: its processors, caches, disk flush; and whether it can serve at all."""

import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.errors import EnvironmentProblem
from servsim.validation import postgres

#: Where Linux tells the caches of the first processor.
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
#: Flushes of the micro-benchmark, and the bytes of each: one page of PostgreSQL's log.
FLUSHES, FLUSH_BYTES = 200, 8192


@dataclass(frozen=True)
class Host:
    """What is known of this host.

    Attributes
    ----------
    processors
        Numbers of the processors this process may use.
    model
        Name of the processor.
    first, second, third
        Size in bytes of the first-level data cache, of the second and of the third level; 0 if none.
    line
        Bytes of a line.
    flush_seconds
        Mean time of an ``fdatasync`` of one log page in the folder of the database.
    flush_median_seconds
        Its median.
    server
        Version of the database server.
    ways
        Ways of the three levels; 0 where the host does not tell.
    """

    processors: tuple[int, ...]
    model: str
    first: int
    second: int
    third: int
    line: int
    flush_seconds: float
    flush_median_seconds: float
    server: str
    ways: tuple[int, ...] = (0, 0, 0)

    def text(self) -> str:
        """Return it in a line."""
        caches = ", ".join(f"{size >> 10} KiB" for size in (self.first, self.second, self.third) if size)
        return (
            f"{len(self.processors)} processors ({self.model}), caches {caches}; fdatasync "
            f"{1e3 * self.flush_seconds:.2f} ms; PostgreSQL {self.server}"
        )


def look(folder: Path, most: int) -> Host:
    """Examine this host.

    Parameters
    ----------
    folder
        Where databases will lie: its file system is the one whose flush is timed.
    most
        Processors that the largest configuration needs.

    Raises
    ------
    EnvironmentProblem
        When PostgreSQL is missing, or there are too few processors.
    """
    version = server_version()
    mine = tuple(sorted(os.sched_getaffinity(0)))
    if len(mine) < most:
        raise EnvironmentProblem(
            f"this host offers {len(mine)} processor{'s' * (len(mine) != 1)} and the change of processors needs "
            f"{most}: give the virtual machine more, or leave it out with --only"
        )
    times = flush_times(folder)
    middle = sorted(times)[len(times) // 2]
    mean = sum(times) / len(times)
    found = caches(CACHES)
    return Host(mine, _model(), **found, flush_seconds=mean, flush_median_seconds=middle, server=version)


def server_version() -> str:
    """Return the version of the host's PostgreSQL, such as ``15.8``."""
    done = subprocess.run([postgres.program("postgres"), "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+", done.stdout)
    if found is None:
        raise EnvironmentProblem(f"PostgreSQL does not tell its version: {(done.stderr or done.stdout).strip()[:200]}")
    return found.group()


def version_in(executable: Path) -> str:
    """Return the version that a server's executable contains (the guest's cannot be run here)."""
    found = re.search(rb"PostgreSQL\) (\d+\.\d+)", executable.read_bytes())
    return found.group(1).decode() if found else "unknown"


def caches(folder: Path) -> dict[str, Any]:
    """Return what `Host` keeps of the caches, from sysfs: bytes of the levels and of a line, and ways.

    A level that the system does not show has size 0; without any, a line is 64 bytes.
    """
    sizes, ways, line = [0, 0, 0], [0, 0, 0], 64
    for index in sorted(folder.glob("index[0-9]*")):
        level, kind = int(_read(index / "level") or 0), _read(index / "type")
        found = re.fullmatch(r"(\d+)([KMG])", _read(index / "size"))
        if not 1 <= level <= 3 or kind == "Instruction" or found is None:
            continue
        sizes[level - 1] = int(found.group(1)) << {"K": 10, "M": 20, "G": 30}[found.group(2)]
        ways[level - 1] = int(_read(index / "ways_of_associativity") or 0)
        line = int(_read(index / "coherency_line_size") or line)
    return {**dict(zip(("first", "second", "third"), sizes, strict=True)), "line": line, "ways": tuple(ways)}


def flush_times(folder: Path, flushes: int = FLUSHES) -> list[float]:
    """Return the seconds that each ``fdatasync`` of one page takes, in a file that has its space already."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="flush-") as file:
        descriptor = file.fileno()
        os.pwrite(descriptor, bytes(FLUSH_BYTES * flushes), 0)
        os.fsync(descriptor)
        times = []
        for page in range(flushes):
            os.pwrite(descriptor, b"\1" * FLUSH_BYTES, FLUSH_BYTES * page)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - began)
    return times


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _model() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.M)
    return found.group(1) if found else "unknown"


def describe(host: Host, clock_hz: float, *, pool: bool = True) -> str:
    """Return this host's machine description.

    Sizes of caches and their ways are the host's; ways that it does not tell are 8 and 16. Latencies are assumptions
    that fit server cores of the 2020s; they are not fitted to anything. ``clock`` is the calibrated figure: it
    stands for everything about a core that the description does not have (issue ports, prefetching,
    latencies of its own), and is therefore no frequency of the hardware. A synchronous commit is one
    write and one flush in the trace, which share the measured time of an ``fdatasync``. Flushes are shared:
    commits that wait for the one under way are served together by the next. Reads take no time: natively the
    database was just copied, so the kernel's page cache holds it, while the guest's is cold.
    Without ``pool`` the settings are left out that only a pool of disks has, for single ones to be described.
    """
    lines = [
        'name = "this host"',
        f'clock = "{clock_hz / 1e6:.0f} MHz"',
        "[processor]",
        'model = "ooo"',
        "width = 4",
        'window = "256 instructions"',
        'branch_penalty = "14 cycles"',
        'store_buffer = "64 words"',
        "outstanding_misses = 16",
        "[cache]",
        f'size = "{(host.first or 32 << 10) >> 10} KiB"',
        f"associativity = {host.ways[0] or 8}",
        f'line = "{host.line} B"',
        'organisation = "split"',
    ]
    if host.second:
        lines += ["[l2]", f'size = "{host.second >> 10} KiB"', f"associativity = {host.ways[1] or 16}"]
        lines += ['latency = "14 cycles"']
    if host.third:
        lines += ["[l3]", f'size = "{host.third >> 10} KiB"', f"associativity = {host.ways[2] or 16}"]
        lines += ['sharing = "shared"', 'inclusion = "neither"', 'latency = "46 cycles"']
    lines += [
        "[protocol]",
        'name = "moesi"',
        "[interconnect]",
        'kind = "crossbar"',
        "[bus]",
        'invalidate = "40 cycles"',
        'memory_read = "300 cycles"',
        'cache_read = "80 cycles"',
        'bytes_per_cycle = "32 B"',
        "[scheduler]",
        'policy = "affinity"',
        'time_slice = "2000000 references"',
        "[disk]",
        'read_time = "1 us"',
        f'write_time = "{1e6 * host.flush_seconds / 2:.0f} us"',
    ]
    if pool:
        lines += ["parallel = 64", 'flushes = "shared"']
    lines += ["[classification]", 'replacement = "merged"']
    return "\n".join(lines) + "\n"
