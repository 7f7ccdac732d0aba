"""A run as trace events, the JSON form that the Perfetto viewer opens: schedule, disks, counters.

One track per processor with the tasks that ran on it, one per kind of disk request, and counters for
the bus, the misses and the processors. Times are microseconds of simulated time (of cycles at 1 GHz
when the result states no clock).
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from servsim.result import hertz
from servsim.timeline.windows import windows

Event = dict[str, Any]

#: Numbers of the tracks' groups, as Perfetto shows them in this order.
PROCESSORS, DISKS, COUNTERS = 1, 2, 3


def trace_events(result: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
    """Return one replication as a document of trace events.

    Parameters
    ----------
    result : mapping
        A ``servsim.simulate/1`` document.
    number : int, default 0
        Which replication.

    Returns
    -------
    dict
        ``traceEvents`` and metadata, ready for JSON.

    Raises
    ------
    UsageError
        When the replication has no timeline.
    """
    replication = result["replications"][number]
    machine, trace = result.get("machine"), result.get("trace") or {}
    described = machine if isinstance(machine, Mapping) else {"name": machine}
    scale = 1e6 / hertz(str(described.get("clock", "1 GHz")))
    columns = windows(replication)
    events = [
        _named(PROCESSORS, "processors"),
        _named(DISKS, "disk requests"),
        _named(COUNTERS, "counters"),
        *_schedule(replication, scale),
        *_disk(replication, scale),
        *_counters(columns, scale),
    ]
    about = {"machine": described.get("name"), "trace": trace.get("name"), "seed": replication["seed"]}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def _named(group: int, name: str, thread: int | None = None) -> Event:
    kind = "process_name" if thread is None else "thread_name"
    return {"ph": "M", "pid": group, "tid": thread or 0, "name": kind, "args": {"name": name}}


def _schedule(replication: Mapping[str, Any], scale: float) -> Iterator[Event]:
    runs = (replication.get("activity") or {}).get("schedule") or {}
    tasks = replication.get("tasks") or []
    for processor in sorted(set(runs.get("processor", []))):
        yield _named(PROCESSORS, f"CPU {processor}", processor + 1)
    if not runs:
        return
    for processor, task, start, end in zip(*(runs[k] for k in ("processor", "task", "start", "end")), strict=True):
        known = tasks[task] if task < len(tasks) else {}
        yield {
            "ph": "X",
            "pid": PROCESSORS,
            "tid": processor + 1,
            "name": f"{known.get('name', 'task')} {known.get('pid', task)}",
            "ts": start * scale,
            "dur": (end - start) * scale,
            "args": {"task": task},
        }


def _disk(replication: Mapping[str, Any], scale: float) -> Iterator[Event]:
    requests = (replication.get("activity") or {}).get("disk") or {}
    if not requests:
        return
    number = count(1)
    for write, start, end in zip(*(requests[k] for k in ("write", "start", "end")), strict=True):
        name = "write" if write else "read"
        common = {"pid": DISKS, "tid": 1, "cat": "disk", "name": name, "id": next(number)}
        yield {"ph": "b", "ts": start * scale, **common}
        yield {"ph": "e", "ts": end * scale, **common}


def _counters(columns: Mapping[str, list[float]], scale: float) -> Iterator[Event]:
    shown: dict[str, Callable[[int], float]] = {
        "bus busy, %": lambda i: 100 * columns["bus_busy"][i] / columns["window_cycles"][i],
        "processors busy": lambda i: columns["busy"][i] / columns["window_cycles"][i],
        "misses per 1000 references": lambda i: 1000 * columns["misses"][i] / max(1, columns["references"][i]),
        "transactions": lambda i: columns["transactions"][i],
    }
    own = {"bus_busy", "busy", "misses", "references", "transactions", "start_cycle", "window_cycles"}
    for name in columns:
        if name not in own:
            shown[name] = lambda i, name=name: columns[name][i]  # type: ignore[misc]
    for name, value in shown.items():
        for i, start in enumerate(columns["start_cycle"]):
            yield {"ph": "C", "pid": COUNTERS, "name": name, "ts": start * scale, "args": {"value": value(i)}}
