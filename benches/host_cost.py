"""Count what a captured trace costs the host by part: instructions and misses for a reference, under cachegrind.

Usage: host_cost.py [--page docs/performance.md] [--references N] [TRACE]. A busy host does not disturb these counts,
and no counter of the processor is needed: cachegrind counts instructions and simulates the host's first- and last-level
caches. Steps of `cargo bench -p servsim-machine --bench parts` each do more than the one before; parts are their
differences.
``--page`` writes the table between the marks of that page. The last line is JSON, as `make bench` reads it.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ROOT, built, write_between
from servsim import _core

SHIPPED = ROOT / "python" / "servsim" / "data" / "quickstart.svt"
#: What each part is: its name, the step that has it, the step that lacks it.
PARTS = (
    ("decoding the streams", "walk", "open"),
    ("the first pass: decoding, checks, pages, waits", "pass", "open"),
    ("the same, from what was kept", "keep", "open"),
    ("decoding and records in captured order", "records", "keep"),
    ("caches of 4 processors, functional", "functional", "records"),
    ("the timing engine, 4 processors, decoding by task included", "timing", "tasks"),
)
#: Lines of cachegrind's summary.
COUNTED = {
    "instructions": r"I\s+refs:\s+([\d,]+)",
    "first": r"D1\s+misses:\s+([\d,]+)",
    "last": r"LLd misses:\s+([\d,]+)",
}
MARKS = ("<!-- parts: written by benches/host_cost.py --page -->", "<!-- parts end -->")


def counts(program: str, step: str, trace: Path, folder: str) -> tuple[dict[str, int], int]:
    """Return what cachegrind counted of a step, and what the step printed."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
    words = [*tool, program, step, str(trace), folder]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name, pattern in COUNTED.items():
        line = re.search(pattern, done.stderr)
        if line is None:
            raise RuntimeError(f"cachegrind told nothing of {name}: {done.stderr[-300:]}")
        found[name] = int(line[1].replace(",", ""))
    return found, int(done.stdout)


def main() -> int:
    """Measure all steps; the exit code."""
    read = argparse.ArgumentParser()
    read.add_argument("trace", nargs="?", type=Path, default=SHIPPED)
    read.add_argument("--references", type=int, default=8_000_000, help="only the first so many")
    read.add_argument("--page", type=Path)
    given = read.parse_args()
    program = built("parts")
    steps: dict[str, dict[str, int]] = {}
    references = {}
    with tempfile.TemporaryDirectory() as folder:
        short = Path(folder) / given.trace.name
        _core.trace_cut(given.trace, short, references=given.references)
        size = short.stat().st_size
        # What the first pass finds is kept before anything that finds it is counted.
        subprocess.run([program, "keep", str(short), folder], stdout=subprocess.DEVNULL, check=True)
        for step in dict.fromkeys(name for _, *pair in PARTS for name in reversed(pair)):
            steps[step], references[step] = counts(program, step, short, folder)
            print(f"{step}: {steps[step]}", file=sys.stderr, flush=True)
    # A reference of every row is one of the trace: those that the functional engine counts.
    whole = references["functional"]
    figures, rows = [], []
    for part, with_it, without in PARTS:
        each = {name: (steps[with_it][name] - steps[without][name]) / whole for name in COUNTED}
        rows.append(f"| {part} | {each['instructions']:.1f} | {1000 * each['first']:.1f} | {1000 * each['last']:.1f} |")
        figures += [
            {"name": part, "value": round(each["instructions"], 2), "unit": "instructions/reference"},
            {"name": part + ", host misses", "value": round(1000 * each["last"], 2), "unit": "per 1,000 references"},
        ]
    figures.append({"name": "size of the trace", "value": round(size / whole, 3), "unit": "bytes/reference"})
    if given.page is not None:
        head = "| part | host instructions | first-level data misses in 1,000 | last-level data misses in 1,000 |"
        told = f"The first {whole:,} references of `{given.trace.name}`, {size / whole:.2f} bytes of file for each:"
        write_between(given.page, MARKS, told, [head, "|---|---|---|---|", *rows])
    print(json.dumps({"figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
