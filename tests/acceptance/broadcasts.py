"""Compare snooping, directory and BASH at eight bandwidths, and judge what Martin et al. 2002 find.

Usage: broadcasts.py [TRACE [WARMUP TRANSACTIONS]]; without a trace, that of examples/bash/sharing.py. Prints cycles
per transaction, BASH against the better of the others with a 95 % interval of the ratio over paired seeds, and its
shares. Exits 1 when BASH is below .98 of the better anywhere or, on the microbenchmark, nowhere strictly better.
"""

import json
import runpy
import sys
import tempfile
from math import exp, log
from pathlib import Path
from typing import Any

from servsim.simulation import simulate
from servsim.statistics.intervals import estimate

EXAMPLE = Path(__file__).parents[2] / "examples" / "bash"
BANDWIDTHS = ("0.25 B", "0.5 B", "0.7 B", "1 B", "1.4 B", "2 B", "4 B", "8 B")
REPLICATIONS = 3


def cycles(result: dict[str, Any]) -> list[float]:
    """Return the cycles of every replication, which all have the same number of transactions."""
    return [float(run["cycles"]) for run in result["replications"]]


def main(trace: str, warmup: int, transactions: int, micro: bool) -> int:
    """Run all points; the exit code."""
    rows, ok = [], True
    for bandwidth in BANDWIDTHS:
        runs = {
            policy: simulate(
                trace,
                str(EXAMPLE / "martin-2002-16p.toml"),
                overrides=[f"node.coherence={policy}", f"node.link_bytes_per_cycle={bandwidth}"],
                warmup=warmup,
                transactions=transactions,
                replications=REPLICATIONS,
            )
            for policy in ("snooping", "directory", "bash")
        }
        mean = {policy: runs[policy]["summary"]["cycles_per_transaction"]["mean"] for policy in runs}
        better = min(("snooping", "directory"), key=lambda policy: mean[policy])
        ratios = [log(a / b) for a, b in zip(cycles(runs[better]), cycles(runs["bash"]), strict=True)]
        found = estimate(ratios)
        low, high = found.low or 0.0, found.high or 0.0
        row = {
            "bandwidth": bandwidth,
            **{policy: round(mean[policy], 1) for policy in mean},
            "bash_over_better": [round(exp(value), 3) for value in (low, found.mean, high)],
            "broadcast_share": round(runs["bash"]["summary"]["nodes.broadcast_share"]["mean"], 3),
            "link_utilization": round(runs["bash"]["summary"]["nodes.link_utilization"]["mean"], 3),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
        ok &= exp(found.mean) >= 0.98
    strictly = any(row["bash_over_better"][0] > 1.0 for row in rows)
    print(json.dumps({"rows": rows, "at_least_0.98": ok, "strictly_better_somewhere": strictly}))
    return 0 if ok and (strictly or not micro) else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), micro=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sharing.txt"
        path.write_text(runpy.run_path(str(EXAMPLE / "sharing.py"))["trace"](1), encoding="ascii")
        sys.exit(main(str(path), 800, 1200, micro=True))
