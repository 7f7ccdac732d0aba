"""The model that measurements describe: demands as they were estimated, under a load of the user's."""

from __future__ import annotations

from collections.abc import Sequence

from servsim.errors import UsageError
from servsim.model.network import Closed, Network, Open, Station
from servsim.model.results import Fit


def from_fit(fitted: Fit, *, think: float | None, load: float, in_turn: Sequence[str] = ()) -> Network:
    """Return the model that measurements describe.

    Parameters
    ----------
    fitted : Fit
        Estimated demands, and the servers of the stations at which they were measured.
    think : float, optional
        Think time of users in seconds; without one, requests arrive from outside.
    load : float
        Users (rounded), or requests per second, of all classes, in equal parts.
    in_turn : sequence of str
        Stations that serve first come, first served, as disks do. At others requests share the servers.

    Raises
    ------
    UsageError
        When a demand is not known; for a station that was not measured.

    Notes
    -----
    Where a station is busy without requests, these get the rest of it: their demands there are longer in proportion.
    """
    demands: dict[str, dict[str, float]] = {}
    for d in fitted.data["demands"]:
        if d["demand"] is None:
            raise UsageError(f"the demand of {d['class']!r} at {d['station']!r} is not known: {d['note']}")
        demands.setdefault(d["station"], {})[d["class"]] = d["demand"]
    for name in in_turn:
        if name not in demands:
            raise UsageError(f"there is no station {name!r}; the measurements have {', '.join(demands)}")
    names = list(dict.fromkeys(d["class"] for d in fitted.data["demands"]))
    share = load / len(names)
    classes: list[Closed | Open] = [
        Open(name, share) if think is None else Closed(name, max(1, round(share)), think=think) for name in names
    ]
    # What an open class of its own would leave to requests: exact for one server.
    left = {b["station"]: 1.0 - b["utilization"] for b in fitted.data["background"]}
    stations = []
    for name, own in demands.items():
        coming = {c: d / left.get(name, 1.0) for c, d in own.items() if d > 0.0}
        if coming:
            discipline = "fcfs" if name in in_turn else "ps"
            servers = fitted.data["servers"].get(name, 1)
            stations.append(Station(name, coming, servers=servers, discipline=discipline))
    return Network(classes, stations, name="measured")
