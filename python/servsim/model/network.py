"""The parts of a queueing network, as typed objects; validation happens in the core.

Follows Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System Performance" (1984): the service
demand of a station is the total time one request spends in service there, all visits together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.documents import text_of
from servsim.errors import UsageError

#: What the commands read, for who gives something else.
_READ = "a model is a TOML description (docs/models.md), or .jmva, .jsimg, .lqn or .lqnx of another tool"


@dataclass(frozen=True)
class Closed:
    """A closed class: a fixed number of customers.

    Parameters
    ----------
    name : str
        Unique name.
    population : int
        Number of customers, at least 0.
    think : float
        Mean think time in seconds, at least 0.
    priority : int
        Larger is served first at stations that serve by priority.
    phases : sequence of str
        Phases of a class that goes by :class:`Route`; requests begin in the first.
    """

    name: str
    population: int
    think: float = 0.0
    priority: int = 0
    phases: Sequence[str] = ()

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        entry: dict[str, Any] = {"name": self.name, "population": self.population}
        entry |= {"think": self.think, "priority": self.priority}
        return entry | ({"phases": list(self.phases)} if self.phases else {})


@dataclass(frozen=True)
class Open:
    """An open class: Poisson arrivals at ``rate`` requests per second."""

    name: str
    rate: float
    priority: int = 0
    phases: Sequence[str] = ()

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        entry: dict[str, Any] = {"name": self.name, "rate": self.rate, "priority": self.priority}
        return entry | ({"phases": list(self.phases)} if self.phases else {})


@dataclass(frozen=True)
class Station:
    """A place where requests receive service.

    Parameters
    ----------
    name : str
        Unique name.
    demand : float or mapping of str to float
        Service demand in seconds: one for all classes, or by class name (absent classes do not come; refused if
        none does).
    servers : int
        Identical servers, at least 1; ignored for other kinds.
    kind : {"queue", "delay", "rates"}
        Queue, pure delay, or load-dependent ``rates``.
    rates : sequence of float
        Speed relative to one server with 1, 2, ... requests present; the last repeats.
    discipline : {"ps", "fcfs", "priority", "non-preemptive", "weighted"}
        Order of service.
    visits : float or mapping of str to float
        Visits per request; matters to first come first served, percentiles and simulation.
    cv : float or mapping of str to float, optional
        Standard deviation of the service times over their mean: 0 (constant), or 0.1 to 100; 1 is exponential, which is
        presumed where nothing is given.
    histogram : mapping, optional
        Measured service times instead of ``cv``: ``borders`` of bins in seconds and ``counts`` in each.
    phases : mapping, optional
        Phases of service instead of ``cv``: ``start`` probabilities, relative ``means``, and ``next``, probabilities
        of going on from each to each.
    weights : float or mapping of str to float, optional
        Shares by class under ``discipline="weighted"``.
    capacity : int, optional
        Requests it has room for, those in service included.
    when_full : {"lose", "block"}, optional
        What happens to others; needed with ``capacity``.
    service : float or mapping, optional
        Seconds per visit instead of ``demand`` (then 0), by class and phase where classes go by :class:`Route`.
    """

    name: str
    demand: float | Mapping[str, float] = 0.0
    servers: int = 1
    kind: str = "queue"
    rates: Sequence[float] = ()
    discipline: str = "ps"
    visits: float | Mapping[str, float] = 1.0
    cv: float | Mapping[str, float] | None = None
    histogram: Mapping[str, Sequence[float]] | None = None
    phases: Mapping[str, Any] | None = None
    weights: float | Mapping[str, float] | None = None
    capacity: int | None = None
    when_full: str | None = None
    service: float | Mapping[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        entry: dict[str, Any] = {"name": self.name, "discipline": self.discipline}
        if self.service is not None:
            entry["service"] = self.service
        elif isinstance(self.demand, Mapping):
            entry["demands"] = dict(self.demand)
        elif self.demand or self.histogram is None:
            entry["demand"] = self.demand
        entry["visits"] = dict(self.visits) if isinstance(self.visits, Mapping) else self.visits
        if self.rates:
            entry |= {"kind": "rates", "rates": list(self.rates)}
        elif self.kind == "queue":
            entry |= {"kind": "queue", "servers": self.servers}
        else:
            entry["kind"] = self.kind
        if self.cv is not None:
            entry["cv"] = self.cv
        for name in ("histogram", "phases", "weights", "capacity", "when_full"):
            if getattr(self, name) is not None:
                entry[name] = getattr(self, name)
        return entry


@dataclass(frozen=True)
class Pool:
    """A passive resource (threads, connections; size 1 is a lock), held while inside.

    Parameters
    ----------
    name : str
        Unique name.
    size : int
        Units, at least 1.
    holds : mapping of str to float
        Seconds of service at each station while this is the innermost pool held; part of the
        station's demand.
    inside : str, optional
        The pool that is already held; list it first.
    calls : float
        How often a request asks for it, each time that it holds ``inside``.
    """

    name: str
    size: int
    holds: Mapping[str, Any]
    inside: str | None = None
    calls: float = 1.0

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        return {
            "name": self.name,
            "size": self.size,
            "holds": dict(self.holds),
            "inside": self.inside,
            "calls": self.calls,
        }


@dataclass(frozen=True)
class Fork:
    """A request splits into one task per branch and goes on when all are done.

    A branch is a station, a fork listed before, or a sequence of these.
    """

    name: str
    branches: Sequence[str | Sequence[str]]

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        return {"name": self.name, "branches": list(self.branches)}


@dataclass(frozen=True)
class Route:
    """Where requests of a class go next.

    Parameters
    ----------
    of : str
        The class.
    origin : str
        A station, or ``"start"``.
    to : mapping of str to float
        Probabilities by station, and of ``"end"``.
    phase, becomes : str, optional
        The phase it is in (the class's first by default), and the one it goes on in.
    """

    of: str
    origin: str
    to: Mapping[str, float]
    phase: str | None = None
    becomes: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the entry of the JSON description."""
        entry = {"class": self.of, "from": self.origin, "to": dict(self.to)}
        return entry | {k: v for k, v in (("phase", self.phase), ("becomes", self.becomes)) if v is not None}


@dataclass(frozen=True)
class Network:
    """A queueing network.

    Examples
    --------
    >>> from servsim.model import Closed, Network, Station, solve
    >>> network = Network([Closed("users", 3, think=15.0)], [Station("cpu", 0.605), Station("disk", 3.45)])
    >>> round(solve(network).throughput, 4)
    0.1462
    """

    classes: Sequence[Closed | Open]
    stations: Sequence[Station]
    pools: Sequence[Pool] = ()
    forks: Sequence[Fork] = ()
    name: str = "network"
    routes: Sequence[Route] = ()
    #: The text it was read from, and the description that this gave: a changed network is described anew.
    _read: tuple[str, str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_toml(cls, text: str) -> Network:
        """Read a TOML description.

        Parameters
        ----------
        text : str
            The description, with units.

        Returns
        -------
        Network
            The network; its parts can be changed with :func:`dataclasses.replace`.

        Raises
        ------
        UsageError
            For anything that is not understood: the line is named.
        """
        network = _from_description(json.loads(_core.model_describe(text, False)))
        return replace(network, _read=(text, network.description()))

    @classmethod
    def from_file(cls, path: str | Path) -> Network:
        """Read a TOML description from a file.

        Raises
        ------
        UsageError
            When the file cannot be read, or its text is not understood: file and line are named.
        """
        text = text_of(path)
        try:
            return cls.from_toml(text)
        except UsageError as error:
            remedy = f"; {_READ}" if "not TOML" in str(error) else ""
            raise UsageError(f"{path}, {error}{remedy}") from None

    def source(self) -> tuple[str, bool]:
        """Return the description as text, and whether it is JSON."""
        description = self.description()
        if self._read is not None and self._read[1] == description:
            return self._read[0], False
        return description, True

    def description(self) -> str:
        """Return the parts as JSON, in seconds."""
        description = {
            "name": self.name,
            "class": [c.describe() for c in self.classes],
            "station": [s.describe() for s in self.stations],
            "pool": [p.describe() for p in self.pools],
            "fork": [f.describe() for f in self.forks],
            "route": [r.describe() for r in self.routes],
        }
        return json.dumps(description, default=_plain)

    def to_toml(self) -> str:
        """Return an editable description: the text it was read from, or one with units that says the same."""
        from servsim.model.writing import to_toml

        return to_toml(self)


def _from_description(parts: Mapping[str, Any]) -> Network:
    """Return the network of a description as the core writes it."""
    kinds = {True: Closed, False: Open}
    classes: list[Closed | Open] = [kinds["population" in entry](**entry) for entry in parts["class"]]
    stations = []
    for entry in parts["station"]:
        named = dict(entry)
        if "demands" in named:
            named["demand"] = named.pop("demands")
        stations.append(Station(**named))
    return Network(
        classes,
        stations,
        [Pool(**entry) for entry in parts["pool"]],
        [Fork(**entry) for entry in parts["fork"]],
        parts["name"],
        [
            Route(**{{"class": "of", "from": "origin"}.get(key, key): value for key, value in entry.items()})
            for entry in parts["route"]
        ],
    )


def _plain(value: Any) -> Any:
    """Return the Python number of a NumPy one, or the list of an array."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise UsageError(f"{value!r} in a model is neither a number nor a name; give plain numbers in seconds")
