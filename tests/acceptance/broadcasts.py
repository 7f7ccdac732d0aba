"""Compare snooping, directory and BASH at eight bandwidths, and judge what Martin et al. 2002 find.

Usage: broadcasts.py [--threshold PERCENT] [TRACE [WARMUP REFERENCES]]; without a trace, the microbenchmark. Prints
cycles per transaction, or of a captured trace per thousand references, BASH against the better of the others with a
95 % interval of the ratio over paired seeds, and its share of broadcasts. Exits 1 when BASH is below .98 of the
better anywhere or, on the microbenchmark, nowhere strictly better.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from servsim.reproduce.broadcasts import (
    AIM,
    BEFORE,
    CAPTURED_BANDWIDTHS,
    MEASURED,
    MICROBENCHMARK_BANDWIDTHS,
    STATIC,
    Point,
    Sweep,
    microbenchmark,
)


def row(sweep: Sweep, point: Point) -> dict[str, object]:
    """Return what is printed of a point."""
    each = 1000 if sweep.unit == "references" else 1
    return {
        "bandwidth": point.bandwidth,
        **{policy: round(point.mean(policy) / (sweep.measured / each), 1) for policy in (*STATIC, "bash")},
        "bash_over_better": [round(value, 3) for value in point.ratio()],
        "broadcast_share": round(point.broadcast_share(), 3),
    }


def main() -> int:
    """Run all points; the exit code."""
    read = argparse.ArgumentParser()
    read.add_argument("--threshold", type=int)
    read.add_argument("trace", nargs="*")
    given = read.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.trace:
            trace, warmup, measured = (*given.trace, BEFORE, MEASURED)[:3]
            sweep = Sweep("trace", Path(trace), int(warmup), int(measured), given.threshold)
        else:
            sweep = microbenchmark(Path(folder), given.threshold)
        points = []
        for bandwidth in CAPTURED_BANDWIDTHS if given.trace else MICROBENCHMARK_BANDWIDTHS:
            points += sweep.points([bandwidth])
            print(json.dumps(row(sweep, points[-1])), flush=True)
    ok = all(point.ratio()[1] >= AIM for point in points)
    strictly = any(point.ratio()[0] > 1.0 for point in points)
    print(json.dumps({"at_least_0.98": ok, "strictly_better_somewhere": strictly}))
    return 0 if ok and (strictly or given.trace) else 1


if __name__ == "__main__":
    sys.exit(main())
