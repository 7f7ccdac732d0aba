"""What `servsim disk capture` costs the requests of this host, as JSON on the last line.

The paper compares run times without and with its collection (1 s in 3385 s, 0.03 %). Here: processor time
and wall time of reads of 4 KiB with O_DIRECT from a loop device, one at a time, in short rounds that
alternate without and with the capture so that drifts of a shared host fall on both. The cost of a request is
the median of the paired differences with its 95 % interval (by order statistics, since interruptions of a
shared host make outliers of both signs); times 500 it is the share of one processor at 500 requests/s. At
saturation the same rounds say how much slower the device is, whatever that is.

Needs root, losetup and a kernel with block trace events; without them it says so and prints no figure.
"""

import json
import mmap
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servsim.disk.capture import TRACEFS, capture, check
from servsim.errors import EnvironmentProblem

#: Reads a round, rounds of each kind, and bytes a read.
READS, ROUNDS, BYTES = 3000, 40, 4096
#: The rate at which the paper's bound is asked for, requests/s.
RATE = 500
FILE_BYTES = 64 << 20


@contextmanager
def tracefs() -> Iterator[None]:
    """Mount tracefs for the time, if it is not."""
    mounted = (TRACEFS / "instances").is_dir()
    if not mounted:
        done = subprocess.run(
            ["mount", "-t", "tracefs", "tracefs", str(TRACEFS)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise EnvironmentProblem(f"tracefs cannot be mounted here: {done.stderr.strip()}")
    try:
        check()
        yield
    finally:
        if not mounted:
            subprocess.run(["umount", str(TRACEFS)], check=False)


@contextmanager
def loop_device() -> Iterator[str]:
    """Make a loop device over a temporary file."""
    with tempfile.NamedTemporaryFile() as image:
        image.truncate(FILE_BYTES)
        done = subprocess.run(["losetup", "--find", "--show", image.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnvironmentProblem(f"no loop device can be made here: {done.stderr.strip()}")
        try:
            yield done.stdout.strip()
        finally:
            subprocess.run(["losetup", "-d", done.stdout.strip()], check=False)


def read_round(device: int, buffer: mmap.mmap, seed: int) -> tuple[float, float]:
    """Read at random places; return processor and wall time of a read, us."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    began, cpu = time.perf_counter(), usage.ru_utime + usage.ru_stime
    place = seed
    for _ in range(READS):
        place = (place * 1103515245 + 12345) % (1 << 31)
        os.preadv(device, [buffer], (place % (FILE_BYTES // BYTES)) * BYTES)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime - cpu
    return 1e6 * used / READS, 1e6 * (time.perf_counter() - began) / READS


def recording(
    folder: str, orders: "multiprocessing.SimpleQueue[float]", answers: "multiprocessing.SimpleQueue[float]"
) -> None:
    """Capture for as long as each order says; answer with the processor time that it took."""
    while (seconds := orders.get()) > 0:
        facts = capture(Path(folder) / "trace", seconds)
        answers.put(facts["reader_cpu_seconds"])


def median(values: list[float]) -> tuple[float, float, float]:
    """Return the median with its 95 % interval by order statistics (the sign test turned round)."""
    ranked, n = sorted(values), len(values)
    below = int((n - 1.96 * n**0.5) / 2)
    return statistics.median(ranked), ranked[below], ranked[n - 1 - below]


def figures() -> list[dict[str, object]]:
    """Measure, and return the figures."""
    plain: list[tuple[float, float]] = []
    traced: list[tuple[float, float]] = []
    reader: list[float] = []
    with tracefs(), loop_device() as path, tempfile.TemporaryDirectory() as folder:
        orders: multiprocessing.SimpleQueue[float] = multiprocessing.SimpleQueue()
        answers: multiprocessing.SimpleQueue[float] = multiprocessing.SimpleQueue()
        process = multiprocessing.Process(target=recording, args=(folder, orders, answers))
        process.start()
        device = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, BYTES)
        try:
            read_round(device, buffer, 1)
            for number in range(ROUNDS):
                plain.append(read_round(device, buffer, number))
                length = max(0.5, 3e-6 * READS * plain[-1][1])
                orders.put(length)
                time.sleep(0.2)
                traced.append(read_round(device, buffer, number))
                reader.append(1e6 * answers.get() / READS)
        finally:
            orders.put(0)
            process.join()
            os.close(device)
    cost = median([b[0] - a[0] for a, b in zip(plain, traced, strict=True)])
    slower = median([100 * (b[1] / a[1] - 1) for a, b in zip(plain, traced, strict=True)])
    least = min(b[0] for b in traced) - min(a[0] for a in plain)
    values = [
        ("processor time of a read", statistics.median(a[0] for a in plain), "us"),
        ("capture, in the request's path", cost[0], "us/request"),
        ("capture, in the request's path, 95 % low", cost[1], "us/request"),
        ("capture, in the request's path, 95 % high", cost[2], "us/request"),
        ("least of the rounds, captured minus plain", least, "us/request"),
        (f"share of one processor at {RATE} requests/s", RATE * cost[0] * 1e-4, "%"),
        (f"share at {RATE} requests/s, 95 % low", RATE * cost[1] * 1e-4, "%"),
        (f"share at {RATE} requests/s, 95 % high", RATE * cost[2] * 1e-4, "%"),
        ("capture, the reader beside it", statistics.median(reader), "us/request"),
        ("slower end to end at saturation", slower[0], "%"),
        ("slower at saturation, 95 % low", slower[1], "%"),
        ("slower at saturation, 95 % high", slower[2], "%"),
    ]
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in values]


def main() -> int:
    """Print the figures, or why there are none."""
    try:
        found = figures()
    except (EnvironmentProblem, FileNotFoundError, PermissionError) as problem:
        print(f"block capture cannot be measured on this host: {problem}", file=sys.stderr)
        found = []
    for figure in found:
        print(f"{figure['name']:<52} {figure['value']:>10.4g} {figure['unit']}")
    print(json.dumps({"schema": "servsim.bench.disk_capture/1", "figures": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
