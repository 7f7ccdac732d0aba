"""Run one trace under MESI, AMSD, PSCR and PSCR+K and judge the orderings that Foglia et al. 2004 find.

Usage: protocols.py TRACE [REPLICATIONS]. 2 MiB caches with lines of 128 B, random scheduling, on 4
and 8 processors. Prints a table and, last, one JSON document with every mean, its 95 % interval and
the number of replications. The orderings are judged on differences paired by seed and reported as
they come out; the exit code is 1 only where protocol definitions decide the outcome: an invalidation
miss under PSCR.
"""

import json
import sys
from typing import Any

from servsim.simulation import simulate
from servsim.statistics.comparison import difference
from servsim.statistics.intervals import estimate

PROCESSORS = (4, 8)
WARMUP, TRANSACTIONS, REPLICATIONS = 24, 48, 5
#: As in `processors.py`: disks enough that they limit no machine.
DISKS = 64
COMMON = [
    "cache.size=2 MiB",
    "cache.line=128 B",
    "scheduler.policy=random",
    f"disk.parallel={DISKS}",
]
PROTOCOLS = {
    "MESI": ["protocol.name=mesi"],
    "AMSD": ["protocol.name=amsd"],
    "PSCR": ["protocol.name=pscr"],
    "PSCR+K": ["protocol.name=pscr", "protocol.private_kernel=per-process"],
}
SHARING = ("true_sharing", "false_sharing", "passive_sharing")

Series = dict[str, list[float]]


def both(modes: dict[str, int]) -> int:
    """Return the sum of both modes."""
    return modes["user"] + modes["kernel"]


def figures(replication: dict[str, Any]) -> dict[str, float]:
    """Return the figures of one replication."""
    misses, coherence, bus = replication["misses"], replication["coherence"], replication["bus"]
    found = {
        "gsp": replication["gsp"],
        "bus utilization": replication["bus_utilization"],
        "cycles/transaction": replication["cycles_per_transaction"],
        "misses": both(misses["total"]),
        "invalidation misses": sum(both(misses[kind]) for kind in SHARING),
        "context-switch misses": both(replication["context_switch_misses"]["total"]),
        "coherence transactions": both(coherence["total"]),
        "fetches": bus["read"] + bus["read_exclusive"],
        "removed copies": both(replication["removed"]["copies"]),
        "misses on removed copies": both(replication["removed"]["misses"]),
    }
    found |= {f"misses, {kind}": both(misses[kind]) for kind in SHARING}
    found |= {f"coherence, {kind}": both(modes) for kind, modes in coherence.items() if kind != "total"}
    return {name.replace("_sharing", ""): float(value) for name, value in found.items()}


def series(trace: str, processors: int, overrides: list[str], replications: int) -> Series:
    """Return every figure over the replications of one machine."""
    result = simulate(
        trace,
        "foglia-2004-4p",
        overrides=[f"processors={processors}", *COMMON, *overrides],
        warmup=WARMUP,
        transactions=TRANSACTIONS,
        replications=replications,
    )
    runs = [figures(replication) for replication in result["replications"]]
    return {name: [run[name] for run in runs] for name in runs[0]}


def described(values: list[float]) -> dict[str, Any]:
    """Return mean, 95 % interval and number of values."""
    one = estimate(values)
    return {"mean": one.mean, "interval_95": [one.low, one.high], "n": one.n}


def table(found: dict[str, Series]) -> list[str]:
    """Return the figures side by side, each with half the width of its interval."""
    rows = [["", *found]]
    for name in next(iter(found.values())):
        row = [name]
        for one in found.values():
            entry = described(one[name])
            low, high = entry["interval_95"]
            digits = 3 if entry["mean"] < 100 else 0
            row.append(f"{entry['mean']:,.{digits}f} ± {(high - low) / 2:,.{digits}f}")
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def ordering(found: dict[str, Series], name: str, more: str, less: str) -> dict[str, Any]:
    """Judge whether ``more`` has more of a figure than ``less``: yes, no, or within the noise."""
    gap = difference(found[more][name], found[less][name], paired=True)
    verdict = "holds" if gap.low > 0 else "reversed" if gap.high < 0 else "undecided"
    interval = [gap.low, gap.high]
    return {"figure": name, "more": more, "less": less, "difference": gap.mean, "interval_95": interval, "is": verdict}


#: Orderings of section 5.3 of the paper (F14, F17 of the list of results): figure, more, less.
ORDERINGS = [
    ("coherence transactions", "PSCR", "MESI"),
    ("coherence transactions", "MESI", "AMSD"),
    ("coherence, passive", "MESI", "AMSD"),
    ("misses", "MESI", "PSCR"),
    ("bus utilization", "MESI", "PSCR"),
    ("gsp", "PSCR", "AMSD"),
    ("gsp", "AMSD", "MESI"),
]


def main(trace: str, replications: int = REPLICATIONS) -> int:
    """Run the comparison on ``trace``."""
    document: dict[str, Any] = {"trace": trace, "warmup": WARMUP, "transactions": TRANSACTIONS, "machines": {}}
    invalidations = 0.0
    for processors in PROCESSORS:
        found = {name: series(trace, processors, extra, replications) for name, extra in PROTOCOLS.items()}
        print(f"{processors} processors, {replications} replications, mean ± half the 95 % interval", flush=True)
        print("\n".join(table(found)), flush=True)
        judged = [ordering(found, *entry) for entry in ORDERINGS]
        for entry in judged:
            low, high = entry["interval_95"]
            print(
                f"{entry['figure']}: {entry['more']} > {entry['less']} {entry['is']} "
                f"(difference {entry['difference']:,.3f} [{low:,.3f}, {high:,.3f}])"
            )
        print(flush=True)
        invalidations += sum(found["PSCR"]["invalidation misses"]) + sum(found["PSCR+K"]["invalidation misses"])
        document["machines"][processors] = {
            "figures": {name: {key: described(v) for key, v in one.items()} for name, one in found.items()},
            "orderings": judged,
        }
    print(json.dumps(document))
    return 1 if invalidations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3])))
