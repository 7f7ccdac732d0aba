"""JSIM files (``.jsimg``) of the Java Modelling Tools: networks of nodes that are simulated there.

A closed request here begins and ends with a visit to its class's reference station; JMT's classes between which
requests switch are phases of one class (docs/models.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from servsim.model.importing import Imported
from servsim.model.importing.jsim_nodes import Node, read_node, targets
from servsim.model.importing.jsim_times import Time
from servsim.model.importing.markup import Element
from servsim.model.network import Closed, Network, Open, Route, Station

#: A class at a node.
Place = tuple[str, str]
#: Nodes without service in a row after which a request goes in circles.
MOST_PASSED = 50


class _Model:
    """The nodes, and where requests go between those that serve."""

    def __init__(self, sim: Element, notes: list[str]) -> None:
        self.loads = {element.get("name"): element for element in sim.all("userClass")}
        for element in sim.all("blockingRegion"):
            raise element.refused("a finite capacity region is not read", "give its stations a capacity each")
        if not self.loads:
            raise sim.refused("the model has no class", "add a <userClass>")
        self.nodes = {e.get("name"): read_node(e, list(self.loads), notes) for e in sim.all("node")}
        self.connected: dict[str, list[str]] = {name: [] for name in self.nodes}
        for element in sim.all("connection"):
            source, target = element.get("source"), element.get("target")
            if source not in self.nodes or target not in self.nodes:
                raise element.refused(f"{source!r} and {target!r} are not both nodes", "correct the connection")
            self.connected[source].append(target)

    def after(self, place: Place, probability: float = 1.0, passed: int = 0) -> dict[Place | None, float]:
        """Return where a request that leaves a place is served next, None being the sink."""
        name, at = place
        if passed > MOST_PASSED:
            raise self.nodes[at].element.refused(f"class {name!r} goes in circles at {at!r}", "let it be served")
        found: dict[Place | None, float] = {}
        following = targets(self.nodes[at], name, self.connected[at])
        if not following:
            raise self.nodes[at].element.refused(f"class {name!r} never leaves {at!r}", "route it to another node")
        for target, share in following.items():
            if target not in self.nodes:
                raise self.nodes[at].element.refused(f"a route leads to {target!r}, which is no node", "correct it")
            for to, p in self.enter((name, target), probability * share, passed + 1).items():
                found[to] = found.get(to, 0.0) + p
        return found

    def enter(self, place: Place, probability: float, passed: int) -> dict[Place | None, float]:
        """Return where a request that comes to a node is served, beginning there."""
        name, at = place
        node = self.nodes[at]
        if node.kind == "sink":
            return {None: probability}
        if node.kind == "station":
            if name not in node.times:
                raise node.element.refused(f"class {name!r} is routed to {at!r}, which does not serve it", "serve it")
            if node.times[name].mean > 0.0:
                return {place: probability}
        found: dict[Place | None, float] = {}
        switched = node.switch.get(name, {name: 1.0}) if node.kind == "switch" else {name: 1.0}
        for other, share in switched.items():
            if share > 0.0:
                for to, p in self.after((other, at), probability * share, passed).items():
                    found[to] = found.get(to, 0.0) + p
        return found

    def reach(self, start: Place) -> dict[Place, dict[Place | None, float]]:
        """Return the places that requests come to from ``start``, which is left first, and where they go from each."""
        following: dict[Place, dict[Place | None, float]] = {}
        ahead: list[Place] = [start]
        while ahead:
            place = ahead.pop()
            if place not in following:
                following[place] = self.after(place)
                ahead += [to for to in following[place] if to is not None]
        return following


def read(root: Element) -> Imported:
    """Return the network of an ``<archive>``."""
    sim = root if root.name == "sim" else root.wanted("sim")
    notes: list[str] = []
    model = _Model(sim, notes)
    classes: list[Closed | Open] = []
    routes: list[Route] = []
    served: dict[str, dict[str, dict[str, Time]]] = {}
    taken: set[str] = set()
    for name, load in model.loads.items():
        if name in taken:
            continue
        is_open = load.get("type") == "open"
        begin = (name, load.get("referenceSource"))
        if begin[1] not in model.nodes:
            raise load.refused(f"class {name!r} has no reference station {begin[1]!r}", "choose one of the nodes")
        arriving = model.nodes[begin[1]].times.get(name)
        if is_open and (model.nodes[begin[1]].kind != "source" or arriving is None):
            notes.append(f"class {name!r} has no arrivals of its own and comes by switching only")
            continue
        if is_open and arriving is not None and (arriving.cv != 1.0 or arriving.phases):
            raise load.refused(f"class {name!r} does not arrive at exponential intervals", "use exponential arrivals")
        following = model.reach(begin)
        if not is_open:
            following, begin = _recurrent(model, following, begin)
        phases = [begin[0], *dict.fromkeys(c for c, _ in following if c != begin[0])]
        if not is_open:
            taken |= set(phases)
        made = _class(model, name, begin, phases, arriving if is_open else None)
        classes.append(made)
        skipped = is_open or model.nodes[begin[1]].station.get("kind") == "delay"
        routes += _routes(name, begin, following, passed_over=skipped, many=len(phases) > 1)
        for phase, at in following:
            if not (skipped and (phase, at) == begin):
                served.setdefault(at, {}).setdefault(name, {})[phase] = model.nodes[at].times[phase]
    stations = [_station(model.nodes[at], served[at], classes) for at in model.nodes if at in served]
    if any(not model.nodes[at].lossless for at in served) and any(isinstance(c, Closed) for c in classes):
        raise sim.refused("a station drops requests of closed classes", 'let it use "BAS blocking", or a larger size')
    network = _plainest(Network(classes, stations, name=root.get("name", "network"), routes=routes))
    return Imported(network, notes)


def _recurrent(
    model: _Model, following: dict[Place, dict[Place | None, float]], begin: Place
) -> tuple[dict[Place, dict[Place | None, float]], Place]:
    """Return the places that closed requests come back to, and the class in which they visit the reference station."""
    for phase, at in [begin, *following]:
        if at != begin[1]:
            continue
        again = model.reach((phase, at))
        if any((phase, at) in targets for targets in again.values()):
            if any(None in targets for targets in again.values()):
                raise model.nodes[at].element.refused(f"closed class {phase!r} reaches a sink", "route it back")
            return again, (phase, at)
    element = model.nodes[begin[1]].element
    raise element.refused(f"class {begin[0]!r} never comes back to {begin[1]!r}", "choose another reference station")


def _class(model: _Model, name: str, begin: Place, phases: list[str], arriving: Time | None) -> Closed | Open:
    load = model.loads[name]
    priority = load.count(load.get("priority", "0"), "`priority`")
    many = phases if len(phases) > 1 else ()
    if arriving is not None:
        return Open(name, 1.0 / arriving.mean, priority=priority, phases=many)
    others = [model.loads[phase] for phase in phases]
    for other in others:
        if other.get("type") != "closed" or other.get("referenceSource", begin[1]) != begin[1]:
            raise other.refused(f"classes {', '.join(phases)} switch and differ in type or reference", "give them one")
    population = sum(other.count(other.get("customers", "0"), "`customers`") for other in others)
    node = model.nodes[begin[1]]
    think = node.times[begin[0]].mean if node.station.get("kind") == "delay" else 0.0
    return Closed(name, population, think=think, priority=priority, phases=many)


def _routes(
    of: str, begin: Place, following: dict[Place, dict[Place | None, float]], *, passed_over: bool, many: bool
) -> list[Route]:
    """Return the routes of a class; a beginning that is passed over is no station of it."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    if not passed_over:
        rows["start", begin[0], begin[0]] = {begin[1]: 1.0}
    for place, targets_of in following.items():
        origin = "start" if passed_over and place == begin else place[1]
        for to, p in targets_of.items():
            ends = to is None or to == begin
            becomes = place[0] if ends or to is None else to[0]
            target = "end" if ends or to is None else to[1]
            row = rows.setdefault((origin, place[0], becomes), {})
            row[target] = row.get(target, 0.0) + p
    return [
        Route(of, origin, to, phase=phase if many else None, becomes=becomes if many and becomes != phase else None)
        for (origin, phase, becomes), to in rows.items()
    ]


def _station(node: Node, times: dict[str, dict[str, Time]], classes: list[Closed | Open]) -> Station:
    laws = {(time.cv, time.phases) for by_phase in times.values() for time in by_phase.values()}
    given = dict(node.station)
    if "weights" in given:
        given["weights"] = {c.name: given["weights"].get(c.name, 1.0) for c in classes}
    by_class = {c: {(t.cv, t.phases) for t in by_phase.values()} for c, by_phase in times.items()}
    if node.station.get("kind") == "delay":
        pass  # Means do not depend on the laws of one.
    elif len(laws) == 1:
        (cv, phases) = laws.pop()
        given |= Time(1.0, cv, phases).shape()
    elif all(len(own) == 1 and next(iter(own))[1] is None for own in by_class.values()):
        given["cv"] = {c: next(iter(own))[0] for c, own in by_class.items()}
    else:
        raise node.element.refused(
            f"station {node.name!r} has laws of service time that differ in phases", "give its classes the same law"
        )
    service = {c: {p: t.mean for p, t in by_phase.items()} for c, by_phase in times.items()}
    return Station(node.name, service={c: _one(row, c, classes) for c, row in service.items()}, **given)


def _one(row: dict[str, float], name: str, classes: list[Closed | Open]) -> Any:
    """Return the time itself for a class without phases."""
    phases = next(c.phases for c in classes if c.name == name)
    return row if phases else next(iter(row.values()))


def _plainest(network: Network) -> Network:
    """Leave routes out where every request goes from one station to the next, each once."""
    if any(c.phases for c in network.classes) or any(p < 1.0 for r in network.routes for p in r.to.values()):
        return network
    order: list[str] = []
    for c in network.classes:
        steps = {r.origin: next(iter(r.to)) for r in network.routes if r.of == c.name}
        at = steps["start"]
        while at != "end" and at not in order:
            order.append(at)
            at = steps[at]
        if at != "end" and len(network.classes) > 1:
            return network
    ranked = sorted(network.stations, key=lambda s: order.index(s.name))
    plain = [replace(s, demand=dict(s.service or {}), service=None) for s in ranked]  # type: ignore[arg-type]
    return replace(network, stations=plain, routes=())
