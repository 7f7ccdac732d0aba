"""Probes of memory, generated: latency and bandwidth of the own and of another node's memory (Figures 5 to 7).

As the paper's programs, threads on one node read, write or copy regions of their own word by word, with the pages of
the own node or of another (`node.placement`). The chase of pointers, a line at a time in random order, is what the two
machines are calibrated on; everything else is predicted.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servsim.machines import machine_text
from servsim.progress import Show
from servsim.reproduce.rows import Part, Row
from servsim.reproduce.runs import kept
from servsim.simulation import simulate

#: Nodes joined directly, and over the switch.
DIRECT, SWITCH = "brock-2001-2x4", "brock-2001-4x4"
#: The paper's programs, by their names here.
PROGRAMS = {"read": "BwMemRd", "write": "BwMemWr", "copy": "BwMemCp"}
#: The probe that `node.hop` is calibrated on.
CALIBRATION = "chase"
#: KiB of each region, and the scaled caches, which it exceeds as 4 MiB exceed the machine's.
REGION_KIB, OUTER, INNER = 64, "16 KiB", "4 KiB"
LINE, WORD = 32, 4
#: Passes over a region: one warms up, one is measured.
PASSES = 2


def references(probe: str, thread: int) -> Iterator[tuple[str, int]]:
    """Yield what one pass of a thread loads (``L``) and stores (``S``)."""
    region = 0x1000_0000 + thread * 0x100_0000
    target = region + 0x80_0000
    lines = list(range(REGION_KIB * 1024 // LINE))
    if probe == CALIBRATION:
        random.Random(thread).shuffle(lines)
        yield from (("L", region + line * LINE) for line in lines)
        return
    for at in range(0, len(lines) * LINE, WORD):
        if probe != "write":
            yield "L", region + at
        if probe != "read":
            yield "S", target + at


def trace(probe: str, threads: int) -> str:
    """Write a probe as a text trace; a pass of a thread is a transaction."""
    lines = []
    for _ in range(PASSES):
        for thread in range(threads):
            lines += [f"{thread} {op} {at:x} {WORD} s" for op, at in references(probe, thread)]
            lines.append(f"{thread} X 0")
    return "\n".join(lines) + "\n"


#: Loads of the second processor that pass the time until whatever was sent has arrived.
_LATER = "1 L 20000000 4 p\n" * 5000
#: Processors of four nodes read a line of the first; then the second writes it.
_READS = "".join(f"{cpu} L 10000000 4 s\n{cpu} L 20000000 4 p\n{cpu} X 0\n" for cpu in range(4))
UPGRADE = f"{_READS}{_LATER}1 S 10000000 4 s\n{_LATER}1 X 0\n"


@dataclass
class Probes:
    """Runs probes, each once."""

    folder: Path | None
    say: Show
    known: dict[tuple[str, str, int, str], dict[str, Any]] = field(default_factory=dict)

    def __call__(self, probe: str, machine: str, threads: int = 1, pages: str = "first-touch") -> dict[str, Any]:
        """Return the run of a probe on threads of one node, with pages of that node or of another (``remote``)."""
        key = (probe, machine, threads, pages)
        if key not in self.known:
            self.say(f"probe {probe}, {threads} threads, {machine}, pages {pages}", 0.0)
            overrides = [
                f"cache.size={INNER}",
                f"l2.size={OUTER}",
                "node.threads=pinned",
                f"node.placement={pages}",
            ]
            text = trace(probe, threads)
            inputs = {"trace": text, "machine": machine_text(machine), "overrides": overrides}
            self.known[key] = kept(self.folder, inputs, lambda: run(text, machine, overrides, threads, threads))
        return self.known[key]

    def cycles(self, *key: Any) -> float:
        """Return the cycles of a probe's measured pass."""
        return float(self(*key)["cycles"])

    def ratio(self, probe: str, machine: str) -> float:
        """Return how many times longer another node's memory takes than the own one."""
        return self.cycles(probe, machine, 1, "remote") / self.cycles(probe, machine)


def run(text: str, machine: str, overrides: Sequence[str], warmup: int, transactions: int) -> dict[str, Any]:
    """Run a text trace once, and return the run of so many transactions after the warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.txt"
        path.write_text(text, encoding="ascii")
        replaced = list(overrides)
        result = simulate(path, machine, overrides=replaced, warmup=warmup, transactions=transactions, replications=1)
    one: dict[str, Any] = result["replications"][0]
    return one


def _band(what: str, paper: str, value: float, low: float, high: float) -> Part:
    return Part(what, paper, f"{value:.2f}", low <= value <= high)


def _b1(probes: Probes) -> list[Row]:
    parts = []
    ratios = {machine: {p: probes.ratio(p, machine) for p in PROGRAMS} for machine in (DIRECT, SWITCH)}
    for probe, program in PROGRAMS.items():
        what = f"{program}, remote to local time, two nodes joined directly"
        parts.append(_band(what, "2 to 3 (accepted 1.8 to 3.3)", ratios[DIRECT][probe], 1.8, 3.3))
    worst = max(ratios[SWITCH].values())
    parts.append(_band("worst of the three over the switch", "6 (accepted 5.4 to 6.6)", worst, 5.4, 6.6))
    for probe, program in PROGRAMS.items():
        what = f"{program}, over the switch {ratios[SWITCH][probe]:.2f}, to directly"
        grown = ratios[SWITCH][probe] / ratios[DIRECT][probe]
        parts.append(_band(what, "almost doubles (accepted 1.6 to 2.1)", grown, 1.6, 2.1))
    chase = " and ".join(f"{probes.ratio(CALIBRATION, machine):.2f} on {machine}" for machine in (DIRECT, SWITCH))
    why = f"Calibrated is `node.hop`, on a chase of pointers alone: {chase}."
    claim = "Figure 5: another node's memory takes two to three times as long, over the switch about twice that"
    return [Row("B1", claim, "bands", False, tuple(parts), why)]


def _scaling(probes: Probes, probe: str, threads: int) -> float:
    return threads * probes.cycles(probe, SWITCH) / probes.cycles(probe, SWITCH, threads)


def _b3(probes: Probes) -> list[Row]:
    parts = []
    for probe, program in PROGRAMS.items():
        most = 1.1 if probe == "write" else 1.5
        two, four = (_scaling(probes, probe, threads) for threads in (2, 4))
        what = f"{program}, bandwidth of four threads of a node to that of one (two: {two:.2f})"
        parts.append(_band(what, f"does not scale (accepted up to {most})", four, 0, most))
    worst = min(PROGRAMS, key=lambda probe: _scaling(probes, probe, 4))
    parts.append(Part("scales worst", PROGRAMS["write"], PROGRAMS[worst], worst == "write"))
    why = (
        "A fetch holds its node's bus until the line is there: an assumption of the description, older than the probes."
    )
    claim = "Figure 6: bandwidth inside a node does not grow with its processors, that of writes least"
    return [Row("B3", claim, "shape", False, tuple(parts), why)]


def _b2(probes: Probes) -> list[Row]:
    share = {p: probes.cycles(p, SWITCH, 4) / probes.cycles(p, SWITCH, 4, "remote") for p in PROGRAMS}
    parts = []
    least = min(share[probe] for probe in ("read", "copy"))
    for probe in ("read", "copy"):
        what = f"{PROGRAMS[probe]}, four threads, bandwidth of remote to local memory"
        parts.append(_band(what, "at least .6 (accepted from .54)", share[probe], 0.54, 1.05))
    parts.append(_band("the least of both", ".6 (accepted .54 to .66)", least, 0.54, 0.66))
    what = f"{PROGRAMS['write']}, the same"
    parts.append(_band(what, "no difference (accepted .95 to 1.05)", share["write"], 0.95, 1.05))
    why = ""
    if not all(part.holds for part in parts):
        local, remote = (probes.cycles("write", SWITCH, 1, pages) for pages in ("first-touch", "remote"))
        lines = REGION_KIB * 1024 // LINE
        why = (
            f"A processor here has one store's miss under way: {remote / lines:.0f} cycles for a line of another node, "
            f"{local / lines:.0f} for one of its own, so that four of them keep the home's bus busy for at most "
            f"{100 * 4 * local / remote:.0f} % of the time. Nothing says that the paper's processors wait like that."
        )
    claim = "Figure 7: four threads lose up to 40 % of their bandwidth by remote memory, writers nothing"
    return [Row("B2", claim, "10 points", False, tuple(parts), why)]


def _b8(probes: Probes) -> list[Row]:
    probes.say("packets of an upgrade", 0.0)
    overrides = ["processors=4", "node.threads=pinned", "node.placement=fill"]
    sent = packets(run(UPGRADE, SWITCH, overrides, warmup=4, transactions=1))
    what = "packets of an upgrade of a line of another node that two further nodes share"
    part = Part(what, "up to 5", f"{sent:.0f}", 0 < sent <= 5)
    return [
        Row("B8", "an invalidation by another node than the home makes at most five packets", "hard", True, (part,))
    ]


def packets(replication: Mapping[str, Any]) -> float:
    """Return how many messages went between nodes; over a switch each is a packet on two links."""
    messages = replication["nodes"]["messages"]
    return float(sum(messages[network] for network in ("requests", "forwards", "responses")))


#: Rows by generated probes.
PARTS: tuple[Callable[[Probes], list[Row]], ...] = (_b1, _b2, _b3, _b8)
