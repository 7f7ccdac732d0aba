"""Answers of the solvers: plain attributes, columns for any data frame, NumPy record arrays.

No data-frame library is needed: ``pandas.DataFrame(solution.columns())`` and
``polars.DataFrame(solution.columns())`` both work.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

from servsim.errors import UsageError

#: Columns of any data frame: name to values of equal length.
Columns = dict[str, list[Any]]


def to_records(columns: Columns) -> np.recarray[Any, Any]:
    """Turn columns into a NumPy record array with the same names."""
    import numpy as np

    return np.rec.fromarrays(  # type: ignore[no-any-return,call-overload]
        [np.asarray(values) for values in columns.values()], names=list(columns)
    )


def html_table(columns: Columns) -> str:
    """Return columns as a table of HTML."""

    def cell(value: Any) -> str:
        return f"<td>{escape(f'{value:.5g}' if isinstance(value, float) else str(value))}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in zip(*columns.values(), strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _named(rows: list[dict[str, Any]], name: str, kind: str = "class") -> dict[str, Any]:
    """Return the first row about a class or station, or say which there are."""
    key = "name" if kind == "class" else kind
    known = [str(row[key]) for row in rows]
    if name not in known:
        raise UsageError(f"there is no {kind} {name!r}; choose one of {', '.join(dict.fromkeys(known))}")
    return rows[known.index(name)]


def answered_by(found: dict[str, Any]) -> str:
    """Name the ``solver`` of a solution or what-if, and say what its figures are worth."""
    return f"{found['solver']} ({worth(found['accuracy'])})"


def worth(accuracy: dict[str, Any]) -> str:
    """Say what figures with this ``accuracy`` of a solution are worth."""
    if accuracy["kind"] == "exact":
        return "exact"
    if accuracy["kind"] == "interval":
        return "simulated: 95 % intervals"
    if accuracy["kind"] == "unknown":
        return f"approximate: error not known, {accuracy['why']}"
    throughput, response, present = (f"{accuracy[key]:.2%}" for key in ("throughput", "response", "present"))
    return (
        f"approximate: in 97 of 100 models ({accuracy['models']}) the truth is within {throughput} of throughput, "
        f"{response} of response time and {present} of requests at a station"
    )


@dataclass(frozen=True)
class Solution:
    """The answer of one solver to one network.

    Attributes
    ----------
    data : dict
        The answer as decoded JSON (schema ``servsim.model.solve/1`` without the envelope).
    """

    data: dict[str, Any]

    @property
    def solver(self) -> str:
        """Name of the solver that ran."""
        return str(self.data["solver"])

    @property
    def throughput(self) -> float:
        """Requests per second, all classes."""
        return float(sum(c["throughput"] for c in self.data["classes"]))

    @property
    def response(self) -> float:
        """Throughput-weighted mean response time in seconds; not a number when no request is served."""
        total = self.throughput
        weighted = float(sum(c["throughput"] * c["response"] for c in self.data["classes"]))
        return weighted / total if total > 0.0 else math.nan

    @property
    def utilization(self) -> dict[str, float]:
        """Fraction of capacity in use, by station."""
        return {s["name"]: float(s["utilization"]) for s in self.data["stations"]}

    @property
    def busiest(self) -> float:
        """Largest fraction of capacity in use of a station or pool."""
        places = [*self.data["stations"], *self.data.get("pools", [])]
        return max(float(place["utilization"]) for place in places)

    @property
    def notes(self) -> list[str]:
        """Why the solver was chosen, and approximations made."""
        return list(self.data["notes"])

    @property
    def accuracy(self) -> str:
        """What the figures are worth: exact, a band around them, intervals, or not known."""
        return worth(self.data["accuracy"])

    @property
    def by(self) -> str:
        """The solver, and what its figures are worth."""
        return answered_by(self.data)

    @property
    def presumed(self) -> list[str]:
        """Notes on what is presumed of stations: in what order they serve, and how their service times are spread."""
        return [note for note in self.notes if note.startswith(("figures presume", "percentiles presume"))]

    def percentiles(self, name: str | None = None) -> dict[float, float]:
        """Response-time percentiles in seconds of one class (the first by default).

        Those that were asked for and are known; ``notes`` says which were withheld, and why.

        Raises
        ------
        UsageError
            For a class that the model does not have.
        """
        entry = _named(self.data["classes"], name) if name is not None else self.data["classes"][0]
        return {float(p): float(value) for p, value in entry["percentiles"]}

    def classes(self) -> Columns:
        """Columns ``class, throughput_per_s, response_s, in_system``, a row per class; ``loss`` where some are lost."""
        rows = self.data["classes"]
        return {
            "class": [c["name"] for c in rows],
            "throughput_per_s": [c["throughput"] for c in rows],
            "response_s": [c["response"] for c in rows],
            "in_system": [c["in_system"] for c in rows],
        } | ({"loss": [c["loss"] for c in rows]} if any("loss" in c for c in rows) else {})

    def columns(self) -> Columns:
        """Columns ``station, class, utilization, queue, residence_s``: a row per station and class."""
        names = [c["name"] for c in self.data["classes"]]
        rows = [(s, i, n) for s in self.data["stations"] for i, n in enumerate(names)]
        return {
            "station": [s["name"] for s, _, _ in rows],
            "class": [n for _, _, n in rows],
            "utilization": [s["utilization_by_class"][i] for s, i, _ in rows],
            "queue": [s["queue"][i] for s, i, _ in rows],
            "residence_s": [s["residence"][i] for s, i, _ in rows],
        }

    def to_csv(self) -> str:
        """Return the columns as CSV text: a row per station and class."""
        columns = self.columns()
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
        return out.getvalue()

    def _repr_html_(self) -> str:
        """Return what a notebook shows: classes with their percentiles, stations and what the figures are worth."""
        heading = f"<p>{escape(self.by)}</p>"
        stations = {
            "station": [s["name"] for s in self.data["stations"]],
            "utilization": [s["utilization"] for s in self.data["stations"]],
            "present": [sum(s["queue"]) for s in self.data["stations"]],
        }
        classes = self.classes()
        tails = [{p: value for p, value in c["percentiles"]} for c in self.data["classes"]]
        for percent in sorted({p for given in tails for p in given}):
            classes[f"p{percent:g}_s"] = [given.get(percent, "withheld") for given in tails]
        return heading + html_table(classes) + html_table(stations)

    def records(self) -> np.recarray[Any, Any]:
        """Return the columns as a NumPy record array."""
        return to_records(self.columns())


@dataclass(frozen=True)
class Sensitivity:
    """Exact elasticities; ``sums`` are -1 but for rounding."""

    data: dict[str, Any]

    @property
    def sums(self) -> list[float]:
        """Sum of throughput elasticities per class, think time included."""
        return [float(s) for s in self.data["sums"]]

    def columns(self) -> Columns:
        """Columns ``of, station, class, value_s, throughput, response, derivative``."""
        rows = self.data["elasticities"]
        keys = {"value": "value_s"}
        names = ("of", "station", "class", "value", "throughput", "response", "derivative")
        return {keys.get(n, n): [row[n] for row in rows] for n in names}

    def elasticity(self, station: str) -> float:
        """Throughput elasticity of the first class with respect to one station's demand (or ``think``).

        Raises
        ------
        UsageError
            For a station that the model does not have.
        """
        return float(_named(self.data["elasticities"], station, "station")["throughput"])


@dataclass(frozen=True)
class Fit:
    """Estimated service demands."""

    data: dict[str, Any]

    def columns(self) -> Columns:
        """Columns ``station, class, demand_s, low_s, high_s, confidence, identifiable, note``."""
        rows = self.data["demands"]
        names = {"demand": "demand_s", "low": "low_s", "high": "high_s"}
        keys = ("station", "class", "demand", "low", "high", "confidence", "identifiable", "note")
        return {names.get(k, k): [row.get(k) for row in rows] for k in keys}


@dataclass(frozen=True)
class Allocation:
    """The best allocation found, its bound and gap, and the allocations compared with it."""

    data: dict[str, Any]

    @property
    def throughput(self) -> float:
        """Requests per second of the best allocation."""
        return float(self.data["best"]["throughput"])

    @property
    def gap(self) -> float:
        """Share by which the bound exceeds it; 0 after an exhaustive search."""
        return float(self.data["best"]["gap"])

    def columns(self) -> Columns:
        """Columns ``table, bus, disk`` (numbered from 1)."""
        best = self.data["best"]
        bus_of = [bus for bus, count in enumerate(best["disks_per_bus"]) for _ in range(count)]
        return {
            "table": list(self.data["tables"]),
            "bus": [bus_of[d] + 1 for d in best["disk_of"]],
            "disk": [d + 1 for d in best["disk_of"]],
        }
