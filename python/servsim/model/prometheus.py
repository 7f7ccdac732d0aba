"""Measurements from Prometheus: answers to range queries (JSON), or samples in its text format with their times.

Which series are the throughput of a class and the utilisation of a station is said by selectors such as
``cpu_seconds_total{mode!="idle"}``. Series that a selector fits are added up. A counter (``..._total``) becomes its
rate of change from one time to the next; anything else is taken as it is.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.documents import text_of
from servsim.errors import UsageError

#: A name, or nothing, and what its labels must be.
SELECTOR = re.compile(r"\s*([A-Za-z_:][\w:]*)?\s*(?:\{(.*)\})?\s*\Z", re.S)
LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*(!?=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|\Z)')
LINE = re.compile(r"([A-Za-z_:][\w:]*)(\{.*\})?\s+(\S+)\s+(-?[\d.]+)\s*\Z")
ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Series:
    """One series: its labels, the name among them as ``__name__``, and its value at each time, in seconds."""

    labels: dict[str, str]
    values: dict[float, float]


@dataclass(frozen=True)
class Selector:
    """Which series are meant."""

    text: str
    name: str
    labels: list[tuple[str, bool, str]]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a selector such as ``name{label="value",other!="value"}``.

        Raises
        ------
        UsageError
            When it is none.
        """
        found = SELECTOR.match(text)
        if found is None:
            raise UsageError(f'{text!r} selects no series; write name, name{{label="value"}} or {{}} for all')
        labels, rest = [], found.group(2) or ""
        at = 0
        while at < len(rest):
            label = LABEL.match(rest, at)
            if label is None:
                raise UsageError(f'{text!r} selects no series: write labels as label="value" or label!="value"')
            labels.append((label.group(1), label.group(2) == "=", _plain(label.group(3))))
            at = label.end()
        return cls(text, found.group(1) or "", labels)

    def fits(self, series: Series, *, named: bool) -> bool:
        """Say whether a series is meant: one of this name, or one that has no name any more."""
        name = series.labels.get("__name__")
        right = (not self.name or name == self.name) if named else name is None
        return right and all((series.labels.get(key, "") == value) is equal for key, equal, value in self.labels)

    @property
    def is_counter(self) -> bool:
        """True for the name of a counter."""
        return self.name.endswith("_total")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found.group(1), found.group(0)), text)


def read_series(path: str | Path) -> list[Series]:
    """Return the series in a file.

    Parameters
    ----------
    path : str or Path
        One or more JSON answers of ``/api/v1/query_range``, one behind the other, or lines
        ``name{label="value"} value time`` with the time in milliseconds (or in seconds, as OpenMetrics has it).

    Raises
    ------
    UsageError
        For anything else.
    """
    text = text_of(path)
    found = _from_json(path, text) if text.lstrip()[:1] in ("{", "[") else _from_lines(path, text)
    if not found:
        raise UsageError(f"{path} has no series; export a range query, or scrapes with their times")
    return found


def _from_json(path: str | Path, text: str) -> list[Series]:
    decoder = json.JSONDecoder()
    at, series = 0, []
    while at < len(text.rstrip()):
        at += len(text[at:]) - len(text[at:].lstrip())
        try:
            answer, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} is not JSON ({error}); export the answer of /api/v1/query_range") from None
        for one in answer if isinstance(answer, list) else [answer]:
            series += _matrix(path, one)
    return series


def _matrix(path: str | Path, answer: Any) -> list[Series]:
    try:
        if answer.get("status") == "error":
            raise UsageError(f"{path}: Prometheus answered {answer.get('error', 'an error')!r}; correct the query")
        data = answer["data"]
        if data["resultType"] != "matrix":
            kind = data["resultType"]
            raise UsageError(f"{path} is the answer of an instant ({kind}); ask /api/v1/query_range for a time span")
        return [
            Series(
                {str(key): str(value) for key, value in one["metric"].items()},
                {float(time): float(value) for time, value in one["values"]},
            )
            for one in data["result"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is no answer of /api/v1/query_range ({error!r}); export it again") from None


def _from_lines(path: str | Path, text: str) -> list[Series]:
    series: dict[tuple[tuple[str, str], ...], Series] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = LINE.match(line.strip())
        if found is None:
            raise UsageError(f'{path}, line {number}: no sample with its time; write name{{label="value"}} value time')
        labels = {"__name__": found.group(1)}
        labels |= {key: value for key, _, value in Selector.parse(found.group(2) or "{}").labels}
        try:
            value, time = float(found.group(3)), float(found.group(4))
        except ValueError:
            raise UsageError(f"{path}, line {number}: {found.group(3)!r} is no number; correct the line") from None
        # Milliseconds since 1970 are beyond this since 2001; seconds will be in the year 33658.
        time = time / 1000.0 if time >= 1e12 else time
        key = tuple(sorted(labels.items()))
        series.setdefault(key, Series(labels, {})).values[time] = value
    return list(series.values())


def _sum(path: str | Path, series: list[Series], selector: Selector) -> dict[float, float]:
    """Return the sum of the series that a selector fits, by time: rates of counters, other values as they are."""
    # Functions such as `rate` take names away: a name that is not there may mean series that have none.
    chosen = [one for one in series if selector.fits(one, named=True)]
    chosen = chosen or [one for one in series if selector.fits(one, named=False)]
    if not chosen:
        known = sorted({one.labels.get("__name__", "(no name)") for one in series})
        raise UsageError(f"{path} has no series for {selector.text!r}; it has {', '.join(known[:10])}")
    each = [_rates(one) if selector.is_counter and "__name__" in one.labels else one.values for one in chosen]
    times = set(each[0]).intersection(*each[1:])
    return {
        time: sum(values[time] for values in each) for time in times if all(map(math.isfinite, (v[time] for v in each)))
    }


def _rates(series: Series) -> dict[float, float]:
    times = sorted(series.values)
    found = {}
    for before, after in itertools.pairwise(times):
        grown = series.values[after] - series.values[before]
        # A counter that fell began anew; what it had counted until then is not known.
        if grown >= 0.0:
            found[after] = grown / (after - before)
    return found


def prometheus_measurements(
    path: str | Path,
    throughput: Mapping[str, str],
    utilization: Mapping[str, str],
    response: str | None = None,
    servers: Mapping[str, int] | None = None,
) -> str:
    """Return the JSON description of measurements in a Prometheus export, as :func:`servsim.model.fit` takes it.

    Parameters
    ----------
    path : str or Path
        See :func:`read_series`.
    throughput, utilization : mapping of str to str
        Selector by class, and by station. Utilisation is busy seconds per second: it is divided by ``servers``.
    response : str, optional
        Selector of mean response times in seconds.
    servers : mapping of str to int, optional
        Servers by station, 1 by default.

    Raises
    ------
    UsageError
        For files and selectors that are not understood, fit nothing, or have no time in common.
    """
    if not throughput or not utilization:
        raise UsageError("say which series are throughput and utilisation: CLASS=SELECTOR and STATION=SELECTOR")
    series = read_series(path)
    count = {name: (servers or {}).get(name, 1) for name in utilization}
    rates = {name: _sum(path, series, Selector.parse(text)) for name, text in throughput.items()}
    used = {name: _sum(path, series, Selector.parse(text)) for name, text in utilization.items()}
    times = set.intersection(*(set(values) for values in (*rates.values(), *used.values())))
    if not times:
        raise UsageError(f"{path}: the series have no time in common; query all of them for the same times and step")
    waits = _sum(path, series, Selector.parse(response)) if response else {}
    samples = []
    for time in sorted(times):
        sample: dict[str, Any] = {
            "throughput": [values[time] for values in rates.values()],
            "utilization": [used[name][time] / count[name] for name in used],
        }
        samples.append(sample | ({"response": waits[time]} if time in waits else {}))
    return json.dumps(
        {"classes": list(rates), "stations": list(used), "servers": [count[n] for n in used], "sample": samples}
    )
