"""Row F18: the two tiers on a machine each, beside both on one (section 5.3).

A trace of one tier is a capture of the whole shop whose other tier is counted to the load: that one runs elsewhere,
behind a network, as the browsers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from servsim.reproduce.foglia_2004.study import POLICIES, PROTOCOLS, Figure, Study
from servsim.reproduce.foglia_2004.tiers import Workload
from servsim.reproduce.rows import Part, Row, ordered, shown
from servsim.reproduce.runs import SHARING, Configuration, Runs, gsp, mean, miss_percent, rate, total
from servsim.statistics.intervals import estimate

CLAIM = "16 processors: Web beats EC beats DB in GSP, and misses least; the order of protocols holds in each"
#: How to come by the traces.
WAITS = (
    "waits for traces of the three workloads, each with its own --trace: `servsim capture ecommerce --scale paper`, "
    "`--scale database` cut with `servsim trace cut --as-load apache2`, `--scale web` cut with `--as-load postgres`"
)

#: Section 5.3: affinity, 2 MiB, two ways, blocks of 128 bytes.
AT = {protocol: Configuration(16, scheduler=POLICIES[1], protocol=protocol) for protocol in PROTOCOLS}


def _compared(what: str, order: tuple[Workload, ...], values: dict[Workload, list[float]]) -> list[Part]:
    """Check that a figure rises along ``order``."""
    return [ordered(f"{what}, 16p, affinity", values[a], values[b], (a.value, b.value)) for a, b in pairwise(order)]


def row(study: Study) -> list[Row]:
    """Make the row, if there is a trace of each workload."""
    if set(study.workloads) != set(Workload):
        return [Row("F18", CLAIM, "hard order", True, (), WAITS)]
    made = study.workloads
    mesi = AT["mesi"]

    def of(figure: Figure) -> dict[Workload, list[float]]:
        return {workload: runs.values(mesi, figure) for workload, runs in made.items()}

    web, both, database = Workload.WEB, Workload.BOTH, Workload.DATABASE
    parts = _compared("GSP", (database, both, web), of(gsp))
    parts += _compared("misses per 100", (web, both, database), of(miss_percent))
    parts += _protocols(made)
    parts += _web_alone(made[web])
    for what, table in (("invalidation misses", "misses"), ("coherence transactions", "coherence")):
        values = of(rate(table, *SHARING, mode="kernel"))
        parts.append(
            ordered(f"{what} of the kernel per 1000, 16p", values[database], values[web], (database.value, web.value))
        )
    return [study.row("F18", CLAIM, "hard order", parts, mesi, hard=True, more=_ready(made))]


def _ready(made: Mapping[Workload, Runs]) -> str:
    """Say how much each workload keeps the machine busy: the paper keeps 26 processes ready in each."""
    ready = {w: mean(runs.values(AT["mesi"], lambda run: float(run["mean_ready_tasks"]))) for w, runs in made.items()}
    return "Ready tasks: " + ", ".join(f"{w.value} {tasks:.1f}" for w, tasks in ready.items()) + "."


def _protocols(made: dict[Workload, Runs]) -> list[Part]:
    """Check the order of protocols in each workload."""
    return [
        ordered(
            f"GSP, {workload.value}",
            runs.values(AT[worse], gsp),
            runs.values(AT[better], gsp),
            (worse.upper(), better.upper()),
        )
        for workload, runs in made.items()
        for worse, better in pairwise(PROTOCOLS)
    ]


def _web_alone(runs: Runs) -> list[Part]:
    """Apache's processes share no user data, yet migrate."""
    mesi = AT["mesi"]
    missed = runs.values(mesi, lambda run: total(run, "misses", "true_sharing", "false_sharing", mode="user"))
    passive = runs.values(mesi, rate("coherence", "passive_sharing", mode="user"))
    return [
        Part("Web-server: user misses by true and false sharing", "0", shown(estimate(missed)), max(missed) == 0),
        Part("Web-server: user passive transactions per 1000", "some", shown(estimate(passive)), min(passive) > 0),
    ]
