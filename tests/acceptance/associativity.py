"""Two-way against four-way caches on OLTP, 16 processors, 20 runs each (Alameldeen et al. 2003, Figure 3).

Prints means, intervals and the probability that a single run per design picks the wrong one. Then the
claim that this probability is known beforehand: the one estimated from the first ten runs must agree
with the error frequency among the ten unseen ones, within 1.96 standard errors of both. Uses the trace
given as argument, or the shipped small one. Seeds begin at the second argument (1 without it). Exits 1
when an estimate is missing or the prediction fails.
"""

import sys
from pathlib import Path

from servsim.comparison import METRICS, judge, run_designs
from servsim.comparison.designs import Runs, parse_machine, told_apart
from servsim.comparison.text import render
from servsim.reproduce.alameldeen_2003 import predicted
from servsim.reproduce.runs import runs

REPLICATIONS, HALF = 20, 10
DESIGNS = ("foglia-2004-8p:processors=16,cache.associativity=2", "foglia-2004-8p:processors=16,cache.associativity=4")


def main(trace: Path | None, seed: int) -> int:
    """Run the check."""
    plan = runs(trace, REPLICATIONS, lambda _: None)
    metric = METRICS["cycles_per_transaction"]
    machines = told_apart([parse_machine(text) for text in DESIGNS])
    how = Runs(plan.trace, REPLICATIONS, seed, plan.transactions, plan.warmup)
    found = judge(run_designs(machines, how, metric, print), metric)
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
    sys.exit(main(chosen, int(sys.argv[2]) if len(sys.argv) > 2 else 1))
