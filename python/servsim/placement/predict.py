"""What a placement is worth, from one monitored run: cycles of fetches saved, as a share of the time that waits.

A placement fits the fetches that it is drawn from better than any others: a page that is fetched from once lies, of
course, with who fetched. So what is predicted is told of fetches that were held out. Each part of a run goes by a
placement drawn from all other parts, and pages that these say nothing of stay where they are (cross-validation in
blocks: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, 2009, section 7.10).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from servsim.placement.greedy import Costs, Homes, assign, swap_threads
from servsim.placement.learn import Learnt
from servsim.placement.rules import PAGE
from servsim.units import bytes_of


@dataclass(frozen=True)
class Plan:
    """A placement and what it should bring.

    Attributes
    ----------
    learnt : Learnt
        The run that it is drawn from.
    homes : array of int
        The node of each page, from 0.
    costs : array of pages by nodes
        Cycles of a page's fetches in each node.
    taken : list of int
        For each processor, whose tasks it gets.
    remote_share : float
        Share of fetches that other nodes serve then.
    time : float
        Cycles per transaction then.
    whole : dict of str to float
        Cycles per transaction when all pages follow one policy, as ``numactl`` can say it.
    """

    learnt: Learnt
    homes: Homes
    costs: Costs
    taken: list[int]
    remote_share: float
    time: float
    whole: dict[str, float]


class _Drawn(NamedTuple):
    """What is drawn from fetches of processors by pages; as in `Plan`."""

    homes: Homes
    costs: Costs
    taken: list[int]


def plan(learnt: Learnt, swaps: bool) -> Plan:
    """Place the pages of a run, each by regret, and its threads if they may be exchanged."""
    best = _drawn(learnt, learnt.fetched, swaps)
    memory, cache = learnt.reads("memory"), learnt.reads("cache")
    share = memory / np.maximum(1.0, memory.sum(axis=1, keepdims=True))
    # Fetches of pages that were not counted go on as they are.
    uncounted = np.clip(memory.sum(axis=1) - _by_node(learnt, learnt.fetched).sum(axis=1), 0, None)
    placed, kept = np.zeros_like(memory), uncounted.copy()
    for drawn, known, held in _held_out(learnt, best, swaps):
        demand = _by_node(learnt, held[drawn.taken])
        kept += demand[:, ~known].sum(axis=1)
        np.add.at(placed.T, drawn.homes, demand[:, known].T)
    fetches = placed + kept[:, None] * share
    remote = sum(float(kind.sum() - np.trace(kind)) for kind in (fetches, cache))

    now = float((memory * learnt.distances).sum())

    def time(cycles: float) -> float:
        saved = (now - cycles) / max(1.0, _cycles(learnt))
        return learnt.time * (1 - learnt.stalled_share * saved)

    rest = float((uncounted[:, None] * share * learnt.distances).sum())
    whole = {"--interleave=all": time(rest + float(best.costs.mean(axis=1).sum()))}
    for node, cycles in enumerate(best.costs.sum(axis=0)):
        whole[f"--membind={node}"] = time(rest + float(cycles))
    remote_share = remote / max(1.0, float(memory.sum() + cache.sum()))
    return Plan(learnt, *best, remote_share, time(float((fetches * learnt.distances).sum())), whole)


def _held_out(
    learnt: Learnt, whole: _Drawn, swaps: bool
) -> Iterator[tuple[_Drawn, NDArray[np.bool_], NDArray[np.uint32]]]:
    """Yield placements, the pages that they know, and the fetches that go by them; one part goes by the ``whole``."""
    if len(learnt.fetched_in) == 1:
        yield whole, np.ones(len(whole.homes), dtype=bool), learnt.fetched_in[0]
        return
    for held in learnt.fetched_in:
        seen = learnt.fetched - held
        known = seen.any(axis=0)
        yield _drawn(learnt, seen[:, known], swaps), known, held


def _drawn(learnt: Learnt, fetched: NDArray[np.float64], swaps: bool) -> _Drawn:
    """Place pages by what each processor fetched from them, and its threads if they may be exchanged."""
    taken = _exchanged(learnt, fetched) if swaps else list(range(len(learnt.nodes)))
    costs = _by_node(learnt, fetched[taken]).T @ learnt.distances
    return _Drawn(assign(costs, room(learnt.result["machine"]["node"], len(costs))), costs, taken)


def _exchanged(learnt: Learnt, fetched: NDArray[np.float64]) -> list[int]:
    """Exchange threads between nodes: for each processor, whose tasks it gets.

    Threads of a core group go together. Its shared level holds what they fetch for one another, so that one of them
    elsewhere would fetch other lines than were counted.
    """
    count = int(learnt.result["machine"]["group"]["count"])
    each = len(learnt.nodes) // count if count > 1 else 1
    by_slot = fetched.reshape(-1, each, fetched.shape[1]).sum(axis=1)
    slots = swap_threads(by_slot, learnt.nodes[::each], learnt.distances)
    return [slot * each + within for slot in slots for within in range(each)]


def _by_node(learnt: Learnt, fetched: NDArray[np.float64] | NDArray[np.uint32]) -> NDArray[np.float64]:
    """Add fetches of processors up by their nodes: nodes by pages."""
    by_node = np.zeros((len(learnt.distances), fetched.shape[1]))
    np.add.at(by_node, np.array(learnt.nodes), fetched)
    return by_node


def _cycles(learnt: Learnt) -> float:
    return float(sum(pair["read_cycles"] for pair in learnt.replication["nodes"]["pairs"]))


def room(node: dict[str, Any], pages: int) -> list[int]:
    """Return the pages that each node's memory holds, by the description."""

    def held(text: str) -> int:
        if text.strip() == "unlimited":
            return pages
        return bytes_of(text) // PAGE

    sizes = [held(text) for text in node["memory"].split(",")]
    sizes = sizes * int(node["count"]) if len(sizes) == 1 else sizes
    lacking = pages - sum(sizes)
    # What no node has room for the simulator counts; here it goes to the last.
    return [*sizes[:-1], sizes[-1] + max(0, lacking)]
