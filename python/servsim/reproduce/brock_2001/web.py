"""Web serving by nodes and by processors of a node (Figures 11 and 12 of Brock et al. 2001, row B9).

The paper serves static and dynamic pages, 7 to 3, to 48 clients, on one to four nodes of four processors, on one node
of fewer, and on nodes with fewer processors each. Here the server is a captured one, the machine `brock-2001-4x4` in
parts. Measured are as many references of each, wherever they end: with dozens of requests under way on few processors
it is chance how many of them end within a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from servsim import cache
from servsim.errors import UsageError
from servsim.hashes import file_hash
from servsim.machine_partitions.cut import cut
from servsim.machines import machine_text, resolve
from servsim.progress import Show, expected_references, of_references
from servsim.reproduce.alameldeen_2003 import workload_of
from servsim.reproduce.brock_2001.probes import SWITCH
from servsim.reproduce.rows import Part, Row, ordered, shown
from servsim.reproduce.runs import DISKS, Replication, kept
from servsim.result import hertz
from servsim.simulation import simulate
from servsim.statistics.intervals import estimate
from servsim.trace.files import captured_facts

#: Workloads with web servers: all requests of these are a transaction each.
WORKLOADS = ("staticweb", "webmix", "board")
#: What is waited for without one.
WANTED = "a capture of a web server, such as `servsim capture staticweb --set users=48 --transactions 800` makes"
CLAIM = (
    "Figures 11 and 12: one node serves more with two processors and no more with four; more nodes of fewer are better"
)
TOLERANCE = "shape"
#: Nodes of the machine, processors of each, runs.
NODES, EACH, RUNS = 4, 4, 3
#: What four processors of a node may serve beside two; how far apart what a third and a fourth node bring may be.
FLAT, APART = 1.1, 0.25
#: References that are measured, behind as many.
REFERENCES = 8_000_000


@dataclass
class Web:
    """A web server on parts of the machine, each run once.

    Attributes
    ----------
    trace : Path
        What was captured of it.
    count : int
        Runs of each part.
    each : float
        References of a request, by the whole trace.
    """

    trace: Path
    count: int
    each: float
    say: Show
    folder: Path | None
    known: dict[tuple[int, int], list[Replication]] = field(default_factory=dict)

    def __call__(self, nodes: int, each: int) -> list[Replication]:
        """Return runs on so many nodes with so many processors each; pages lie where they are touched first."""
        if (nodes, each) not in self.known:
            # Of a machine whose nodes are as large; its links and memories stay as they are.
            whole = [f"processors={NODES * each}", f"disk.parallel={DISKS}"]
            overrides = cut(SWITCH, {"web": range(1, nodes + 1)}, whole)["web"] if nodes < NODES else whole
            inputs = {
                "trace": file_hash(self.trace),
                "machine": machine_text(SWITCH),
                "overrides": overrides,
                "measured": [REFERENCES, self.count],
            }
            what = f"web, {nodes} x {each} processors"
            expected = expected_references(self.trace, references=REFERENCES, replications=self.count)

            def made() -> list[Replication]:
                result = simulate(
                    self.trace,
                    SWITCH,
                    overrides=overrides,
                    warmup=REFERENCES,
                    references=REFERENCES,
                    replications=self.count,
                    progress=of_references(self.say, what, expected),
                )
                found: list[Replication] = result["replications"]
                return found

            self.say(what, 0.0)
            self.known[nodes, each] = kept(self.folder, inputs, made)
        return self.known[nodes, each]

    def rates(self, nodes: int, each: int) -> list[float]:
        """Return requests a second of each run."""
        clock = hertz(resolve(machine_text(SWITCH), SWITCH, [])["clock"])
        return [clock * run["references"] / run["cycles"] / self.each for run in self(nodes, each)]


def web(trace: Path, quick: bool, say: Show) -> Web:
    """Prepare runs of a web server's trace.

    Raises
    ------
    UsageError
        When it is too short.
    """
    totals = captured_facts(trace)["totals"]
    held = totals["instructions"] + totals["data_references"]
    if held < 3 * REFERENCES or not totals["transactions"]:
        raise UsageError(f"{trace} holds {held} references, and {3 * REFERENCES} are needed: capture more transactions")
    return Web(trace, 1 if quick else RUNS, held / totals["transactions"], say, cache.folder("reproduce"))


def is_web(trace: Path) -> bool:
    """Whether a trace is of a web server."""
    return workload_of(trace) in WORKLOADS


def row(made: Web | None) -> Row:
    """Judge B9, or say what it waits for."""
    if made is None:
        return Row("B9", CLAIM, TOLERANCE, False, (), f"waits for {WANTED}")
    parts = [*_one_node(made), *_nodes(made), *_fewer_each(made)]
    return Row("B9", CLAIM, TOLERANCE, False, tuple(parts), _what_was_run(made))


def _one_node(made: Web) -> list[Part]:
    """Figure 12: one node of one, two and four processors."""
    one, two, four = (made.rates(1, each) for each in (1, 2, 4))
    grown = estimate([b / a for a, b in zip(two, four, strict=True)])
    return [
        ordered("one node, requests a second", one, two, ("2 processors", "1")),
        Part("one node, four processors to two", f"no more (accepted up to {FLAT})", shown(grown), grown.mean <= FLAT),
    ]


def _nodes(made: Web) -> list[Part]:
    """Figure 11: one to four nodes of four processors."""
    served = [made.rates(nodes, EACH) for nodes in range(1, NODES + 1)]
    parts = [
        ordered(f"requests a second, nodes of {EACH} processors", less, more, (f"{nodes + 1} nodes", str(nodes)))
        for nodes, (less, more) in enumerate(pairwise(served), 1)
    ]
    means = [estimate(one).mean for one in served]
    grown = means[-1] / means[0]
    parts.append(Part("four nodes to one", "less than four times", f"{grown:.2f}", grown < NODES))
    third, fourth = means[2] - means[1], means[3] - means[2]
    similar = third > 0 and abs(fourth / third - 1) <= APART
    said = f"{third:,.0f} and {fourth:,.0f} a second"
    parts.append(
        Part("what the third and the fourth node bring", f"similar (accepted {APART:.0%} apart)", said, similar)
    )
    return parts


def _fewer_each(made: Web) -> list[Part]:
    """As many processors in more nodes."""
    return [
        ordered(f"{nodes * each} processors, requests a second", made.rates(*few), made.rates(nodes, each), names)
        for nodes, each, few, names in (
            (4, 1, (1, 4), ("4 x 1", "1 x 4")),
            (4, 2, (2, 4), ("4 x 2", "2 x 4")),
        )
    ]


def _what_was_run(made: Web) -> str:
    """Say what was measured, and what limits each part of the machine, from counters."""
    shapes: Sequence[tuple[int, int]] = sorted(made.known, key=lambda shape: (shape[0] * shape[1], shape))
    said = [
        f"{nodes} x {each} {_idle(made(nodes, each)):.0f}, {_bus(made(nodes, each)):.0f}, "
        f"{_remote(made(nodes, each)):.0f}"
        for nodes, each in shapes
    ]
    return (
        f"{workload_of(made.trace)}, {REFERENCES / 1e6:g} M references behind as many, {made.each:,.0f} a request. "
        f"Idle processors, busy buses and fetches from other nodes, %: {'; '.join(said)}."
    )


def _idle(found: Sequence[Replication]) -> float:
    shares = [
        sum(one["idle"] for one in run["processors"]) / sum(sum(one.values()) for one in run["processors"])
        for run in found
    ]
    return 100 * estimate(shares).mean


def _bus(found: Sequence[Replication]) -> float:
    return 100 * estimate([float(run["bus_utilization"]) for run in found]).mean


def _remote(found: Sequence[Replication]) -> float:
    return 100 * estimate([float(run["figures"].get("nodes.remote_share") or 0) for run in found]).mean
