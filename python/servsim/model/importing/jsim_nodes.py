"""Nodes of a JSIM file: what each does with requests of each class, and where they go next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from servsim.model.importing.jsim_times import Time, strategy
from servsim.model.importing.markup import Element

#: Sections that pass requests on.
TUNNELS = ("ServiceTunnel", "LogTunnel")
#: Sections that have no counterpart, and what to do instead.
REMEDIES = {
    "Fork": "describe the branches as [[fork]] in a model of ours",
    "Join": "describe the branches as [[fork]] in a model of ours",
    "Semaphore": "describe what is held as [[pool]] in a model of ours",
    "Scaler": "leave it out",
    "Storage": "Petri nets stay with JMT",
    "Linkage": "Petri nets stay with JMT",
    "Enabling": "Petri nets stay with JMT",
    "Timing": "Petri nets stay with JMT",
    "Firing": "Petri nets stay with JMT",
}


@dataclass
class Node:
    """One node.

    ``kind`` is one of source, sink, station, pass, switch; ``times`` are those of service, or between arrivals.
    """

    name: str
    element: Element
    kind: str = "pass"
    times: dict[str, Time] = field(default_factory=dict)
    station: dict[str, Any] = field(default_factory=dict)
    lossless: bool = True
    switch: dict[str, dict[str, float]] = field(default_factory=dict)
    routes: dict[str, Element] = field(default_factory=dict)


def read_node(element: Element, classes: list[str], notes: list[str]) -> Node:
    """Return a node, or refuse what it does."""
    node = Node(element.get("name"), element)
    for section in element.all("section"):
        kind = section.get("className")
        if kind == "RandomSource":
            node.kind, node.times = "source", _times(section, notes)
        elif kind == "JobSink":
            node.kind = "sink"
        elif kind in ("Server", "PSServer", "PreemptiveServer", "Delay"):
            _server(node, section, kind, notes)
        elif kind == "ClassSwitch":
            node.kind = "switch"
            rows = _by_class(_parameter(section, "matrix"))
            node.switch = {a: {b: _number(cell) for b, cell in _by_class(row).items()} for a, row in rows.items()}
        elif kind == "Router":
            node.routes = _by_class(_parameter(section, "RoutingStrategy"))
        elif kind == "Queue":
            pass
        elif kind not in TUNNELS:
            remedy = REMEDIES.get(kind, "leave it out")
            raise section.refused(f"node {node.name!r} has a section {kind}, which is not read", remedy)
    if node.kind == "station":
        for section in element.all("section"):
            if section.get("className") == "Queue":
                _queue(node, section, classes)
    return node


def _server(node: Node, section: Element, kind: str, notes: list[str]) -> None:
    node.kind, node.times = "station", _times(section, notes)
    if kind == "Delay":
        node.station = {"kind": "delay"}
        return
    servers = _parameter(section, "maxJobs")
    node.station = {"servers": servers.count(_text(servers), "`maxJobs`", 1), "discipline": "fcfs"}
    if kind == "PreemptiveServer":
        node.station["discipline"] = "priority"
    if kind == "PSServer":
        node.station["discipline"] = "ps"
        ways = {e.get("classPath").rpartition(".")[2] for e in _by_class(_parameter(section, "PSStrategy")).values()}
        if ways == {"DPSStrategy"}:
            weights = _by_class(_parameter(section, "serviceWeights"))
            node.station |= {"discipline": "weighted", "weights": {c: _number(e) for c, e in weights.items()}}
        elif ways != {"EPSStrategy"}:
            raise section.refused(
                f"station {node.name!r} shares its server by {', '.join(sorted(ways))}",
                "use egalitarian or discriminatory processor sharing (EPS, DPS)",
            )


def _queue(node: Node, section: Element, classes: list[str]) -> None:
    """Read the room that a station has, and its order of service."""
    size = _parameter(section, "size")
    if (most := size.count(_text(size), "`size`", -1)) > 0 and node.station.get("kind") != "delay":
        full = {_text(e) for e in _by_class(_parameter(section, "dropStrategies")).values()}
        if full == {"drop"}:
            node.station |= {"capacity": most, "when_full": "lose"}
            node.lossless = False
        elif full == {"BAS blocking"}:
            node.station |= {"capacity": most, "when_full": "block"}
        else:
            raise section.refused(
                f"station {node.name!r} is full at {most} and then does {', '.join(sorted(full))}",
                'let all classes "drop", or all use "BAS blocking"',
            )
    if node.station.get("discipline") not in ("fcfs", "priority"):
        return
    puts = _by_class(_parameter(section, "QueuePutStrategy"))
    ways = {puts[c].get("classPath").rpartition(".")[2] for c in classes if c in puts}
    if ways == {"TailStrategyPriority"} and node.station["discipline"] == "fcfs":
        node.station["discipline"] = "non-preemptive"
    elif node.station["discipline"] == "priority" and ways != {"TailStrategyPriority"}:
        raise section.refused(
            f"station {node.name!r} interrupts without priorities ({', '.join(sorted(ways))})", "use FCFS or priorities"
        )
    elif not ways <= {"TailStrategy", "TailStrategyPriority"} or len(ways) > 1:
        raise section.refused(
            f"station {node.name!r} queues by {', '.join(sorted(ways))}", "use FCFS, processor sharing or priorities"
        )
    gets = [p.get("name", "") for p in section.all("parameter") if "QueueGetStrategies" in p.get("classPath", "")]
    if any(get != "FCFSstrategy" for get in gets):
        raise section.refused(f"station {node.name!r} serves by {gets[0]}", "use FCFS or processor sharing")


def targets(node: Node, name: str, connected: list[str]) -> dict[str, float]:
    """Return the probabilities of the nodes that come next for a class; none where it never leaves."""
    element = node.routes.get(name)
    if element is None:
        return {}
    way = element.get("classPath").rpartition(".")[2]
    if way == "DisabledRoutingStrategy":
        return {}
    if way == "RandomStrategy":
        return {target: 1.0 / len(connected) for target in connected}
    if way != "EmpiricalStrategy":
        raise element.refused(
            f"node {node.name!r} routes class {name!r} by {way}", "use probabilities, which do not depend on the state"
        )
    found: dict[str, float] = {}
    entries = [entry for array in element.all("subParameter") for entry in array.all("subParameter")]
    for entry in entries:
        parts = {part.get("name"): part for part in entry.all("subParameter")}
        if not {"stationName", "probability"} <= set(parts):
            raise entry.refused("a route without station or probability", "export the model again from JMT")
        found[_text(parts["stationName"])] = _number(parts["probability"])
    total = sum(found.values())
    if not 0.999999 < total < 1.000001:
        raise element.refused(
            f"the routes of class {name!r} from {node.name!r} sum to {total:g}", "give probabilities that sum to 1"
        )
    return {target: p / total for target, p in found.items() if p > 0.0}


def _times(section: Element, notes: list[str]) -> dict[str, Time]:
    laws = {c: strategy(e, notes) for c, e in _by_class(_parameter(section, "ServiceStrategy")).items()}
    return {c: law for c, law in laws.items() if law is not None}


def _parameter(section: Element, name: str) -> Element:
    for parameter in section.all("parameter"):
        if parameter.get("name", "") == name:
            return parameter
    raise section.refused(f"section {section.get('className')} has no `{name}`", "export the model again from JMT")


def _by_class(parameter: Element) -> dict[str, Element]:
    """Return the values of an array that names the class before each."""
    found: dict[str, Element] = {}
    name = None
    for child in parameter.children:
        if child.name == "refClass":
            name = child.text.strip()
        elif child.name == "subParameter" and name is not None:
            found[name] = child
            name = None
    return found


def _text(element: Element) -> str:
    return (element.first("value") or element).text.strip()


def _number(element: Element) -> float:
    return element.number(_text(element), f"`{element.get('name', 'value')}`")
