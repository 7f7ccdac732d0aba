"""Two-way against four-way caches on OLTP, 16 processors, 20 runs each (Alameldeen et al. 2003, Figure 3).

Prints means, intervals and the probability that a single run per design picks the wrong one. Then the
claim that this probability is known beforehand: the one estimated from the first ten runs must agree
with the error frequency among the ten unseen ones, within 1.96 standard errors of both. Uses the trace
given as argument, or the shipped small one. Seeds begin at the second argument (1 without it); the third
is the number of transactions to measure. Exits 1 when an estimate is missing or the prediction fails.

The paper has eight users per processor: `servsim capture oltp --users 128 --transactions 320` makes such a
trace. With the eight disks of the description 16 processors would mostly wait for them, and caches would
hardly matter; both designs have those of the rerun studies.
"""

import sys
from pathlib import Path

from servsim.comparison import judge, metric, run_designs
from servsim.comparison.designs import Runs, parse_machine, told_apart
from servsim.comparison.text import render
from servsim.reproduce.alameldeen_2003 import predicted
from servsim.reproduce.runs import DISKS, runs

REPLICATIONS, HALF = 20, 10
DESIGNS = tuple(f"foglia-2004-8p:processors=16,disk.parallel={DISKS},cache.associativity={ways}" for ways in (2, 4))


def main(trace: Path | None, seed: int, transactions: int | None) -> int:
    """Run the check."""
    plan = runs(trace, REPLICATIONS, lambda _: None)
    by = metric("cycles_per_transaction")
    machines = told_apart([parse_machine(text) for text in DESIGNS])
    how = Runs((plan.trace,), REPLICATIONS, seed, transactions or plan.transactions, plan.warmup)
    found = judge(run_designs(machines, how, by, print), by)
    print(render(found))
    for warning in found.warnings:
        print(f"warning: {warning}")
    two, four = (known.values for known in found.known)
    first, unseen, distance = predicted(two, four, HALF)
    print(
        f"first {HALF} runs predict {100 * first.probability:.1f} % wrong (95 % interval {100 * first.low:.1f} to "
        f"{100 * first.high:.1f} %); the {REPLICATIONS - HALF} unseen ones give {100 * unseen.probability:.1f} %: "
        f"{abs(distance):.2f} standard errors apart"
    )
    holds = abs(distance) <= 1.96 and all(known.t.low is not None for known in found.known)
    print("the prediction holds" if holds else "the prediction fails")
    return 0 if holds else 1


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1] else None
    given = [int(text) for text in sys.argv[2:4]]
    sys.exit(main(chosen, given[0] if given else 1, given[1] if len(given) > 1 else None))
