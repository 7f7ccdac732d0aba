"""JMVA files of the Java Modelling Tools: product-form networks given by service times and visits.

A request here is one visit to the class's reference station. Where that is a delay, its time is the think time.
"""

from __future__ import annotations

from servsim.model.importing import Imported
from servsim.model.importing.markup import Element
from servsim.model.network import Closed, Network, Open, Station

KINDS = ("delaystation", "listation", "ldstation")


def read(root: Element) -> Imported:
    """Return the network of a ``<model>``."""
    parameters = root.wanted("parameters")
    loads = parameters.wanted("classes").children
    stations = parameters.wanted("stations").children
    for element in loads:
        if element.name not in ("closedclass", "openclass"):
            raise element.refused(f"<{element.name}> is no class", "use <closedclass> or <openclass>")
    names = [element.get("name") for element in loads]
    times = {station.get("name"): _times(station, names) for station in stations}
    visits = {station.get("name"): _visits(station, names) for station in stations}
    notes: list[str] = []
    if parameters.first("ReferenceStation") is None:
        notes.append("no reference stations are named: a request is one visit where the number of visits is 1")
    think = dict.fromkeys(names, 0.0)
    demands = {k: {c: visits[k][c] * times[k][c][0] for c in names} for k in visits}
    for entry in (parameters.first("ReferenceStation") or Element("", 0, "", {})).children:
        name, reference = entry.get("name"), entry.get("refStation")
        if name not in names or reference not in visits:
            raise entry.refused(f"class {name!r} and station {reference!r} are not both described", "correct the name")
        per_request = visits[reference][name]
        if per_request <= 0.0:
            raise entry.refused(f"class {name!r} never visits its reference station", "choose one that it visits")
        for row in (*visits.values(), *demands.values()):
            row[name] /= per_request
        kind = next(s.name for s in stations if s.get("name") == reference)
        load = loads[names.index(name)]
        if kind == "delaystation" and load.name == "closedclass":
            think[name], demands[reference][name] = demands[reference][name], 0.0
            notes.append(f"the time of class {name!r} at its reference station {reference!r} is its think time")
    classes = [_class(load, think[load.get("name")]) for load in loads]
    made = [_station(s, times[s.get("name")], visits[s.get("name")], demands[s.get("name")]) for s in stations]
    used = [station for station in made if station is not None]
    return Imported(Network(classes, used, name=_title(root)), notes)


def _title(root: Element) -> str:
    described = root.first("description")
    lines = described.text.strip().splitlines() if described else []
    return lines[0].strip() if lines else "network"


def _class(element: Element, think: float) -> Closed | Open:
    name = element.get("name")
    priority = element.count(element.get("priority", "0"), "`priority`")
    if element.name == "closedclass":
        return Closed(name, element.count(element.get("population"), "`population`"), think=think, priority=priority)
    rate = element.number(element.get("rate"), "`rate`")
    if rate == 0.0:
        raise element.refused(f"class {name!r} has a rate of 0", "give a rate above 0, or leave the class out")
    return Open(name, rate, priority=priority)


def _times(station: Element, names: list[str]) -> dict[str, list[float]]:
    """Return the service times by class: with 1, 2, ... requests present where the station's speed depends on that."""
    if station.name not in KINDS:
        raise station.refused(f"<{station.name}> is no station that is read", f"use one of {', '.join(KINDS)}")
    found = {name: [0.0] for name in names}
    for element in station.wanted("servicetimes").children:
        of = _known(element, names)
        texts = element.text.strip().strip(";").split(";") if station.name == "ldstation" else [element.text]
        found[of] = [element.number(text.strip(), "a service time") for text in texts]
    return found


def _visits(station: Element, names: list[str]) -> dict[str, float]:
    visits = station.first("visits")
    if visits is None:
        return dict.fromkeys(names, 1.0)
    found = dict.fromkeys(names, 0.0)
    for element in visits.children:
        found[_known(element, names)] = element.number(element.text.strip(), "a number of visits")
    return found


def _known(element: Element, names: list[str]) -> str:
    name = element.get("customerclass")
    if name not in names:
        raise element.refused(f"there is no class {name!r}", f"use one of {', '.join(names)}")
    return name


def _station(
    element: Element, times: dict[str, list[float]], visits: dict[str, float], demands: dict[str, float]
) -> Station | None:
    """Return the station, unless nobody comes."""
    name = element.get("name")
    coming = {c: d for c, d in demands.items() if d > 0.0}
    if not coming:
        return None
    seen = {c: visits[c] for c in coming}
    if element.name == "delaystation":
        return Station(name, coming, kind="delay", visits=seen)
    servers = element.count(element.get("servers", "1"), "`servers`", 1)
    if element.name == "listation":
        return Station(name, coming, servers=servers, visits=seen)
    if servers != 1:
        raise element.refused("a station with rates has several servers", "put the servers into its service times")
    rates = {c: tuple(round(times[c][0] / t, 12) if t > 0.0 else 0.0 for t in times[c]) for c in coming}
    if len(set(rates.values())) > 1 or 0.0 in next(iter(rates.values())):
        raise element.refused(
            f"station {name!r} speeds up differently for different classes, or a time is 0",
            "give all classes service times in the same proportion",
        )
    return Station(name, coming, kind="rates", rates=next(iter(rates.values())), visits=seen)
