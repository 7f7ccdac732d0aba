"""A machine in words, from its resolved description: what it does not say is not said."""

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]


def counted(count: int | str, what: str) -> str:
    """Write a number of things."""
    return f"{count} {what}" if str(count) == "1" else f"{count} {what}s"


def _each(text: str, count: int) -> list[str]:
    """Return one value of a setting for each node."""
    values = [value.strip() for value in str(text).split(",")]
    return values * count if len(values) == 1 else values


def levels(machine: Settings, sharing: str) -> list[str]:
    """Describe the levels that are shared so."""
    found = []
    for name in ("l2", "l3"):
        level = machine[name]
        if level["size"] != "none" and level["sharing"] == sharing:
            found.append(f"{name.upper()} {level['size']}, {level['associativity']} ways, {level['inclusion']}")
    return found


def core_caches(machine: Settings) -> str:
    """Return the caches that each core has for itself."""
    cache = machine["cache"]
    first = f"L1 {cache['size']}"
    if cache["organisation"] == "split":
        first = f"L1 {cache['size']} for instructions and {cache['size']} for data"
    private = [text.split(",")[0] for text in levels(machine, "private")]
    return "each core: " + ", ".join([first, *private]) + f", lines of {cache['line']}"


def processors_of_nodes(machine: Settings, nodes: int) -> list[int]:
    """Return how many processors each node has."""
    total, said = int(machine["processors"]), str(machine["node"]["processors"])
    if said != "even":
        return [int(number) for number in _each(said, nodes)]
    of = [processor * nodes // total for processor in range(total)]
    return [of.count(node) for node in range(nodes)]


def cores(machine: Settings) -> str:
    """Return how many cores there are, how fast, and what keeps their caches coherent."""
    return f"{counted(machine['processors'], 'core')} at {machine['clock']}, {machine['protocol']['name']}"


def memory(machine: Settings, node: int | None) -> list[str]:
    """Return what the memory is, or that of a node, counted from 0; nothing where it has none."""
    read = machine["bus"]["memory_read"]
    if node is None:
        banks = machine["memory"]["banks"]
        return ["memory", f"{read} to read" + (f", {banks} banks" if str(banks) != "1" else "")]
    of = machine["node"]
    size, beyond, rate = (
        _each(of[key], int(of["count"]))[node] for key in ("memory", "memory_latency", "memory_bytes_per_cycle")
    )
    if size == "none":
        return []
    lines = ["memory" if size == "unlimited" else f"memory, {size}", f"{read} to read"]
    if beyond != "0 cycles":
        lines[-1] += f", {beyond} more here"
    return lines if rate == "unlimited" else [*lines, f"{rate} a cycle"]


def _crossing(machine: Settings) -> list[str]:
    """Return what the way between core groups costs, where it costs anything."""
    group = machine.get("group", {})
    way = str(group.get("crossing", "0 cycles"))
    return [f"between core groups {way} more"] if int(group.get("count", 1)) > 1 and way != "0 cycles" else []


def network(machine: Settings) -> list[str]:
    """Return what joins the nodes."""
    of = machine["node"]
    joined = {"switch": "a switch", "direct": "each node linked to each"}.get(of["links"], f"links {of['links']}")
    hop = f"{of['hop']} a link" if of["distances"] == "links" else "ways of given times"
    each_way = f"{hop}, {of['link_bytes_per_cycle']} a cycle each way, {of['coherence']}"
    return [f"network: {joined}", each_way, *_crossing(machine)]


def interconnect(machine: Settings) -> list[str]:
    """Return what joins the cores of a machine with one memory to it."""
    bus = machine["bus"]
    read = sum(int(str(bus.get(key, "0 cycles")).split()[0]) for key in ("cache_read", "intervention"))
    between = f"{bus['bytes_per_cycle']} a cycle, from another cache in {read} cycles"
    return [machine["interconnect"]["kind"], between, *_crossing(machine)]


def disks(machine: Settings) -> list[str]:
    """Return its disks: single ones, or a pool."""
    disk = machine["disk"]
    if str(disk["count"]) not in ("0", "none"):
        return [counted(disk["count"], "disk"), f"model {disk['model']}"]
    pool = f"{disk['parallel']} requests at once, a read {disk['read_time']}, a write {disk['write_time']}"
    return ["disks", pool]


def _line(lines: list[str]) -> str:
    """Return what a picture writes below each other as a line."""
    return ": ".join([lines[0], "; ".join(lines[1:])]) if lines[1:] else lines[0]


def summary(machine: Settings) -> list[str]:
    """Return a machine in a few lines: cores, caches, what joins them, memory, disks."""
    nodes, groups = int(machine["node"]["count"]), int(machine["group"]["count"])
    lines = [cores(machine), core_caches(machine)]
    if groups > 1:
        of = counted(int(machine["processors"]) // groups, "core")
        lines.append(_line([f"{groups} groups of {of}", *levels(machine, "group")]))
    if nodes > 1:
        for node, count in enumerate(processors_of_nodes(machine, nodes)):
            has = [counted(count, "core")] if count else []
            lines.append(_line([f"node {node + 1}", *has, ", ".join(memory(machine, node))]))
        return [*lines, _line(network(machine)), _line(disks(machine))]
    shared = levels(machine, "shared")
    lines.append(_line(interconnect(machine)))
    lines += [_line(["shared by all cores", *shared])] if shared else []
    return [*lines, _line(memory(machine, None)), _line(disks(machine))]


def row(machine: Settings) -> dict[str, str]:
    """Return a machine in a row of a table, by the heads of its columns."""
    sizes = {level: machine[level]["size"].replace("none", "-") for level in ("cache", "l2", "l3")}
    nodes = int(machine["node"]["count"])
    return {
        "cores": machine["processors"],
        "clock": machine["clock"],
        "L1": sizes["cache"],
        "L2": sizes["l2"],
        "L3": sizes["l3"],
        "protocol": machine["protocol"]["name"],
        "joined by": f"network of {nodes} nodes" if nodes > 1 else machine["interconnect"]["kind"],
    }
