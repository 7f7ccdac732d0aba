"""What `servsim disk capture` costs the requests of this host, as JSON on the last line.

The paper compares run times without and with its collection (1 s in 3385 s, 0.03 %). Here: the time that reads of
4 KiB with O_DIRECT from a loop device take, one at a time, so that what the capture adds to a request at its issue
and at its completion, on whatever processor, adds to its time. Blocks of reads alternate without and with the
capture, in pairs whose order is drawn, so that drifts of a shared host fall on both. Of a block counts the mean of
its reads between the 10th and the 50th percentile: what interrupts a read on a shared host lies above. The cost of
a request is the median of the paired differences with its 95 % interval by order statistics; times 500 it is the
share of the time at 500 requests/s, if each of them is waited for. At saturation the whole blocks say how much
slower the device is, whatever interrupted them.

The reader runs beside the requests; what it and the text made afterwards take of a processor is told apart, for
every request captured.

Needs root, losetup and a kernel with block trace events; without them it says so and prints no figure.
"""

import io
import json
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servsim.disk.capture import TRACEFS, Instance, check
from servsim.errors import EnvironmentProblem

#: Reads a block, pairs of blocks, and bytes a read.
READS, PAIRS, BYTES = 200, 1500, 4096
#: Reads before a block, not counted, so that the first of a kind are not.
WARM = 10
#: The rate at which the paper's bound is asked for, requests/s.
RATE = 500
FILE_BYTES = 16 << 20


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
        image.write(os.urandom(FILE_BYTES))
        image.flush()
        done = subprocess.run(["losetup", "--find", "--show", image.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnvironmentProblem(f"no loop device can be made here: {done.stderr.strip()}")
        try:
            yield done.stdout.strip()
        finally:
            subprocess.run(["losetup", "-d", done.stdout.strip()], check=False)


def block(device: int, buffer: mmap.mmap, places: list[int]) -> tuple[float, float]:
    """Read at the places; return the undisturbed and the whole time of a read, us."""
    buffers, clock, times = [buffer], time.perf_counter_ns, []
    for place in places[:WARM]:
        os.preadv(device, buffers, place)
    began = clock()
    for place in places:
        before = clock()
        os.preadv(device, buffers, place)
        times.append(clock() - before)
    whole = 1e-3 * (clock() - began) / len(places)
    times.sort()
    return 1e-3 * statistics.fmean(times[len(times) // 10 : len(times) // 2]), whole


def median(values: list[float]) -> tuple[float, float, float]:
    """Return the median with its 95 % interval by order statistics (the sign test turned round)."""
    ranked, n = sorted(values), len(values)
    below = int((n - 1.96 * n**0.5) / 2)
    return statistics.median(ranked), ranked[below], ranked[n - 1 - below]


def figures() -> list[dict[str, object]]:
    """Measure, and return the figures."""
    draw = random.Random(1)
    blocks: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    reader = 0.0
    with tracefs(), loop_device() as path, tempfile.TemporaryDirectory() as folder:
        device = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, BYTES)
        try:
            with Instance(Path(folder)) as instance:
                for _ in range(PAIRS):
                    places = [draw.randrange(FILE_BYTES // BYTES) * BYTES for _ in range(READS)]
                    for captured in draw.sample((False, True), 2):
                        instance.record(captured)
                        blocks[captured].append(block(device, buffer, places))
                    instance.record(False)
                    before = time.process_time()
                    instance.copy()
                    reader += time.process_time() - before
                before = time.process_time()
                text = io.BytesIO()
                instance.write(text)
                writing = time.process_time() - before
        finally:
            os.close(device)
    completed = text.getvalue().count(b" block_rq_complete: ")
    pairs = list(zip(blocks[False], blocks[True], strict=True))
    cost = median([b[0] - a[0] for a, b in pairs])
    slower = median([100 * (b[1] / a[1] - 1) for a, b in pairs])
    values = [
        ("time of a read", statistics.median(a[0] for a in blocks[False]), "us"),
        ("capture, in the request's path", cost[0], "us/request"),
        ("capture, in the request's path, 95 % low", cost[1], "us/request"),
        ("capture, in the request's path, 95 % high", cost[2], "us/request"),
        (f"share of the time at {RATE} requests/s", RATE * cost[0] * 1e-4, "%"),
        (f"share at {RATE} requests/s, 95 % low", RATE * cost[1] * 1e-4, "%"),
        (f"share at {RATE} requests/s, 95 % high", RATE * cost[2] * 1e-4, "%"),
        ("capture, the reader beside it", 1e6 * reader / completed, "us/request"),
        ("text made after the capture", 1e6 * writing / completed, "us/request"),
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
