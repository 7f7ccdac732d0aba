"""Requests a second of whole disk commands, start-up apart, as a user waits and in processor time, and their memory.

A command is run on a short trace and on a long one; what the rest costs is the rate. Trees are grown from a sample,
which takes as long for a million requests as for more, but not for a hundred thousand. Reading and working on what was
read are threads of their own, so what a user waits is shorter where two processors are free.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

#: Requests of the long trace and of the short one.
LONG, SHORT = 10_000_000, 1_000_000
SERVSIM = Path(sys.executable).with_name("servsim")


def write(path: Path, count: int) -> None:
    """Write a trace of a disk that serves in order of arrival, at about half of what it can do."""
    draw = np.random.default_rng(1)
    arrival = np.cumsum(draw.exponential(9000, count)).astype(np.int64)
    place = draw.integers(0, 8_000_000, count)
    place = np.where(draw.random(count) < 0.5, np.roll(place, 1) + 8, place)
    seek = 3 * np.sqrt(np.abs(np.diff(place, prepend=0)))
    service = (1000 + seek + 4000 * draw.random(count)).astype(np.int64)
    # Completions in order: the latest of all arrivals so far with the services since.
    before = np.cumsum(service) - service
    done = np.maximum.accumulate(arrival - before) + before + service
    columns = [arrival, (draw.random(count) > 0.3).astype(np.int64), place, np.full(count, 8), done]
    np.savetxt(path, np.column_stack(columns), "%d", ",", header="arrival_us,op,lba,sectors,completion_us", comments="")


def used(words: list[str]) -> tuple[float, float, float]:
    """Return the elapsed and the processor time of a command, s, the least of three runs, and its memory, bytes."""
    runs = []
    for _ in range(3):
        begin = time.monotonic()
        process = subprocess.Popen([SERVSIM, "disk", *words], stdout=subprocess.DEVNULL)
        _, status, spent = os.wait4(process.pid, 0)
        elapsed = time.monotonic() - begin
        if status:
            raise SystemExit(f"servsim disk {' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
        runs.append((elapsed, spent.ru_utime + spent.ru_stime, 1024.0 * spent.ru_maxrss))
    elapsed, processor, memory = (min(figures) for figures in zip(*runs, strict=True))
    return elapsed, processor, memory


def main() -> None:
    """Print the rates."""
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, count in (("long", LONG), ("short", SHORT)):
            # Elsewhere: a command begins with the memory of the process that starts it.
            maker = multiprocessing.get_context("spawn").Process(target=write, args=(folder / f"{size}.csv", count))
            maker.start()
            maker.join()
        model = str(folder / "m.model")
        for title, words in (
            ("fit", ["fit", "TRACE", "-o", model]),
            ("closed loop", ["simulate", "TRACE", "-m", model]),
            ("open loop", ["simulate", "TRACE", "-m", model, "--mode", "open"]),
            ("closed loop, written", ["simulate", "TRACE", "-m", model, "-o", str(folder / "out.csv")]),
            ("import", ["import", "TRACE", "-o", str(folder / "out.bin")]),
        ):
            long, short = (
                used([word.replace("TRACE", str(folder / f"{size}.csv")) for word in words])
                for size in ("long", "short")
            )
            elapsed, processor, memory = (more - less for more, less in zip(long, short, strict=True))
            for what, value, unit in (
                ("whole command", (LONG - SHORT) / elapsed, "requests/s"),
                ("whole command, in processor time", (LONG - SHORT) / processor, "requests/s"),
                ("memory that grows with the trace", memory / (LONG - SHORT), "B/request"),
            ):
                figures.append({"name": f"disk {title}, {what}", "value": value, "unit": unit})
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
