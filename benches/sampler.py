"""What `servsim rset run --sample` costs, and of how many pages it names the right owner.

Four threads refer to pages of their own with a given share of all references, elsewhere otherwise
(tests/python/rset/owners.c). Runs with and without the sampler alternate, each with as many references, so that
a pair is close in time; a host is never quiet, so the cost is the median over the pairs, with the least and the
most beside it. Processor time counts all that the process used, the sampler's own thread and faults included.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from servsim.rset import preload_library

ROOT = Path(__file__).resolve().parents[1]
#: Half of the mebibytes are a named mapping, half an allocation; references of each thread, in millions.
CASES = ((4, 95), (16, 100), (16, 95), (16, 90), (16, 70), (64, 95))
PAIRS = int(os.environ.get("PAIRS", "6"))
MILLIONS = int(os.environ.get("MILLIONS", "100"))
#: A page is hot when it has as many samples.
HOT = 3


def run(program: Path, pages: int, own: int, sample: Path | None) -> tuple[list[int], int, int]:
    """Run once and return the threads, microseconds of processors and microseconds."""
    environment = dict(os.environ, LD_PRELOAD=str(preload_library()))
    if sample is not None:
        environment["SERVSIM_RSET_SAMPLE"] = str(sample)
    words = [str(program), str(pages), str(MILLIONS), str(own)]
    said = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    *threads, used, took = map(int, said.split())
    return threads, used, took


def right(document: dict[str, object], threads: list[int], pages: int) -> tuple[int, int, int, int]:
    """Return how many pages were seen, and rightly owned, and the same for those that are hot."""
    columns: dict[str, list[object]] = document["histogram"]  # type: ignore[assignment]
    found: dict[tuple[object, int], Counter[int]] = defaultdict(Counter)
    names = ("data", "offset", "thread", "count")
    for data, offset, thread, count in zip(*(columns[name] for name in names), strict=True):
        if thread in threads:
            found[data, int(str(offset), 16) // 4096][threads.index(int(str(thread)))] += int(str(count))
    counts = [0, 0, 0, 0]
    for (_, page), who in found.items():
        (first, most), *others = who.most_common()
        good = first == min(page // (pages // 4), 3) and not any(count == most for _, count in others)
        counts[0] += 1
        counts[1] += good
        if who.total() >= HOT:
            counts[2] += 1
            counts[3] += good
    return counts[0], counts[1], counts[2], counts[3]


def main() -> None:
    """Measure and print JSON."""
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, sample = folder / "owners", folder / "sample.json"
        source = ROOT / "tests/python/rset/owners.c"
        subprocess.run(["cc", "-O1", "-pthread", source, "-o", program], check=True)
        for mebibytes, own in CASES:
            pages = mebibytes * 128
            costs, shares, seconds, samples = [], [0, 0, 0, 0], 0.0, 0
            for _ in range(PAIRS):
                _, without, _ = run(program, pages, own, None)
                threads, used, _ = run(program, pages, own, sample)
                costs.append(100 * (used / without - 1))
                document = json.loads(sample.read_text())
                shares = [a + b for a, b in zip(shares, right(document, threads, pages), strict=True)]
                seconds += used / 1e6
                samples += document["samples"]
            costs.sort()
            # Of six pairs the least and the most hold the true median in 97 of 100 cases.
            told = {
                "cost, median": (statistics.median(costs), "% of processor time"),
                "cost, least": (costs[0], "% of processor time"),
                "cost, most": (costs[-1], "% of processor time"),
                "a run": (seconds / PAIRS, "processor seconds"),
                "samples per page": (samples / PAIRS / pages / 2, "1"),
                "pages seen": (100 * shares[0] / PAIRS / pages / 2, "%"),
                "owner right, of all pages": (100 * shares[1] / PAIRS / pages / 2, "%"),
                f"pages with {HOT} samples or more": (100 * shares[2] / PAIRS / pages / 2, "%"),
                "owner right, of those": (100 * shares[3] / max(shares[2], 1), "%"),
            }
            for what, (value, unit) in told.items():
                figures.append(
                    {"name": f"{mebibytes} MiB, own {own} %: {what}", "value": round(value, 2), "unit": unit}
                )
            print(
                f"{mebibytes} MiB, {own} %: " + ", ".join(f"{k} {v:.2f}" for k, (v, _) in told.items()), file=sys.stderr
            )
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
