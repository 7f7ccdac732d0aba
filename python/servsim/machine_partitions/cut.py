"""Static partitions: each becomes a machine of its own.

A partition keeps its nodes' processors, memory and links, and what lies inside a node. Nodes whose ways lead through a
node of another partition cannot be one. What partitions would share is not: a switch or a link carries the traffic of
the one partition alone, and each has all disks of the description.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servsim.errors import UsageError
from servsim.limits import whole
from servsim.machines import machine_text, resolve
from servsim.result import flat

#: Settings of nodes that hold a value for all nodes or one for each, separated by commas.
_EACH = ("processors", "memory", "memory_latency", "memory_bytes_per_cycle")


#: Nodes whose divisions somebody may want to read: 16 have 231.
_MOST_DIVIDED = 16


def shapes(nodes: int) -> list[tuple[int, ...]]:
    """Return how a machine can be divided into partitions of whole nodes: the sizes, the largest first.

    Raises
    ------
    UsageError
        For more than 16 nodes, which can be divided in too many ways.

    Examples
    --------
    >>> shapes(4)
    [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    """
    whole("nodes", nodes, 1)
    if nodes > _MOST_DIVIDED:
        raise UsageError(f"{nodes} nodes can be divided in too many ways to print: name partitions with partitions cut")

    def parts(left: int, most: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
        for first in range(min(left, most), 0, -1):
            for rest in parts(left - first, first):
                yield (first, *rest)

    return list(parts(nodes, nodes))


def cut(machine: str, partitions: Mapping[str, Sequence[int]], overrides: Sequence[str] = ()) -> dict[str, list[str]]:
    """Cut partitions out of a machine.

    Parameters
    ----------
    machine
        Description, a file or a shipped name.
    partitions
        By name, the nodes of each, from 1.
    overrides
        Settings that replace those of the description, each ``KEY=VALUE``.

    Returns
    -------
    dict
        By name, the settings ``KEY=VALUE`` that make the machine the partition.

    Raises
    ------
    UsageError
        For a machine without nodes, or a partition that it cannot have.
    """
    text = machine_text(machine)
    whole = resolve(text, machine, list(overrides))
    count = int(whole["node"]["count"])
    if count == 1:
        raise UsageError(f"{machine} has one node: only machines with node.count above 1 have partitions")
    owner: dict[int, str] = {}
    for name, nodes in partitions.items():
        if not nodes:
            raise UsageError(f"partition {name} has no node: give it at least one of 1 to {count}, or leave it out")
        for node in nodes:
            if not 1 <= node <= count:
                raise UsageError(f"partition {name}: {machine} has no node {node}: its nodes are 1 to {count}")
            if node in owner:
                twice = f"is in partition {owner[node]}" if owner[node] != name else "is named twice"
                raise UsageError(f"partition {name}: node {node} {twice}: a node is in one partition, once")
            owner[node] = name
    made = {name: [*overrides, *_settings(name, sorted(nodes), whole, count)] for name, nodes in partitions.items()}
    for name, settings in made.items():
        try:
            resolve(text, machine, settings)
        except UsageError as error:
            raise UsageError(f"partition {name} is no machine by itself: {error}") from None
    return made


def _settings(name: str, nodes: list[int], whole: Mapping[str, Any], count: int) -> Iterator[str]:
    """Yield the settings that a partition does not share with the whole machine."""
    node = whole["node"]
    each = {key: _of_each(node[key], count) for key in _EACH}
    if node["processors"] == "even":
        total = int(whole["processors"])
        homes = [processor * count // total for processor in range(total)]
        each["processors"] = [str(homes.count(place)) for place in range(count)]
    kept = {key: [values[place - 1] for place in nodes] for key, values in each.items()}
    processors = sum(map(int, kept["processors"]))
    if processors == 0:
        raise UsageError(f"partition {name} has no processors: add a node that has some")
    if all(size == "none" for size in kept["memory"]):
        raise UsageError(f"partition {name} has no memory: add a node that has some")
    yield f"processors={processors}"
    yield from _groups(name, processors, whole)
    if len(nodes) == 1:
        yield from _alone(whole, {key: values[0] for key, values in kept.items()})
        return
    yield f"node.count={len(nodes)}"
    yield from (f"node.{key}={', '.join(values)}" for key, values in kept.items())
    yield f"node.links={_links(name, node['links'], nodes)}"
    if node["distances"] != "links":
        rows = [[word.strip() for word in row.split(",")] for row in node["distances"].split(";")]
        rows = [row if len(row) == count else row * count for row in rows]
        yield "node.distances=" + "; ".join(", ".join(rows[a - 1][b - 1] for b in nodes) for a in nodes)


def _of_each(value: str, count: int) -> list[str]:
    words = [word.strip() for word in value.split(",")]
    return words * count if len(words) == 1 else words


def _groups(name: str, processors: int, whole: Mapping[str, Any]) -> Iterator[str]:
    """Yield the core groups of a partition, if the machine has any."""
    groups = int(whole["group"]["count"])
    if groups == 1:
        return
    left, odd = divmod(groups * processors, int(whole["processors"]))
    if odd:
        raise UsageError(f"partition {name} would have part of a core group: choose nodes with whole groups")
    yield f"group.count={left}"
    if left == 1:
        yield "group.crossing=0 cycles"
        yield from (f"{level}.sharing=shared" for level in ("l2", "l3") if whole[level]["sharing"] == "group")


def _alone(whole: Mapping[str, Any], kept: Mapping[str, str]) -> Iterator[str]:
    """Yield what makes a machine of one node: its memory is the only one, with the same time and rate."""
    defaults = dict(flat(resolve("", "defaults", [])))
    given = dict(flat({"node": whole["node"]}))
    yield from (f"{key}={defaults[key]}" for key, value in given.items() if value != defaults[key])
    if whole["node"]["coherence"] == "messages":
        # Its node is a bus there too.
        yield "interconnect.kind=bus"
    latency = _cycles(kept["memory_latency"]) + 2 * _cycles(whole["node"]["local"])
    if latency:
        yield f"bus.memory_read={_cycles(whole['bus']['memory_read']) + latency} cycles"
    rate = kept["memory_bytes_per_cycle"]
    if rate != "unlimited":
        line = int(whole["cache"]["line"].split()[0])
        yield "memory.banks=1"
        yield f"memory.bank_time={-(-line // int(rate.split()[0]))} cycles"


def _cycles(text: str) -> int:
    return int(text.split(maxsplit=1)[0])


def _links(name: str, links: str, nodes: list[int]) -> str:
    """Return the links inside a partition, its nodes numbered anew."""
    if links in ("switch", "direct"):
        return links
    number = {node: place for place, node in enumerate(nodes, 1)}
    ends = [tuple(map(int, word.split("-"))) for word in links.split()]
    inside = [f"{number[a]}-{number[b]}" for a, b in ends if a in number and b in number]
    reached, news = {nodes[0]}, [nodes[0]]
    while news:
        near = {b for pair in ends for a, b in (pair, pair[::-1]) if a == news[0] and b in number}
        news = [*news[1:], *sorted(near - reached)]
        reached |= near
    if reached != set(nodes):
        cut_off = min(set(nodes) - reached)
        raise UsageError(
            f"partition {name}: nodes {nodes[0]} and {cut_off} reach one another only through others: add those"
        )
    return " ".join(inside)
