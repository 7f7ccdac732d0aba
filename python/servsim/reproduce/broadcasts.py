"""Snooping, directory and BASH beside one another over the bandwidth of the links between nodes (Martin et al. 2002).

The machine is `martin-2002-16p`, the microbenchmark that of ``sharing_trace``: 16 tasks pass lines to one another.
Rows A1 to A4 of Alameldeen et al. (2003) are judged by these sweeps, and so is ``tests/acceptance/broadcasts.py``.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from typing import Literal

from servsim import cache
from servsim.hashes import file_hash
from servsim.machines import machine_text
from servsim.reproduce.rows import Part, Row, ordered
from servsim.reproduce.runs import DISKS, Replication, kept
from servsim.simulation import simulate
from servsim.statistics.intervals import estimate

#: The machine of Martin et al. 2002.
MACHINE = "martin-2002-16p"
#: Replications of each point, with seeds common to the three.
REPLICATIONS = 3
#: References measured of a captured workload, and before them: its transactions differ by more than the three do.
MEASURED, BEFORE = 6_000_000, 3_000_000
#: Bytes a cycle: those of the microbenchmark, and lower ones for captured workloads, which ask less of the links.
MICROBENCHMARK_BANDWIDTHS = ("0.25", "0.5", "0.7", "1", "1.4", "2", "4", "8")
CAPTURED_BANDWIDTHS = ("0.031", "0.062", "0.125", "0.25", "0.5", "1", "2", "4")
#: Warm-up and transactions of the microbenchmark.
MICROBENCHMARK = (800, 1200)
#: BASH over the better of the two, at least (row A1).
AIM = 0.98
#: Utilisations that BASH steers to beside the 75 % of the paper, in percent, by which protocol it is behind: links that
#: are fuller suit snooping, emptier ones the directory.
OTHER_THRESHOLD = {"snooping": 90, "directory": 60}

STATIC = ("snooping", "directory")


@dataclass(frozen=True)
class Point:
    """What one bandwidth showed.

    Attributes
    ----------
    bandwidth : str
        Bytes a cycle of each link.
    runs : dict
        By policy, its replications.
    """

    bandwidth: str
    runs: dict[str, list[Replication]]

    def mean(self, policy: str) -> float:
        """Return the mean cycles of a policy's runs."""
        return estimate(_cycles(self.runs[policy])).mean

    @property
    def better(self) -> str:
        """Name the quicker of snooping and directory."""
        return min(STATIC, key=self.mean)

    def ratio(self, other: str | None = None) -> tuple[float, float, float]:
        """Return BASH's speed over the other's, the better one's by default: low end, mean, high end."""
        pairs = zip(_cycles(self.runs[other or self.better]), _cycles(self.runs["bash"]), strict=True)
        found = estimate([log(theirs / own) for theirs, own in pairs])
        low = found.mean if found.low is None else found.low
        high = found.mean if found.high is None else found.high
        return exp(low), exp(found.mean), exp(high)

    def broadcast_share(self) -> float:
        """Return the share of BASH's requests that went to all."""
        nodes = [run["nodes"] for run in self.runs["bash"]]
        broadcasts = sum(node["broadcasts"] for node in nodes)
        return float(broadcasts / max(1, broadcasts + sum(node["unicasts"] for node in nodes)))


@dataclass(frozen=True)
class Sweep:
    """A workload over bandwidths.

    Attributes
    ----------
    workload : str
        In words.
    trace : Path
        What is replayed.
    warmup, measured : int
        What is left out, and measured: references of a captured trace, wherever they end, or transactions.
    threshold : int or None
        BASH's threshold in percent; by default that of the machine.
    unit : str
        ``references`` or ``transactions``.
    """

    workload: str
    trace: Path
    warmup: int = BEFORE
    measured: int = MEASURED
    threshold: int | None = None
    unit: Literal["references", "transactions"] = "references"

    def runs(self, policy: str, bandwidth: str) -> list[Replication]:
        """Simulate one policy at one bandwidth, if that was not done before."""
        overrides = [f"node.coherence={policy}", f"node.link_bytes_per_cycle={bandwidth} B", f"disk.parallel={DISKS}"]
        if policy == "bash" and self.threshold is not None:
            overrides.append(f"node.bash_threshold={self.threshold}%")
        inputs = {
            "trace": file_hash(self.trace),
            "machine": machine_text(MACHINE),
            "overrides": overrides,
            "measured": [self.unit, self.warmup, self.measured, REPLICATIONS],
        }

        def made() -> list[Replication]:
            result = simulate(
                str(self.trace),
                MACHINE,
                overrides=overrides,
                warmup=self.warmup,
                replications=REPLICATIONS,
                transactions=self.measured if self.unit == "transactions" else None,
                references=self.measured if self.unit == "references" else None,
            )
            replications: list[Replication] = result["replications"]
            return replications

        found: list[Replication] = kept(cache.folder("reproduce"), inputs, made)
        return found

    def points(self, bandwidths: Sequence[str], say: Callable[[str], None] = lambda _: None) -> list[Point]:
        """Simulate all three policies at each bandwidth."""
        found = []
        for bandwidth in bandwidths:
            say(f"{self.workload}, {bandwidth} B a cycle")
            found.append(Point(bandwidth, {policy: self.runs(policy, bandwidth) for policy in (*STATIC, "bash")}))
        return found


def _cycles(runs: Sequence[Replication]) -> list[float]:
    return [float(run["cycles"]) for run in runs]


def sharing_trace(seed: int) -> str:
    """Write the microbenchmark as a text trace.

    Each of 16 tasks touches a random one of 2,048 shared lines, half of the times to write it, and then 20 times a line
    of its own. So nearly every shared access finds the line in another cache. 20 shared accesses are a transaction.
    """
    tasks, transactions, accesses, own, shared_lines = 16, 150, 20, 20, 2048
    draw = random.Random(seed)
    lines = []
    for _ in range(transactions):
        for task in range(tasks):
            for _ in range(accesses):
                shared = 0x100_0000 + draw.randrange(shared_lines) * 64
                lines.append(f"{task} {draw.choice('LS')} {shared:x} 4 s")
                lines.extend([f"{task} L {0x8000_0000 + task * 4096:x} 4 p"] * own)
            lines.append(f"{task} X 0")
    return "\n".join(lines) + "\n"


def microbenchmark(folder: Path, threshold: int | None = None) -> Sweep:
    """Prepare the microbenchmark, its trace written into a folder."""
    path = folder / "sharing.txt"
    path.write_text(sharing_trace(1), encoding="ascii")
    return Sweep("microbenchmark", path, *MICROBENCHMARK, threshold, "transactions")


def _at_each(points: Sequence[Point]) -> str:
    """Write the ratio at each bandwidth, with its interval where that holds the aim."""

    def one(point: Point) -> str:
        low, mean, high = point.ratio()
        open_ = f" ({low:.2f} to {high:.2f})" if low < AIM <= high else ""
        return f"{mean:.3f}{open_} at {point.bandwidth} B"

    return ", ".join(one(point) for point in points)


#: Why BASH is behind snooping, and why behind the directory.
_A1_WHY = {
    "snooping": "The rule sends requests to the home alone as soon as links are taken for more than 75 %; with one "
    "miss under way in each processor, snooping loses less by waiting for such links than a unicast by its way over "
    "the home.",
    "directory": "The rule fills links to 75 % by broadcasts, whatever these are worth: where the directory is ahead, "
    "each of them takes time of every node's link that unicasts wait for.",
}


def _a1(sweeps: Sequence[tuple[Sweep, list[Point]]]) -> Row:
    parts: list[Part] = []
    reasons: dict[str, list[str]] = {policy: [] for policy in STATIC}
    for sweep, points in sweeps:
        # What chance may have brought about is said, and not judged.
        missed = [point for point in points if point.ratio()[2] < AIM]
        what = f"{sweep.workload}: BASH over the better of both"
        parts.append(Part(what, f"at least {AIM}", _at_each(points), not missed))
        for point in missed:
            threshold = OTHER_THRESHOLD[point.better]
            steered = replace(sweep, threshold=threshold).runs("bash", point.bandwidth)
            ratio = Point(point.bandwidth, {**point.runs, "bash": steered}).ratio()[1]
            share = point.broadcast_share()
            went = (
                f"{100 * (1 - share):.0f} % to the home alone"
                if point.better == "snooping"
                else f"{100 * share:.0f} % to all where the directory is ahead"
            )
            said = f"{sweep.workload} at {point.bandwidth} B: {went}; with a threshold of {threshold} % {ratio:.3f}"
            reasons[point.better].append(said)
    explanation = " ".join(f"{why} {'; '.join(reasons[behind])}." for behind, why in _A1_WHY.items() if reasons[behind])
    claim = "BASH at least as good as the better of snooping and directory"
    return Row("A1", claim, f"{AIM} of best", False, tuple(parts), explanation)


def _a2(sweeps: Sequence[tuple[Sweep, list[Point]]]) -> Row:
    parts = []
    for sweep, points in sweeps:
        ours = ", ".join(f"{point.better} at {point.bandwidth} B" for point in points)
        both = {point.better for point in points} == set(STATIC)
        parts.append(Part(f"{sweep.workload}: the quicker of both", "changes with the bandwidth", ours, both))
    missed = [sweep.workload for (sweep, _), part in zip(sweeps, parts, strict=True) if not part.holds]
    explanation = f"The bandwidths tried are on one side of the crossing for {', '.join(missed)}." if missed else ""
    return Row("A2", "neither static protocol wins everywhere", "hard", True, tuple(parts), explanation)


def _a4(sweep: Sweep, points: Sequence[Point]) -> Row:
    best = max(points, key=lambda point: min(point.ratio(policy)[0] for policy in STATIC))
    parts = []
    for policy in STATIC:
        low, mean, high = best.ratio(policy)
        ours = f"{mean:.3f} ({low:.3f} to {high:.3f}) at {best.bandwidth} B"
        parts.append(Part(f"{sweep.workload}: BASH over {policy}", "above 1", ours, low > 1))
    explanation = "" if all(part.holds for part in parts) else "No bandwidth tried has BASH above both beyond chance."
    claim = "between low and high bandwidth BASH is above both"
    return Row("A4", claim, "shape", False, tuple(parts), explanation)


def _gains(points: Sequence[Point]) -> list[float]:
    """Return by how many percent BASH is faster than the better of the others: a seed's mean over bandwidths."""
    ratios = [
        [log(theirs / own) for theirs, own in zip(*map(_cycles, (p.runs[p.better], p.runs["bash"])), strict=True)]
        for p in points
    ]
    return [100 * (exp(sum(seed) / len(seed)) - 1) for seed in zip(*ratios, strict=True)]


def _a3(captured: Sequence[tuple[Sweep, list[Point]]], barnes: Sequence[tuple[Sweep, list[Point]]]) -> Row:
    claim, tolerance = "BASH gains more on commercial workloads than on Barnes-Hut", "shape"
    if not barnes:
        waits = (
            "waits for Barnes-Hut as one more --trace: `servsim capture kernels --set kernel=barnes --set threads=16`"
        )
        return Row("A3", claim, tolerance, False, (), waits)
    ((_, points),) = barnes
    parts = tuple(
        ordered(
            f"BASH over the better of both, mean %, {sweep.workload}",
            _gains(points),
            _gains(found),
            ("Barnes-Hut", "commercial"),
        )
        for sweep, found in captured
    )
    explanation = "" if all(part.holds for part in parts) else "BASH is level with the better one on both."
    return Row("A3", claim, tolerance, False, parts, explanation)


def rows(captured: Sequence[Sweep], barnes: Sweep | None, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """Judge A1 to A4 on the microbenchmark and captured workloads; ``quick`` takes every second bandwidth."""
    step = 2 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        micro = microbenchmark(Path(folder))
        bandwidths = CAPTURED_BANDWIDTHS[::step]
        sweeps = [
            (micro, micro.points(MICROBENCHMARK_BANDWIDTHS[::step], say)),
            *((sweep, sweep.points(bandwidths, say)) for sweep in captured),
        ]
        scientific = [(sweep, sweep.points(bandwidths, say)) for sweep in (barnes,) if sweep is not None]
        return [
            _a1(sweeps),
            _a2(sweeps),
            _a3(sweeps[1:], scientific),
            _a4(*sweeps[0]),
        ]
