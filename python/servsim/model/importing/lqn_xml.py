"""Layered queueing networks in XML (``.lqnx``): elements of the schema that comes with the LQN solvers."""

from __future__ import annotations

import math

from servsim.model.importing import Imported
from servsim.model.importing.activities import Activity, Graph
from servsim.model.importing.lqn import Entry, Layers, Processor, Task, network
from servsim.model.importing.markup import Element

DISCIPLINES = {
    "fcfs": "fcfs",
    "ps": "ps",
    "rand": "ps",
    "hol": "non-preemptive",
    "pp": "priority",
    "inf": "inf",
    "delay": "inf",
}
#: Elements that say nothing about the model: results, and settings of the solvers.
PASSED = ("solver-params", "run-control", "plot-control", "lqx", "pragma", "spex-parameters", "spex-results")


def read(root: Element) -> Imported:
    """Return the network of an ``<lqn-model>``."""
    layers = Layers(root.path, title=root.get("name", "network"))
    for element in root.children:
        if element.name == "processor":
            _processor(layers, element)
        elif element.name not in PASSED and not element.name.startswith("result"):
            raise element.refused(f"<{element.name}> is not read", "leave it out")
    return network(layers)


def _multiple(element: Element) -> float:
    if element.count(element.get("replication", "1"), "`replication`", 1) > 1:
        raise element.refused(f"{element.get('name')!r} is replicated", "write the copies out")
    text = element.get("multiplicity", "1")
    return math.inf if text in ("@infinite", "inf", "Inf") else element.count(text, "`multiplicity`", 1)


def _processor(layers: Layers, element: Element) -> None:
    name, scheduling = element.get("name"), element.get("scheduling", "fcfs")
    if scheduling not in DISCIPLINES:
        raise element.refused(f"processor {name!r} schedules by {scheduling!r}", f"use one of {', '.join(DISCIPLINES)}")
    processor = Processor(name, element.line, DISCIPLINES[scheduling], _multiple(element))
    if processor.discipline == "inf":
        processor.count = math.inf
    if name in layers.processors:
        raise element.refused(f"processor {name!r} is described twice", "rename one")
    layers.processors[name] = processor
    speed = element.number(element.get("speed-factor", "1"), "`speed-factor`")
    if speed == 0.0:
        raise element.refused(f"processor {name!r} has speed 0", "give a speed above 0")
    for child in element.children:
        if child.name == "task":
            _task(layers, child, name, speed)
        elif not child.name.startswith("result"):
            raise child.refused(f"<{child.name}> of a processor is not read", "put its tasks into the processor itself")


def _task(layers: Layers, element: Element, processor: str, speed: float) -> None:
    name, scheduling = element.get("name"), element.get("scheduling", "fcfs")
    if scheduling not in ("ref", "fcfs", "inf", "hol", "n", "delay"):
        raise element.refused(f"task {name!r} schedules by {scheduling!r}", "use fcfs, inf or ref")
    task = Task(name, element.line, processor, [], scheduling == "ref", _multiple(element))
    if scheduling in ("inf", "delay"):
        task.count = math.inf
    task.think = element.number(element.get("think-time", "0"), "`think-time`")
    task.priority = element.count(element.get("priority", "0"), "`priority`", -(10**9))
    if name in layers.tasks:
        raise element.refused(f"task {name!r} is described twice", "rename one")
    layers.tasks[name] = task
    graph = Graph()
    for child in element.children:
        if child.name == "entry":
            task.entries.append(_entry(layers, child, speed).name)
        elif child.name == "task-activities":
            _activities(child, graph, speed)
        elif child.name == "service" or child.name.startswith(("result", "fan-")):
            if child.name.startswith("fan-") and child.get("value", "1") != "1":
                raise child.refused("fan-in and fan-out belong to replication", "write the copies out")
        else:
            raise child.refused(f"<{child.name}> of a task is not read", "leave it out")
    for begin, entry in ((a, e) for e, a in graph.begins.items()):
        if entry not in task.entries:
            raise element.refused(f"activity {begin!r} is bound to {entry!r}, no entry of the task", "correct it")
        graph.into(layers.entries[entry], layers.refused, replies=not task.reference)


def _entry(layers: Layers, element: Element, speed: float) -> Entry:
    name = element.get("name")
    if name in layers.entries:
        raise element.refused(f"entry {name!r} is described twice", "rename one")
    entry = layers.entries[name] = Entry(name, element.line)
    entry.rate = element.number(element.get("open-arrival-rate", "0"), "`open-arrival-rate`")
    for child in element.children:
        if child.name == "entry-phase-activities":
            for phase in child.children:
                activity = _activity(phase, speed)
                late = phase.count(phase.get("phase", "1"), "`phase`", 1) > 1
                entry.late |= late and (activity.demand > 0.0 or bool(activity.calls))
                entry.demand += activity.demand
                entry.think += activity.think
                for called, count in activity.calls.items():
                    entry.call(called, count)
        elif not child.name.startswith("result"):
            raise child.refused(f"<{child.name}> of an entry is not read", "call the other entry instead")
    return entry


def _activity(element: Element, speed: float) -> Activity:
    if element.name != "activity":
        raise element.refused(f"<{element.name}> is not read here", "use <activity>")
    activity = Activity(element.get("name"), element.line)
    activity.demand = element.number(element.get("host-demand-mean", "0"), "`host-demand-mean`") / speed
    activity.think = element.number(element.get("think-time", "0"), "`think-time`")
    squared = element.number(element.get("host-demand-cvsq", "1"), "`host-demand-cvsq`")
    if squared != 1.0 and activity.demand > 0.0:
        raise element.refused(f"the time of {activity.name!r} is not exponential", "remove `host-demand-cvsq`")
    for child in element.children:
        if child.name == "synch-call":
            count = child.number(child.get("calls-mean"), "`calls-mean`")
            activity.calls[child.get("dest")] = activity.calls.get(child.get("dest"), 0.0) + count
        elif not child.name.startswith(("result", "service-time-distribution", "histogram")):
            raise child.refused(f"<{child.name}> is not read", "wait for the reply: use <synch-call>")
    return activity


def _activities(element: Element, graph: Graph, speed: float) -> None:
    for child in element.children:
        if child.name == "activity":
            activity = _activity(child, speed)
            graph.activities[activity.name] = activity
            if "bound-to-entry" in child.attributes:
                graph.begins[child.get("bound-to-entry")] = activity.name
        elif child.name == "precedence":
            _precedence(child, graph)
        elif child.name == "reply-entry":
            graph.replies |= {reply.get("name") for reply in child.all("reply-activity")}
        elif not child.name.startswith("result"):
            raise child.refused(f"<{child.name}> is not read", "leave it out")


def _precedence(element: Element, graph: Graph) -> None:
    before: list[str] = []
    following: list[tuple[str, float]] = []
    for child in element.children:
        names = [a.get("name") for a in child.all("activity")]
        if child.name in ("pre", "pre-OR"):
            before += names
        elif child.name == "post":
            following += [(name, 1.0) for name in names]
        elif child.name == "post-OR":
            following += [(a.get("name"), a.number(a.get("prob"), "`prob`")) for a in child.all("activity")]
        elif child.name == "post-LOOP":
            following += [(a.get("name"), a.number(a.get("count"), "`count`")) for a in child.all("activity")]
            following += [(child.get("end"), 1.0)] if "end" in child.attributes else []
        else:
            raise child.refused(f"<{child.name}> is not read: activities in parallel", "let them follow one another")
    graph.follow(before, following)
