"""Simulate one trace on 1, 2, 4 and 8 processors and check that throughput and bus use rise.

Prints one line per machine: cycles per transaction and bus use, each with its 95 % interval and the
number of replications, and the warnings. Exits 1 when a figure does not rise.
"""

import sys
from itertools import pairwise
from typing import Any

from servsim.reproduce.runs import DISKS
from servsim.simulation import simulate

#: With the eight disks of the description those are saturated at 8 processors, and bus use stops rising;
#: all four machines have the DISKS of the rerun studies.
PROCESSORS = (1, 2, 4, 8)
WARMUP, TRANSACTIONS, REPLICATIONS = 24, 48, 10


def figure(result: dict[str, Any], name: str) -> str:
    """Return a figure's mean with its interval."""
    entry = result["summary"][name]
    low, high = entry["interval_95"]
    return f"{entry['mean']:,.4f} [{low:,.4f}, {high:,.4f}] n={entry['n']}"


def main(trace: str) -> int:
    """Run the check on ``trace``."""
    machines = []
    for count in PROCESSORS:
        result = simulate(
            trace,
            "foglia-2004-4p",
            overrides=[f"processors={count}", f"disk.parallel={DISKS}"],
            warmup=WARMUP,
            transactions=TRANSACTIONS,
            replications=REPLICATIONS,
        )
        machines.append(result)
        print(
            f"{count} processors: cycles/transaction {figure(result, 'cycles_per_transaction')}, "
            f"bus {figure(result, 'bus_utilization')}, gsp {figure(result, 'gsp')}; {result['warnings']}",
            flush=True,
        )
    cycles = [result["summary"]["cycles_per_transaction"]["mean"] for result in machines]
    bus = [result["summary"]["bus_utilization"]["mean"] for result in machines]
    rises = all(a > b for a, b in pairwise(cycles)) and all(a < b for a, b in pairwise(bus))
    print("throughput and bus use rise" if rises else "throughput or bus use does not rise")
    return 0 if rises else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
