"""What every row of the study uses: its configurations, and figures of their runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from servsim.critical_point import CriticalPoint, critical_point
from servsim.reproduce.foglia_2004.reasons import why
from servsim.reproduce.foglia_2004.tiers import Workload
from servsim.reproduce.rows import Part, Row, shown
from servsim.reproduce.runs import Configuration, Replication, Runs, gsp, mean
from servsim.statistics.intervals import estimate

SMALL, LARGE = "128 KiB", "2 MiB"
#: Cache sizes of Figures 2-6; quick leaves the middle ones out.
SIZES, QUICK_SIZES = (SMALL, "256 KiB", "512 KiB", "1 MiB", LARGE), (SMALL, "512 KiB", LARGE)
#: Block sizes of Figures 7-10, and beyond, where the paper expects false sharing to turn up.
LINES, LONG_LINES = (32, 64, 128, 256), (512, 1024, 2048)
PROTOCOLS = ("mesi", "amsd", "pscr")
POLICIES = ("random", "affinity")
#: Processor counts of Figure 14.
COUNTS = (8, 12, 16)

Figure = Callable[[Replication], float]


class Study:
    """Makes the rows, each from the runs that it needs."""

    def __init__(self, made: Runs, quick: bool, workloads: Mapping[Workload, Runs] | None = None) -> None:
        self.made = made
        self.quick = quick
        #: Runs on the traces of section 5.3, as far as they are there.
        self.workloads = dict(workloads or {})
        self.sizes = QUICK_SIZES if quick else SIZES

    def values(self, configuration: Configuration, figure: Figure) -> list[float]:
        """Return a figure of every run of a configuration."""
        return self.made.values(configuration, figure)

    def row(
        self,
        name: str,
        claim: str,
        tolerance: str,
        parts: Sequence[Part],
        witness: Configuration,
        *,
        hard: bool = False,
        more: str = "",
    ) -> Row:
        """Return a row; a missed one is explained from the counters of ``witness``, and by ``more``."""
        missed = not all(part.holds for part in parts)
        reason = f"{why(self.made, witness)} {more}".rstrip() if missed else ""
        return Row(name, claim, tolerance, hard, tuple(parts), reason)

    def critical(self, base: Configuration, counts: Sequence[int], steps: Sequence[int]) -> CriticalPoint:
        """Return a critical point: over ``counts`` in full, over ``steps`` and interpolated when quick."""
        chosen = steps if self.quick else counts
        return critical_point({n: self.values(replace(base, processors=n), gsp) for n in chosen})

    def rising(self, what: str, configurations: Sequence[Configuration], figure: Figure, up: bool = True) -> list[Part]:
        """Check that a figure rises (or falls) from one configuration to the next."""
        found = [self.values(c, figure) for c in configurations]
        means = [mean(values) for values in found]
        holds = all((b > a) == up and a != b for a, b in pairwise(means))
        ours = ", ".join(shown(estimate(values)) for values in found)
        return [Part(what, "rises" if up else "falls", ours, holds)]


def at(what: str, paper: float, found: CriticalPoint, accepted: float) -> Part:
    """Compare a critical point of the mean curve; its interval is shown beside it."""
    most = max(found.gsp)
    if found.point is None:
        return Part(what, f"{paper:g}", f"none up to {most}", paper > most)
    up_to = f"beyond {most}" if found.high is None else f"{found.high:.1f}"
    interval = "" if found.low is None else f" ({found.low:.1f} to {up_to})"
    # A curve that gains too little from its first step on may have its point further down.
    less = " or less" if found.point <= min(found.gsp) else ""
    return Part(what, f"{paper:g}", f"{found.point:.1f}{less}{interval}", abs(found.point - paper) <= accepted)


def gsp_at(what: str, paper: float, found: CriticalPoint, share: float) -> Part:
    """Compare the GSP of the mean curve at the critical point, interpolated."""
    if found.point is None:
        return Part(what, f"about {paper:g}", "no critical point was found", False)
    counts = sorted(found.gsp)
    below = max(n for n in counts if n <= found.point)
    above = min((n for n in counts if n >= found.point), default=below)
    part = (found.point - below) / (above - below) if above > below else 0.0
    value = found.gsp[below].mean + part * (found.gsp[above].mean - found.gsp[below].mean)
    return Part(what, f"about {paper:g}", f"{value:.1f}", abs(value / paper - 1) <= share)


def added(study: Study, before: Configuration, after: Configuration, figure: Figure) -> float:
    """Return how much a figure grows from one configuration to another."""
    return mean(study.values(after, figure)) - mean(study.values(before, figure))
