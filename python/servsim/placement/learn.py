"""What one monitored run says of pages: who fetches which from memory, and what a fetch costs from node to node."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servsim.monitor.filters import MOST_COUNTERS, Region, program, regions
from servsim.monitor.refine import run
from servsim.placement.rules import PAGE, Page

#: Fetches of a pair of nodes from which on their mean is its own, not that of all local or remote pairs.
ENOUGH = 200
#: Where the simulator keeps processors' own areas of kernel data (of the first), apart from all other memory.
PER_CPU = 1 << 60
#: Share of all fetches below which the pages that were counted are too few.
COVERED = 0.9


@dataclass(frozen=True)
class Learnt:
    """A run, its pages, and its costs.

    Attributes
    ----------
    result : dict
        The run, schema ``servsim.simulate/1``.
    pages : list of Page
        The pages that were fetched from.
    fetched_in : array of parts by processors by pages
        Lines that a processor fetched from the memory of each page's node, in each part of the measured transactions.
    distances : array of nodes by nodes
        Mean cycles of a fetch, by asker and home, its waits included.
    nodes : list of int
        The node of each processor, from 0.
    names : list of str
        What lies on each page, for people.
    per_cpu : bool
        Whether the trace has processors' own kernel data.
    """

    result: dict[str, Any]
    pages: list[Page]
    fetched_in: NDArray[np.uint32]
    distances: NDArray[np.float64]
    nodes: list[int]
    names: list[str]
    per_cpu: bool

    @cached_property
    def fetched(self) -> NDArray[np.float64]:
        """Lines that a processor fetched from the memory of each page's node: processors by pages."""
        whole: NDArray[np.float64] = self.fetched_in.sum(axis=0, dtype=float)
        return whole

    @property
    def replication(self) -> dict[str, Any]:
        """The only run."""
        one: dict[str, Any] = self.result["replications"][0]
        return one

    def reads(self, kind: str) -> NDArray[np.float64]:
        """Return lines fetched by asker and server, from ``memory`` or ``cache``."""
        return _matrix(self.result, f"{kind}_reads")

    @property
    def time(self) -> float:
        """Cycles per transaction."""
        return float(self.replication["cycles_per_transaction"] or self.replication["cycles"])

    @property
    def stalled_share(self) -> float:
        """Share of the processors' time, idle time left out, that waits for memory.

        Nodes that keep coherent by messages order a request at its home: the way there is a wait for a grant too.
        """
        parts = self.replication["processors"]
        whole = sum(value for part in parts for key, value in part.items() if key != "idle")
        by_messages = self.result["machine"]["node"]["coherence"] == "messages"
        waits = ("memory_stall", "bus_wait") if by_messages else ("memory_stall",)
        return sum(float(part[key]) for part in parts for key in waits) / whole if whole else 0.0


def _matrix(result: dict[str, Any], key: str) -> NDArray[np.float64]:
    pairs = result["replications"][0]["nodes"]["pairs"]
    count = int(result["machine"]["node"]["count"])
    values = np.zeros((count, count))
    for pair in pairs:
        values[pair["from"] - 1, pair["to"] - 1] = pair[key]
    return values


def learn(trace: str | Path, machine: str | Path, *, parts: int = 1, **options: Any) -> Learnt:
    """Run once and count fetches of all pages by processor, from memory and from caches apart.

    Fetches of so many ``parts`` of the measured transactions are counted apart. The other options are those of
    `servsim.simulation.simulate`, with ``placement`` as a path.
    """
    # Nearly 2 GiB of pages, and a few counters beside them.
    whole = Region(0, (MOST_COUNTERS - 1024) * PAGE)
    result = _count(trace, machine, [whole], parts, options)
    if sum(_histogram(result)["count"]) < COVERED * _matrix(result, "memory_reads").sum():
        # Memory is larger than that: first 2 MiB granules, then the pages of the busiest.
        text = program([Region(0, (MOST_COUNTERS // 2) << 21)], 2 << 20, "simulator", [_SERVED])
        coarse = run(trace, machine, text, **options)
        counts: dict[int, int] = {}
        histogram = coarse["replications"][0]["monitor"]["histogram"]
        for text, count in zip(histogram["address"], histogram["count"], strict=True):
            counts[int(text, 16)] = counts.get(int(text, 16), 0) + count
        chosen = regions(counts, 2 << 20, PAGE, 31, MOST_COUNTERS - 1024)
        result = _count(trace, machine, chosen, parts, options)
    return _learnt(result, parts)


#: Fetches that a memory serves: what depends on where pages lie.
_SERVED = 'types = "read read-exclusive"\nserved = "memory"'
#: Tells whether there are such areas.
_OF_PER_CPU = f'\n[[filter]]\nstart = "{PER_CPU:#x}"\nsize = "2 MiB"\ngranularity = "2 MiB"\n'


def _count(
    trace: str | Path, machine: str | Path, chosen: list[Region], parts: int, options: dict[str, Any]
) -> dict[str, Any]:
    text = program(chosen, PAGE, "simulator", [_SERVED]) + _OF_PER_CPU
    return run(trace, machine, f"parts = {parts}\n{text}", **options)


def _histogram(result: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the counters of pages of memory."""
    histogram = result["replications"][0]["monitor"]["histogram"]
    kept = [at for at, address in enumerate(histogram["address"]) if int(address, 16) < PER_CPU]
    return {name: [column[at] for at in kept] for name, column in histogram.items()}


def _learnt(result: dict[str, Any], parts: int) -> Learnt:
    histogram = _histogram(result)
    processors = len(result["replications"][0]["processors"])
    index: dict[str, int] = {}
    pages: list[Page] = []
    names: list[str] = []
    fetched = []
    columns = ("address", "processor", "node", "count", "data", "virtual_address", "process", "offset")
    nodes = _nodes(result, processors)
    of_part = histogram.get("part", [1] * len(histogram["count"]))
    for part, address, processor, node, count, data, virtual, process, offset in zip(
        of_part, *(histogram[name] for name in columns), strict=True
    ):
        if address not in index:
            index[address] = len(pages)
            names.append(data or "(unknown)")
            if offset is not None:
                pages.append(Page("structure", data.split(", ")[0], int(offset, 16)))
            elif process is not None and virtual is not None:
                pages.append(Page("process", str(process), int(virtual, 16)))
            else:
                pages.append(Page("", "", int(address, 16)))
        nodes[processor] = node - 1
        fetched.append((part - 1, processor, index[address], count))
    by_part = np.zeros((parts, processors, len(pages)), dtype=np.uint32)
    for part, processor, page, count in fetched:
        by_part[part, processor, page] += count
    everything = result["replications"][0]["monitor"]["histogram"]["address"]
    per_cpu = any(int(address, 16) >= PER_CPU for address in everything)
    return Learnt(result, pages, by_part, _distances(result), nodes, names, per_cpu)


def _nodes(result: dict[str, Any], processors: int) -> list[int]:
    """Return the node of each processor, as descriptions deal them."""
    node = result["machine"]["node"]
    count = int(node["count"])
    if node["processors"] == "even":
        return [cpu * count // processors for cpu in range(processors)]
    own = [int(word) for word in node["processors"].replace(",", " ").split()]
    return [at for at, many in enumerate(own) for _ in range(many)]


def _distances(result: dict[str, Any]) -> NDArray[np.float64]:
    """Return the mean cycles of a fetch by asker and server; of pairs with few, that of all local or remote ones."""
    reads = _matrix(result, "memory_reads") + _matrix(result, "cache_reads")
    cycles = _matrix(result, "read_cycles")
    local = np.eye(len(reads), dtype=bool)
    means = np.zeros_like(reads)
    for kind in (local, ~local):
        whole = reads[kind].sum()
        means[kind] = cycles[kind].sum() / whole if whole else 0.0
    if not reads[local].sum() or not reads[~local].sum():
        # Only one kind was seen: a remote fetch takes what the description says beyond a local one.
        means[local | ~local] = cycles.sum() / max(1.0, reads.sum())
        means[~local] += _extra(result)
    own = reads >= ENOUGH
    means[own] = cycles[own] / reads[own]
    return means


def _extra(result: dict[str, Any]) -> float:
    """Cycles of two ways between nodes."""
    return 2 * float(str(result["machine"]["node"]["hop"]).split()[0])
