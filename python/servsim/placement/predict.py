"""What a placement is worth, from one monitored run: cycles of fetches saved, as a share of the time that waits."""

from dataclasses import dataclass
from typing import Any

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


def plan(learnt: Learnt, swaps: bool) -> Plan:
    """Place the pages of a run, each by regret, and its threads if they may be exchanged."""
    nodes = learnt.nodes
    taken = swap_threads(learnt.fetched, nodes, learnt.distances) if swaps else list(range(len(nodes)))
    demand = np.zeros((len(learnt.distances), learnt.fetched.shape[1]))
    for slot, node in enumerate(nodes):
        demand[node] += learnt.fetched[taken[slot]]
    memory, cache = learnt.reads("memory"), learnt.reads("cache")
    costs = demand.T @ learnt.distances
    homes = assign(costs, room(learnt.result["machine"]["node"], len(costs)))
    pages = np.arange(len(costs))
    placed = float(costs[pages, homes].sum())
    remote = float(demand.sum() - demand[homes, pages].sum())
    # Fetches of pages that were not counted go on as they are.
    rest = np.clip(memory.sum(axis=1) - _by_asker(learnt), 0, None)
    share = memory / np.maximum(1.0, memory.sum(axis=1, keepdims=True))
    spread = rest[:, None] * share
    others = float(spread.sum() - np.trace(spread) + cache.sum() - np.trace(cache))
    everything = float(memory.sum() + cache.sum())
    kept = float((spread * learnt.distances).sum())
    now = float((memory * learnt.distances).sum())

    def time(cycles: float) -> float:
        saved = (now - kept - cycles) / max(1.0, _cycles(learnt))
        return learnt.time * (1 - learnt.stalled_share * saved)

    whole = {"--interleave=all": time(float(costs.mean(axis=1).sum()))}
    for node in range(costs.shape[1]):
        whole[f"--membind={node}"] = time(float(costs[:, node].sum()))
    return Plan(learnt, homes, costs, taken, (remote + others) / max(1.0, everything), time(placed), whole)


def _by_asker(learnt: Learnt) -> NDArray[np.float64]:
    by_node = np.zeros(len(learnt.distances))
    np.add.at(by_node, np.array(learnt.nodes), learnt.fetched.sum(axis=1))
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
