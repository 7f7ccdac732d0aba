"""Count instructions of the host for each simulated reference on machines of 1 to 64 nodes, and plot them.

Usage: node_cost.py [--length N] [--plot FILE.svg]. Each machine of `cargo bench -p servsim-machine --bench nodes` is
run under callgrind, which a busy host does not disturb. The last line is JSON, as `make bench` reads it.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from common import ROOT, built
from servsim.files import atomic_write

KINDS = {"messages": "#1b6ca8", "directory": "#c8553d", "snooping": "#5b8e3e"}
COUNTS = (1, 2, 4, 8, 16, 32, 64)
PROCESSORS = 64
#: Only what is below this function is counted: neither the making of the trace nor the reading of a description.
COUNTED = "servsim_machine::timing::run"


def instructions(program: str, kind: str, count: int, length: int) -> float:
    """Return the instructions of one machine for each reference."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--toggle-collect={COUNTED}"]
    words = [*tool, program, kind, str(count), str(length)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind told no instructions: {done.stderr[-300:]}")
    return int(found[1]) / (PROCESSORS * length)


def plot(costs: dict[str, dict[int, float]]) -> str:
    """Draw costs over the number of nodes, each step twice as many: a logarithm is a straight line."""
    wide, high, left, low = 520, 300, 60, 40
    top = max(max(one.values()) for one in costs.values()) * 1.05

    def at(count: int, value: float) -> tuple[float, float]:
        x = left + (wide - left - 90) * COUNTS.index(count) / (len(COUNTS) - 1)
        return x, high - low - (high - low - 15) * value / top

    drawn = [f'<rect width="{wide}" height="{high}" fill="white"/>']
    for count in COUNTS:
        x, y = at(count, 0)
        drawn.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle">{count}</text>')
    for step in range(int(top) // 1000 + 1):
        x, y = at(1, 1000 * step)
        end = at(COUNTS[-1], 0)[0]
        drawn.append(f'<path d="M{x:.0f} {y:.1f}H{end:.0f}" stroke="#ddd"/>')
        drawn.append(f'<text x="{x - 8:.0f}" y="{y + 4:.1f}" text-anchor="end">{1000 * step:,}</text>')
    ends: list[float] = []
    # From the top down, each name a line below the one before.
    for kind, by_count in sorted(costs.items(), key=lambda item: -item[1][COUNTS[-1]]):
        points = [at(count, value) for count, value in sorted(by_count.items())]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{line}" fill="none" stroke="{KINDS[kind]}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{KINDS[kind]}"/>' for x, y in points]
        x, y = points[-1]
        ends.append(max([y + 4, *(end + 12 for end in ends)]))
        drawn.append(f'<text x="{x + 8:.0f}" y="{ends[-1]:.1f}" fill="{KINDS[kind]}">{kind}</text>')
    drawn.append(f'<text x="{(wide - 30) / 2:.0f}" y="{high - 6}" text-anchor="middle">nodes of 64 processors</text>')
    drawn.append('<text x="8" y="12">instructions of the host for a reference</text>')
    body = "\n".join(drawn)
    font = 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" {font}>'
    return f"{head}\n<title>Cost of a reference over the number of nodes</title>\n{body}\n</svg>\n"


def main() -> int:
    """Measure all machines; the exit code."""
    read = argparse.ArgumentParser()
    read.add_argument("--length", type=int, default=1000, help="references of each processor")
    read.add_argument("--plot", type=Path)
    given = read.parse_args()
    program = built("nodes")
    costs: dict[str, dict[int, float]] = {}
    for kind in KINDS:
        for count in COUNTS:
            cost = instructions(program, kind, count, given.length)
            costs.setdefault(kind, {})[count] = cost
            print(f"{kind:<12} {count:>3} nodes {cost:>8,.0f}", flush=True)
    if given.plot is not None:
        atomic_write(given.plot, plot(costs))
    figures = [
        {"name": f"{kind}, {count} nodes", "value": round(cost), "unit": "instructions/reference"}
        for kind, by_count in costs.items()
        for count, cost in by_count.items()
    ]
    print(json.dumps({"figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
