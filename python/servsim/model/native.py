"""Does the queueing model predict what this host really does? After Du et al. 2001, section 4.3.

They set the model's parameters to those of a real machine and found 15.3 % between its throughput and the
measured one. Here the parameters come from simulating captures of the same software on a description of
this host; one figure, the speed of the processors, is fixed by the native throughput of the base
configuration. What the model then says of other configurations stands beside what was measured:

* processors and users differ from the base only in the model: everything comes from the base's captures,
  and the effective service rates of two processors from simulating those on two;
* a configuration of other software or data (and users, a second time) has demands from its own captures.

Errors are of ratios to the base, so what the base was fitted to is in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.model.parameters import Parameters, parameters
from servsim.model.verify import predict
from servsim.simulation import simulate_text
from servsim.validation.host import Host, describe
from servsim.validation.plan import BASE, CHANGES, Configuration, software
from servsim.validation.ratios import Ratio, error_percent, ratio
from servsim.validation.record import Record
from servsim.validation.simulated import CAPTURED

#: Difference between the model and a real machine in the paper (section 4.3).
PAPER_PERCENT = 15.3
#: Where a row's demands come from.
FROM_BASE, FROM_OWN = "the base's captures", "its own captures"
#: Relative precision of the speed that is fitted to the base, and the most halvings until then.
_PRECISION, _HALVINGS = 1e-4, 60

#: Parameters of a capture simulated on so many processors, by software configuration, seed, processors.
Measure = Callable[[str, int, int], Parameters]


@dataclass(frozen=True)
class Row:
    """One configuration: what was measured, and what the model says of it.

    Attributes
    ----------
    name, what
        The configuration.
    demands
        Where its demands come from: `FROM_BASE` or `FROM_OWN`.
    measured, predicted
        Ratios of throughput to the base, over rounds and over captures.
    """

    name: str
    what: str
    demands: str
    measured: Ratio
    predicted: Ratio

    @property
    def error_percent(self) -> float:
        """How far the predicted ratio is from the measured one, in percent of the latter."""
        return error_percent(self.predicted, self.measured)


@dataclass(frozen=True)
class Comparison:
    """The answer: a row per prediction, the native base in transactions/s, and the clock fitted to it, Hz."""

    rows: tuple[Row, ...]
    base: float
    clock_hz: float

    @property
    def mean_error_percent(self) -> float:
        """Mean of the absolute errors."""
        return sum(abs(row.error_percent) for row in self.rows) / len(self.rows)

    def as_document(self) -> dict[str, Any]:
        """Return the document ``servsim.model.native/1``; ratios are to the base configuration."""
        rows = [
            {
                "configuration": row.name,
                "what": row.what,
                "demands": row.demands,
                "measured": _plain(row.measured),
                "predicted": _plain(row.predicted),
                "error_percent": row.error_percent,
            }
            for row in self.rows
        ]
        return {
            "schema": "servsim.model.native/1",
            "calibrated": {"on": BASE.name, "transactions_per_s": self.base, "clock_hz": self.clock_hz},
            "paper_percent": PAPER_PERCENT,
            "mean_error_percent": self.mean_error_percent,
            "rows": rows,
        }


def _plain(known: Ratio) -> dict[str, Any]:
    return {"mean": known.mean, "low": known.low, "high": known.high, "n": known.n}


def changes(names: Sequence[str] = ()) -> list[Configuration]:
    """Return the changes to predict: those named, or all whose software is the base's, and users.

    Raises
    ------
    UsageError
        For a name that is no change.
    """
    known = {change.name: change for change in CHANGES}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise UsageError(f"there is no change {', '.join(wrong)}; there are {', '.join(known)}")
    return [change for change in CHANGES if (change.name in names if names else in_the_model(change))]


def in_the_model(change: Configuration) -> bool:
    """Say whether a change is one of processors and users alone, which the model has."""
    return replace(change, name="", what="", station="", processors=1, users=1) == replace(
        BASE, name="", what="", station="", processors=1, users=1
    )


def compare(
    record: Record, chosen: Sequence[Configuration], seeds: Sequence[int], measure: Measure, clock_hz: float
) -> Comparison:
    """Predict the chosen changes and set them beside the record.

    Parameters
    ----------
    record
        Native runs; those of the base and of every chosen change are needed.
    chosen
        The changes.
    seeds
        Seeds of the captures: each gives one prediction of every row.
    measure
        Returns parameters measured in a simulation at ``clock_hz``.
    clock_hz
        Clock of the simulated processors, hertz.

    Raises
    ------
    UsageError
        When the record lacks runs.
    """
    runs = sorted(record.runs, key=lambda run: run.round)
    native = {c.name: [run.throughput for run in runs if run.configuration == c.name] for c in (BASE, *chosen)}
    rounds = {c.name: [run.round for run in runs if run.configuration == c.name] for c in (BASE, *chosen)}
    missing = [name for name, runs in native.items() if not runs]
    if missing:
        raise UsageError(f"the record has no native run of {', '.join(missing)}; measure it anew, or choose others")
    base = sum(native[BASE.name]) / len(native[BASE.name])
    given = {seed: measure(software(BASE), seed, BASE.processors) for seed in seeds}
    speed = fit_speed([given[seed] for seed in seeds], BASE.users, base)
    at_base = [throughput(given[seed], BASE.users, speed) for seed in seeds]
    rows = []
    for change in chosen:
        paired = rounds[change.name] == rounds[BASE.name]
        measured = ratio(native[change.name], native[BASE.name], paired=paired)
        for demands, source in _sources(change):
            found = []
            for seed in seeds:
                own = measure(source, seed, change.processors)
                # From the base: its parameters, and only the service rates of the other processors.
                used = replace(given[seed], rates=own.rates) if demands == FROM_BASE else own
                found.append(throughput(used, change.users, speed))
            predicted = ratio(found, at_base, paired=True)
            rows.append(Row(change.name, change.what, demands, measured, predicted))
    return Comparison(tuple(rows), base, speed * clock_hz)


def _sources(change: Configuration) -> list[tuple[str, str]]:
    """Return where a change's demands can come from, each with the software configuration of the captures."""
    found = [(FROM_BASE, software(BASE))] if in_the_model(change) else []
    return found if software(change) == software(BASE) else [*found, (FROM_OWN, software(change))]


def throughput(given: Parameters, users: int, speed: float) -> float:
    """Return the model's transactions per second with processors ``speed`` times as fast.

    Times of caches and memory are counted in cycles, so they go with the clock; times of disks do not.
    """
    rates = tuple(rate * speed for rate in given.rates)
    return predict(replace(given, rates=rates, present=float(users)), 1, 1, by_table=False)


def fit_speed(given: Sequence[Parameters], users: int, wanted: float) -> float:
    """Return the factor at which the mean of the model's throughputs is ``wanted`` transactions/s.

    Raises
    ------
    UsageError
        When disks bound the base, so that no speed reaches it.
    """

    def mean(speed: float) -> float:
        return sum(throughput(one, users, speed) for one in given) / len(given)

    low, high = 1.0, 1.0
    for _ in range(_HALVINGS):
        if mean(high) >= wanted:
            break
        high *= 2.0
    else:
        raise UsageError(f"the base is bound by its disk: no speed of processors gives {wanted:,.0f} transactions/s")
    while mean(low) > wanted:
        low /= 2.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if mean(middle) < wanted else (low, middle)
    return (low + high) / 2.0


def overrides(host: Host, processors: int) -> list[str]:
    """Return the settings that give the description a single disk to look at.

    Writes take the measured time of a flush, reads next to none (natively the page cache holds the data),
    and the bus is never in the way.
    """
    return [
        f"processors={processors}",
        "disk.count=1",
        f"disk.write_time={1e9 * host.flush_seconds:.0f} ns",
        "io.buses=1",
        "io.rate=100000000 kB/s",
        "io.overhead=0 ns",
        "io.hold_on_write=no",
    ]


def measuring(
    record: Record, captures: Mapping[tuple[str, int], Path], clock_hz: float, say: Callable[[str], None]
) -> Measure:
    """Return a function that simulates captures on this host's description, each at most once."""
    results: dict[tuple[str, int, int], Parameters] = {}
    users = {software(c): c.users for c in (*CHANGES, BASE)}

    def measure(name: str, seed: int, processors: int) -> Parameters:
        key = (name, seed, processors)
        if key not in results:
            say(f"simulating {name}, capture {seed}, {processors} processors")
            chosen, text = overrides(record.host, processors), describe(record.host, clock_hz, pool=False)
            run = partial(simulate_text, captures[name, seed], text, "this host", overrides=chosen)
            # All of a capture is measured: captures of one seed hold the same requests.
            results[key] = parameters(run(transactions=CAPTURED, seed=seed), users[name])
        return results[key]

    return measure
