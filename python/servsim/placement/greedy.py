"""Which node each page should lie in: what costs most if it is not placed well is placed first.

Each page costs so many cycles in each node. Without limits every page lies in its cheapest node; where nodes are too
small for that, the page with most regret (what the second choice costs more than the first) chooses first.
"""

import numpy as np
from numpy.typing import NDArray

#: Pages by nodes: cycles.
Costs = NDArray[np.float64]
#: By page: its node, from 0.
Homes = NDArray[np.int64]


def assign(costs: Costs, room: list[int]) -> Homes:
    """Place pages by regret, with room for so many in each node.

    Parameters
    ----------
    costs : array of pages by nodes
        Cycles that a page costs in a node.
    room : list of int
        Pages that each node holds; together enough.

    Returns
    -------
    array of int
        The node of each page.
    """
    pages = len(costs)
    homes = np.full(pages, -1, dtype=np.int64)
    left = np.array([min(pages, one) for one in room], dtype=np.int64)
    if left.sum() < pages:
        raise ValueError(f"{pages} pages do not fit into {left.sum()}")
    waiting = np.arange(pages)
    while len(waiting):
        # Regrets change only when a node is full, so that they are computed once for each node at most.
        choices = np.where(left > 0, costs[waiting], np.inf)
        best = choices.argmin(axis=1)
        two = np.partition(choices, 1, axis=1)[:, :2] if choices.shape[1] > 1 else choices.repeat(2, axis=1)
        with np.errstate(invalid="ignore"):
            regret = np.nan_to_num(two[:, 1] - two[:, 0], posinf=np.inf)
        order = np.argsort(-regret, kind="stable")
        # All go where they like best, in this order, until the first does not fit.
        nth = np.empty(len(order), dtype=np.int64)
        for node in range(len(left)):
            mine = best[order] == node
            nth[mine] = np.arange(1, mine.sum() + 1)
        fits = nth <= left[best[order]]
        count = len(order) if fits.all() else int(fits.argmin())
        placed = order[:count]
        homes[waiting[placed]] = best[placed]
        left -= np.bincount(best[placed], minlength=len(left))
        waiting = waiting[np.sort(order[count:])]
    return homes


def swap_threads(by_slot: NDArray[np.float64], nodes: list[int], distances: NDArray[np.float64]) -> list[int]:
    """Exchange threads between nodes while the pages, each in its best node then, cost less.

    Parameters
    ----------
    by_slot : array of slots by pages
        What the threads of a slot (a processor) fetch from each page's memory.
    nodes : list of int
        The node of each slot, from 0.
    distances : array of nodes by nodes
        Cycles of a fetch, by asker and home.

    Returns
    -------
    list of int
        For each slot, whose threads it gets; so that ``[0, 1, 2]`` changes nothing.
    """
    taken = list(range(len(nodes)))
    demand = np.zeros((len(distances), by_slot.shape[1]))
    for slot, node in enumerate(nodes):
        demand[node] += by_slot[slot]

    def cost(of: NDArray[np.float64]) -> float:
        return float((of.T @ distances).min(axis=1).sum())

    known, improved = cost(demand), True
    while improved:
        improved = False
        for one in range(len(nodes)):
            for other in range(one):
                here, there = nodes[one], nodes[other]
                if here == there:
                    continue
                change = by_slot[taken[other]] - by_slot[taken[one]]
                demand[here] += change
                demand[there] -= change
                found = cost(demand)
                if found < known * (1 - 1e-9):
                    known, improved = found, True
                    taken[one], taken[other] = taken[other], taken[one]
                else:
                    demand[here] -= change
                    demand[there] += change
    return taken
