"""What `servsim disk capture` costs the requests of this host, as JSON on the last line.

The paper compares run times without and with its collection (1 s in 3385 s, 0.03 %). Here: the time that reads of 4
KiB with O_DIRECT from a loop device take, one at a time, so that what the capture adds to a request at its issue and
at its completion, on whatever processor, adds to its time. Blocks of reads alternate without and with the capture, by
each method, in rounds whose order is drawn, so that drifts of a shared host fall on all. A round has two blocks
without: the one is compared with the other as if it were a method, and its interval should hold zero. What begins or
ends a capture changes the kernel's code while it runs, which costs whatever comes next, so each block without follows
upon a capture begun and ended. Of a block counts the mean of its reads between the 10th and the 50th percentile: what
interrupts a read on a shared host lies above. What a capture costs now and then, such as the change to another page
of a buffer, lies there too, so the mean of all reads but the slowest twentieth is told as well. The cost of a request
is the median of the paired differences with its 95 % interval by order statistics; times 500 it is the share of the
time at 500 requests/s, if each of them is waited for. At saturation the whole blocks say how much slower the device
is, whatever interrupted them.

The reader runs beside the requests; what it and the text made afterwards take of a processor is told apart, for
every request captured. In the end both methods run at the same time, on reads and writes by several threads, and what
they tell of each request is compared.

Needs root, losetup and a kernel with block trace events; without them it says so and prints no figure. Without BPF
it says why and measures the other method.
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
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from servsim import disk
from servsim.disk import bpf
from servsim.disk.capture import Recorder
from servsim.disk.tracefs import TRACEFS, Instance, check
from servsim.errors import EnvironmentProblem

#: Reads a block, rounds of blocks, and bytes a read.
READS, ROUNDS, BYTES = 200, 1500, 4096
#: Reads before a block, not counted, so that the first of a kind are not.
WARM = 10
#: Threads of the load on which the methods are compared, and requests of each.
THREADS, EACH = 8, 3000
#: The rate at which the paper's bound is asked for, requests/s.
RATE = 500
#: How long the reader is watched at that rate, s.
BESIDE_S = 20
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


def block(device: int, buffer: mmap.mmap, places: list[int]) -> tuple[float, float, float]:
    """Read at the places; return the time of an undisturbed, of a usual and of any read, us."""
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
    undisturbed = times[len(times) // 10 : len(times) // 2]
    return 1e-3 * statistics.fmean(undisturbed), 1e-3 * statistics.fmean(times[: -len(times) // 20]), whole


def median(values: list[float]) -> tuple[float, float, float]:
    """Return the median with its 95 % interval by order statistics (the sign test turned round)."""
    ranked, n = sorted(values), len(values)
    below = int((n - 1.96 * n**0.5) / 2)
    return statistics.median(ranked), ranked[below], ranked[n - 1 - below]


@contextmanager
def methods(folder: Path) -> Iterator[dict[str, Recorder]]:
    """Enter the methods that this host allows, by name."""
    with ExitStack() as stack:
        found: dict[str, Recorder] = {"tracefs": stack.enter_context(Instance(folder))}
        try:
            found["bpf"] = stack.enter_context(bpf.Rings(folder))
        except EnvironmentProblem as problem:
            print(f"bpf cannot be measured on this host: {problem}", file=sys.stderr)
        yield found


#: Blocks without a capture: one to compare with, and one that is compared as if it were a method.
WITHOUT, CONTROL = "without", "control"


class Measured:
    """Blocks of reads without and with each method, and the reader's processor time."""

    def __init__(self, found: dict[str, Recorder]) -> None:
        self.found = found
        self.blocks: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (WITHOUT, CONTROL, *found)}
        self.reader = dict.fromkeys(found, 0.0)

    def round(self, draw: random.Random, device: int, buffer: mmap.mmap) -> None:
        """Measure one block of each kind."""
        places = [draw.randrange(FILE_BYTES // BYTES) * BYTES for _ in range(READS)]
        for name in draw.sample(list(self.blocks), len(self.blocks)):
            recorder = self.found.get(name) or self.found[draw.choice(list(self.found))]
            recorder.record(True)
            if name not in self.found:
                recorder.record(False)
            self.blocks[name].append(block(device, buffer, places))
            recorder.record(False)
        for name, recorder in self.found.items():
            before = time.process_time()
            recorder.copy()
            self.reader[name] += time.process_time() - before

    def added(self, name: str, which: int) -> tuple[float, float, float]:
        """Return what a method adds to one of the times of a read, us."""
        pairs = zip(self.blocks[WITHOUT], self.blocks[name], strict=True)
        return median([on[which] - off[which] for off, on in pairs])

    def slower(self, name: str) -> tuple[float, float, float]:
        """Return how much longer blocks take as a whole, %."""
        pairs = zip(self.blocks[WITHOUT], self.blocks[name], strict=True)
        return median([100 * (on[2] / off[2] - 1) for off, on in pairs])


def with_interval(what: str, unit: str, found: Sequence[float]) -> list[tuple[str, float, str]]:
    """Return a figure and the ends of its interval."""
    ends = ("", ", 95 % low", ", 95 % high")
    return [(f"{what}{end}", value, unit) for end, value in zip(ends, found, strict=True)]


def beside(recorder: Recorder, path: str) -> float:
    """Return the share of a processor that the reader takes beside requests at the rate."""
    stop = threading.Event()
    thread = threading.Thread(target=pace, args=(path, stop))
    recorder.record(True)
    thread.start()
    before, until = time.thread_time(), time.monotonic() + BESIDE_S
    while time.monotonic() < until:
        time.sleep(recorder.period_s)
        recorder.copy()
    taken = time.thread_time() - before
    stop.set()
    thread.join()
    recorder.record(False)
    recorder.copy(rest=True)
    return taken / BESIDE_S


def pace(path: str, stop: threading.Event) -> None:
    """Read at the rate, in small groups."""
    device = os.open(path, os.O_RDONLY | os.O_DIRECT)
    group = 5
    with mmap.mmap(-1, BYTES) as buffer:
        while not stop.wait(group / RATE):
            for place in range(group):
                os.preadv(device, [buffer], place * BYTES)
    os.close(device)


def costs() -> list[tuple[str, float, str]]:
    """Measure what the methods cost."""
    draw = random.Random(1)
    with loop_device() as path, tempfile.TemporaryDirectory() as folder, methods(Path(folder)) as found:
        device = os.open(path, os.O_RDONLY | os.O_DIRECT)
        measured = Measured(found)
        try:
            with mmap.mmap(-1, BYTES) as buffer:
                for _ in range(ROUNDS):
                    measured.round(draw, device, buffer)
        finally:
            os.close(device)
        values = [("time of a read", statistics.median(a[0] for a in measured.blocks[WITHOUT]), "us")]
        values += with_interval("control, without a capture", "us/request", measured.added(CONTROL, 0))
        values += with_interval("control, slower end to end at saturation", "%", measured.slower(CONTROL))
        for name, recorder in found.items():
            before = time.process_time()
            recorder.copy(rest=True)
            measured.reader[name] += time.process_time() - before
            before, text = time.process_time(), io.BytesIO()
            recorder.write(text)
            writing = time.process_time() - before
            completed = text.getvalue().count(b" block_rq_complete: ")
            cost = measured.added(name, 0)
            values += with_interval(f"{name}, in the request's path", "us/request", cost)
            values += with_interval(
                f"{name}, share of the time at {RATE} requests/s", "%", tuple(RATE * 1e-4 * value for value in cost)
            )
            values += with_interval(f"{name}, all but the slowest 5 %", "us/request", measured.added(name, 1))
            values += with_interval(f"{name}, slower end to end at saturation", "%", measured.slower(name))
            values += [
                (f"{name}, the reader beside it", 1e6 * measured.reader[name] / completed, "us/request"),
                (f"{name}, the reader beside {RATE} requests/s", 100 * beside(recorder, path), "% of a processor"),
                (f"{name}, text made after the capture", 1e6 * writing / completed, "us/request"),
                (f"{name}, events lost", recorder.lost_events(), "events"),
            ]
    return values


def work(path: str, seed: int) -> None:
    """Read and write at drawn places, in drawn sizes."""
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    draw = random.Random(seed)
    with mmap.mmap(-1, 16 * BYTES) as buffer, memoryview(buffer) as view:
        for _ in range(EACH):
            blocks = draw.choice((1, 1, 1, 2, 4, 16))
            place = BYTES * draw.randrange(FILE_BYTES // BYTES - 16)
            with view[: BYTES * blocks] as part:
                (os.preadv if draw.random() < 0.7 else os.pwritev)(device, [part], place)
    os.close(device)


def agreement() -> list[tuple[str, float, str]]:
    """Run both methods at the same time and compare what they tell."""
    with loop_device() as path, tempfile.TemporaryDirectory() as folder, methods(Path(folder)) as found:
        number = Path(path).stat().st_rdev
        for recorder in found.values():
            recorder.record(True)
        threads = [threading.Thread(target=work, args=(path, seed)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
            for recorder in found.values():
                recorder.copy()
        traces = []
        for name, recorder in found.items():
            recorder.record(False)
            recorder.copy(rest=True)
            with (Path(folder) / name).open("wb") as sink:
                recorder.write(sink)
            traces.append(load(Path(folder) / name, f"{os.major(number)},{os.minor(number)}"))
    return compared(*traces) if len(traces) == 2 else []


def load(text: Path, device: str) -> dict[str, Any]:
    """Return the requests of a device, with times as the kernel's clock has them."""
    columns, _ = disk.load(disk.Source(str(text), "tracefs", device=device))
    # Times are told from the first arrival, which each method has at its own.
    first = next(line for line in text.read_text().splitlines() if f": {device} " in line and "complete" not in line)
    seconds, nanoseconds = first.split()[2].rstrip(":").split(".")
    began = int(seconds) * 10**9 + int(nanoseconds)
    return {name: column + began if name.endswith("_ns") else column for name, column in columns.items()}


def compared(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, float, str]]:
    """Compare two traces of the same requests."""
    keys = ("arrival_ns", "is_write", "sectors", "lba")
    orders = [np.lexsort([trace[key] for key in keys]) for trace in (one, other)]
    values: list[tuple[str, float, str]] = [
        ("both: requests by tracefs", len(orders[0]), "requests"),
        ("both: requests by bpf", len(orders[1]), "requests"),
    ]
    if len(orders[0]) != len(orders[1]):
        return values
    pairs = {key: (one[key][orders[0]], other[key][orders[1]]) for key in one}
    different = sum(pairs[key][0] != pairs[key][1] for key in ("lba", "sectors", "is_write"))
    values.append(("both: of another place, length or operation", int(np.count_nonzero(different)), "requests"))
    for key in ("arrival_ns", "start_ns", "completion_ns"):
        apart = 1e-3 * np.abs(np.subtract(*(column.astype(np.int64) for column in pairs[key])))
        for share in (0.5, 0.999, 1):
            what = f"both: {key.removesuffix('_ns')} apart, quantile {share:g}"
            values.append((what, float(np.quantile(apart, share)), "us"))
    found = [depth(trace)[order] for trace, order in zip((one, other), orders, strict=True)]
    values.append(("both: requests in flight, mean by tracefs", float(found[0].mean()), "requests"))
    values.append(("both: requests in flight, mean by bpf", float(found[1].mean()), "requests"))
    values.append(
        ("both: that found another number in flight", int(np.count_nonzero(found[0] != found[1])), "requests")
    )
    return values


def depth(trace: dict[str, Any]) -> Any:
    """Return how many requests are in flight when each arrives, itself among them."""
    arrived = np.searchsorted(np.sort(trace["arrival_ns"]), trace["arrival_ns"], side="right")
    return arrived - np.searchsorted(np.sort(trace["completion_ns"]), trace["arrival_ns"], side="right")


def figures() -> list[dict[str, object]]:
    """Measure, and return the figures."""
    with tracefs():
        return [{"name": name, "value": float(value), "unit": unit} for name, value, unit in [*costs(), *agreement()]]


def main() -> int:
    """Print the figures, or why there are none."""
    try:
        found = figures()
    except (EnvironmentProblem, FileNotFoundError, PermissionError) as problem:
        print(f"block capture cannot be measured on this host: {problem}", file=sys.stderr)
        found = []
    for figure in found:
        print(f"{figure['name']:<60} {figure['value']:>10.4g} {figure['unit']}")
    print(json.dumps({"schema": "servsim.bench.disk_capture/2", "figures": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
