"""What `servsim rset run --sample` costs, and of how many pages it names the right owner.

Four threads refer to pages of their own with a given share of all references, elsewhere otherwise
(tests/python/rset/owners.c). A host's speed changes by more than the cost from one second to the next; so a run with
the sampler and one without are made at once, with as many references each: the kernel gives them the processors in
turns of milliseconds, and what slows one slows the other. Between them come pairs of which neither samples, whose
difference is that of the measurement. Processor time counts all that a process used, the sampler's own thread and
faults included.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from servsim.rset import preload_library
from servsim.statistics.intervals import estimate

ROOT = Path(__file__).resolve().parents[1]
#: Half of the mebibytes are a named mapping, half an allocation; references of each thread, in millions.
CASES = ((4, 95), (16, 100), (16, 95), (16, 90), (16, 70), (64, 95))
PAIRS = int(os.environ.get("PAIRS", "6"))
MILLIONS = int(os.environ.get("MILLIONS", "100"))
#: A page is hot when it has as many samples.
HOT = 3


def start(program: Path, pages: int, own: int, sample: Path | None) -> "subprocess.Popen[str]":
    """Begin a run."""
    environment = dict(os.environ, LD_PRELOAD=str(preload_library()))
    if sample is not None:
        environment["SERVSIM_RSET_SAMPLE"] = str(sample)
    words = [str(program), str(pages), str(MILLIONS), str(own)]
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)


def pair(program: Path, pages: int, own: int, sample: Path | None) -> tuple[list[int], float, float]:
    """Run twice at once, the second with the sampler if it has a file.

    Return the second's threads, its seconds of processors, and how many more than the first's these are in %.
    """
    both = [start(program, pages, own, None), start(program, pages, own, sample)]
    said = [one.communicate()[0] for one in both]
    if any(one.returncode for one in both):
        sys.exit("a run ended with an error")
    (*_, without, _), (*threads, used, _) = (map(int, words.split()) for words in said)
    return list(threads), used / 1e6, 100 * (used / without - 1)


def known(percents: list[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval."""
    of = estimate(percents)
    if of.low is None or of.high is None:
        sys.exit("an interval needs at least PAIRS=2")
    return of.mean, of.low, of.high


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
            costs, nothing, shares, seconds, samples = [], [], [0, 0, 0, 0], 0.0, 0
            for _ in range(PAIRS):
                nothing.append(pair(program, pages, own, None)[2])
                threads, used, more = pair(program, pages, own, sample)
                costs.append(more)
                document = json.loads(sample.read_text())
                shares = [a + b for a, b in zip(shares, right(document, threads, pages), strict=True)]
                seconds += used
                samples += document["samples"]
            told = {
                f"{what}{name}": (percent, "% of processor time")
                for what, percents in (("cost", costs), ("two without, difference", nothing))
                for name, percent in zip(("", ", from", ", to"), known(percents), strict=True)
            } | {
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
