"""Queueing models drawn at random, odd ones more often than people write them, and what every answer about them keeps.

Nobody is there, services take nothing or a nanosecond, a station has room for one, a pool guards a single station:
what a model may say is drawn piece by piece, so that pieces meet that no test has put together by hand.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from servsim import model
from servsim.errors import CheckFailed, UsageError
from servsim.model import Closed, Fork, Network, Open, Pool, Solution, Station, planning
from servsim.model.goals import Goal

Drawn = TypeVar("Drawn")

TIMES = (0.0, 1e-9, 1e-4, 0.001, 0.01, 0.02, 0.3, 5.0)
THINKS = (0.0, 0.0, 1e-6, 0.5, 10.0, 3600.0)
POPULATIONS = (0, 1, 1, 2, 3, 7, 40, 600)
RATES = (1e-6, 0.5, 1.0, 9.8, 60.0)
#: How far rounding may part two exact figures, as a share.
ROUNDING = 1e-6
#: How far a simulated mean may be from what a law demands of it, as a share; its runs are short.
NOISE = 0.25
#: What is simulated is simulated so briefly.
SHORT: dict[str, Any] = {"requests": 2000, "replications": 4}


def _each(rng: random.Random, names: Sequence[str], values: Sequence[Drawn]) -> Drawn | dict[str, Drawn]:
    if rng.random() < 0.5:
        return rng.choice(values)
    some = rng.sample(list(names), rng.randint(1, len(names)))
    return {name: rng.choice(values) for name in some}


def _classes(rng: random.Random) -> list[Closed | Open]:
    kinds = rng.choice(("closed", "closed", "open", "both"))
    made: list[Closed | Open] = []
    for at in range(rng.choice((1, 1, 2, 3))):
        priority = rng.choice((0, 0, 1, 5))
        if kinds == "closed" or (kinds == "both" and at % 2 == 0):
            made.append(Closed(f"c{at}", rng.choice(POPULATIONS), rng.choice(THINKS), priority))
        else:
            made.append(Open(f"o{at}", rng.choice(RATES), priority))
    return made


def _law(rng: random.Random, names: Sequence[str]) -> dict[str, Any]:
    law = rng.choice(("none", "none", "none", "cv", "histogram", "phases"))
    if law == "cv":
        return {"cv": _each(rng, names, (0.0, 0.1, 0.5, 1.0, 3.0, 100.0))}
    if law == "histogram":
        return {"histogram": {"borders": [0.001, 0.002, 0.01, 0.5], "counts": rng.choice(([5, 1, 1], [0, 0, 1]))}}
    if law == "phases":
        return {"phases": {"start": [0.9, 0.1], "means": [1.0, 20.0], "next": [[0.0, 0.5], [0.0, 0.0]]}}
    return {}


def _station(rng: random.Random, at: int, names: Sequence[str]) -> Station:
    made: dict[str, Any] = {"name": f"s{at}", "demand": _each(rng, names, TIMES)}
    kind = rng.choice(("queue", "queue", "queue", "delay", "rates"))
    if kind != "queue":
        made["kind"] = kind
        if kind == "rates":
            made["rates"] = rng.choice(((1.0,), (1.0, 1.7, 2.1), (2.0, 1.0)))
        return Station(**made)
    made["servers"] = rng.choice((1, 1, 1, 2, 16, 500))
    made["discipline"] = rng.choice(("ps", "ps", "fcfs", "fcfs", "priority", "non-preemptive", "weighted"))
    if made["discipline"] == "weighted":
        made["weights"] = _each(rng, names, (1.0, 2.0, 50.0))
    if rng.random() < 0.3:
        made["visits"] = _each(rng, names, (0.1, 1.0, 1.5, 20.0))
    made |= _law(rng, names)
    if rng.random() < 0.1:
        made |= {"capacity": rng.choice((1, 2, 10)), "when_full": rng.choice(("lose", "block"))}
    return Station(**made)


def network(rng: random.Random) -> Network:
    """Return a model of one to three classes at one to five stations; some are refused."""
    classes = _classes(rng)
    names = [one.name for one in classes]
    stations = [_station(rng, at, names) for at in range(rng.choice((1, 1, 2, 3, 5)))]
    pools: list[Pool] = []
    forks: list[Fork] = []
    shape = rng.choice(("plain", "plain", "plain", "pool", "fork"))
    if shape == "pool":
        held = rng.sample(stations, rng.randint(1, len(stations)))
        holds = {one.name: one.demand if isinstance(one.demand, float) else min(one.demand.values()) for one in held}
        holds = {name: rng.choice((0.5, 1.0)) * time for name, time in holds.items()}
        pools = [Pool("pool", rng.choice((1, 2, 30)), holds)]
    if shape == "fork" and len(stations) > 1:
        forks = [Fork("fork", [one.name for one in stations[: rng.randint(2, len(stations))]])]
    return Network(classes, stations, pools, forks)


Check = Callable[[Network], Iterator[str]]


def _numbers(value: Any, where: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _numbers(one, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one, where)
    elif isinstance(value, float):
        yield where, value


def _figures(value: Any) -> Iterator[str]:
    """Give the figures that are none: not a number, without bound, or below zero."""
    for where, number in _numbers(value):
        if not math.isfinite(number) or number < -1e-9:
            yield f"{where.lstrip('.')} is {number}"


def _laws(network: Network, solution: Solution) -> Iterator[str]:
    """Give the laws that a solution breaks: of the utilisation, of customers kept, of Little."""
    kind = solution.data["accuracy"]["kind"]
    leave = {"exact": ROUNDING, "interval": NOISE}.get(kind, 0.02)
    for name, used in solution.utilization.items():
        if used > 1.0 + ROUNDING:
            yield f"{name} is busy {used}"
    for one, found in zip(network.classes, solution.data["classes"], strict=True):
        inside = found["throughput"] * found["response"]
        if kind != "interval" and abs(inside - found["in_system"]) > leave * max(1e-9, inside):
            yield f"Little: {one.name} has {found['in_system']} within and {inside} by rate and response"
        if isinstance(one, Closed) and found["throughput"] > 0.0:
            counted = inside + found["throughput"] * one.think
            if abs(counted - one.population) > leave * one.population:
                yield f"{one.name} counts {counted} of {one.population} ({kind})"


def bounds(network: Network) -> Iterator[str]:
    """Ask for bounds, and for throughputs of the chosen solver within them."""
    found = model.bounds(network)
    yield from _figures(found)
    solution = model.solve(network, **SHORT)
    leave = NOISE if solution.data["accuracy"]["kind"] == "interval" else 0.02
    for row, entry in zip(found, solution.data["classes"], strict=True):
        low, high = row["throughput"]["low"] * (1 - leave), row["throughput"]["high"] * (1 + leave)
        if not low - 1e-12 <= entry["throughput"] <= high + 1e-12:
            yield f"{entry['name']} does {entry['throughput']}, bounds {row['throughput']}"


def solve(network: Network) -> Iterator[str]:
    """Ask for means: figures, laws, and the same from the description that is written."""
    solution = model.solve(network, **SHORT)
    yield from _figures(solution.data)
    yield from _laws(network, solution)
    again = model.solve(Network.from_toml(replace(network, _read=None).to_toml()), **SHORT)
    if again.data != solution.data:
        yield "written and read, it has another answer"


def percentiles(network: Network) -> Iterator[str]:
    """Ask for percentiles: in order, and none below zero."""
    asked = (10.0, 50.0, 99.0)
    solution = model.solve(network, percentiles=asked, **SHORT)
    yield from _figures(solution.data)
    for one in network.classes:
        values = [value for _, value in sorted(solution.percentiles(one.name).items())]
        if values != sorted(values):
            yield f"percentiles of {one.name} fall: {values}"


def _answers(network: Network, nature: str) -> Iterator[tuple[str, Solution]]:
    """Give the answer of every solver of a nature that does not refuse."""
    for entry in model.solvers():
        if entry["nature"] == nature:
            with suppress(UsageError, CheckFailed):
                yield entry["name"], model.solve(network, entry["name"])


def exact(network: Network) -> Iterator[str]:
    """Ask every exact solver by name; those that answer agree."""
    answers: dict[str, float] = {}
    for name, solution in _answers(network, "exact"):
        yield from _figures(solution.data)
        yield from _laws(network, solution)
        answers[name] = solution.throughput
    if answers and max(answers.values()) - min(answers.values()) > 10 * ROUNDING * max(answers.values()):
        yield f"exact solvers differ: {answers}"


def approximate(network: Network) -> Iterator[str]:
    """Ask every approximation by name for figures."""
    for _, solution in _answers(network, "approximate"):
        yield from _figures(solution.data)


def curve(network: Network) -> Iterator[str]:
    """Ask for a curve: figures or nothing."""
    yield from _figures(model.curve(network, [0, 1, 5]))


def sensitivity(network: Network) -> Iterator[str]:
    """Ask for elasticities, whose sum is -1 where somebody is there."""
    found = model.sensitivity(network)
    for one, total in zip(network.classes, found.sums, strict=True):
        if isinstance(one, Closed) and one.population > 0 and abs(total + 1.0) > 1e-4:
            yield f"elasticities of {one.name} sum to {total}"
    if any(not math.isfinite(number) for _, number in _numbers(found.data)):
        yield f"elasticities are none: {found.data}"


def plan(network: Network) -> Iterator[str]:
    """Ask what load the model bears, and how it fares while that grows."""
    goal = Goal.parse("mean <= 500 ms")
    found = planning.most(network, goal)
    if not 0.0 < found["load"] < math.inf or not found["measured"] <= goal.seconds < found["beyond"]:
        yield f"the largest load is none: {found}"
    for row in planning.forecast(network, goal, 0.5, 2):
        if math.isnan(row["measured"]) or row["met"] != (row["measured"] <= goal.seconds):
            yield f"a forecast is none: {row}"


#: Questions by name. Each gives what is wrong with its answers, or refuses.
QUESTIONS: dict[str, Check] = {
    "bounds": bounds,
    "solve": solve,
    "percentiles": percentiles,
    "exact": exact,
    "approximate": approximate,
    "curve": curve,
    "sensitivity": sensitivity,
    "plan": plan,
}


def ask(question: str, about: Network) -> tuple[bool, list[str]]:
    """Return whether a question was answered, and what is wrong with the answer or the refusal."""
    try:
        return True, list(QUESTIONS[question](about))
    except (UsageError, CheckFailed) as refusal:
        return False, [] if str(refusal).strip() else [f"refused with {refusal!r}"]
    except BaseException as error:  # what ends in a trace is what is looked for
        return False, [f"ended in {error!r}"]
