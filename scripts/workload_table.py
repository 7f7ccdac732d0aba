"""Captures small runs of workloads and prints what is known of them: a row of a table for each.

For each: memory touched, share of the kernel, data references per transaction, misses on one machine by class and by
the data with most of them, seconds of the capture from its checkpoint, bytes of the trace per data reference. All come
from commands of servsim; a trace that does not agree with the independent counter ends the script.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: What is captured: a name for the row, and the words of ``servsim capture``.
CAPTURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("fft, 4 threads, 16^3", ("kernels", "--set", "kernel=fft", "--set", "size=16", "--transactions", "2")),
    ("ocean, 4 threads, 66^2", ("kernels", "--set", "kernel=ocean", "--set", "size=66", "--transactions", "1")),
    ("javaserver, 4 warehouses", ("javaserver", "--transactions", "100")),
    ("oltp, 12 users", ("oltp", "--users", "12", "--transactions", "144")),
)
MACHINE = "foglia-2004-4p"
CLASSES = ("cold", "capacity", "conflict", "true_sharing", "false_sharing", "passive_sharing")
HEADING = (
    *("workload", "memory touched", "kernel", "data references per transaction"),
    *("misses: cold, capacity, conflict, true, false, passive sharing", "most misses"),
    *("capture", "bytes per reference"),
)
SERVSIM = Path(sys.executable).with_name("servsim")


def answer(*words: str) -> Any:
    """Return the JSON that a command prints."""
    done = subprocess.run([SERVSIM, *words, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def row(name: str, words: tuple[str, ...], trace: Path) -> list[str]:
    """Capture one workload and return its row."""
    captured = answer("capture", *words, "--verify", "-o", str(trace))
    classified = answer("classify", str(trace), "-m", MACHINE, "--by", "relation")
    pages = answer("classify", str(trace), "-m", MACHINE, "--by", "page")
    references, misses = classified["total"]["references"], classified["total"]["misses"]
    total, every = references["total"], sum(misses["total"].values())
    # Every page that is touched misses once; pages are those of the guest, 4 KiB.
    touched = 4 * (len(pages["rows"]) + (pages["left_out"] or {"rows": 0})["rows"])
    structures = [
        f"{found['name']} {sum(found['misses']['total'].values()) / every:.0%}" for found in classified["rows"]
    ]
    return [
        name,
        f"{touched / 1024:.1f} MiB",
        f"{total['kernel'] / (total['user'] + total['kernel']):.0%}",
        f"{captured['data_references'] / captured['transactions']:,.0f}",
        ", ".join(f"{sum(misses[kind].values()) / every:.0%}" for kind in CLASSES),
        ", ".join(structures[:3]),
        f"{captured['guest_seconds']:.0f} s",
        f"{captured['bytes_per_data_reference']:.2f}",
    ]


def main() -> None:
    """Print the table."""
    wanted = sys.argv[1:]
    print("| " + " | ".join(HEADING) + " |\n|" + "---|" * len(HEADING), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in CAPTURES:
            if not wanted or any(word in name for word in wanted):
                print("| " + " | ".join(row(name, words, Path(folder) / "trace.svt")) + " |", flush=True)


if __name__ == "__main__":
    main()
