"""A planner's questions: how far a model carries, what meets a goal at the least cost, and when growth ends it.

A load is a number of users of the closed classes together, or a rate of the open ones; classes keep their proportions.
Where demands were measured, their intervals are carried into predictions: the model is solved again and again with
demands drawn from them, and the middle 95 % of the answers are the band: of the demands' error, not the model's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from servsim.errors import Saturated, UsageError
from servsim.model.goals import Answer, Goal
from servsim.model.network import Closed, Network, Open, Station
from servsim.model.results import Columns, Fit
from servsim.model.searching import last_within, nearly_last_within
from servsim.model.solving import solve
from servsim.progress import Show

#: Draws behind a band: enough for the 2.5th percentile, 95 % of which lie within the true 1st and 5th.
DRAWS = 200
#: Load, users or requests per second, beyond which a search gives up.
MOST_LOAD = 1e9
#: Times the model's load beyond which it does where requests are lost.
MOST_LOSING = 500
#: How near the largest load a search ends, as a share of it, where loads are rates and where they are simulated.
NEAR = 0.005
#: Combinations of servers that are tried.
MOST_CHOICES = 2_000


def is_open(network: Network) -> bool:
    """Say whether a model's load is a rate.

    Raises
    ------
    UsageError
        For a model with both kinds of classes: which load is meant cannot be told.
    """
    kinds = {isinstance(c, Open) for c in network.classes}
    if len(kinds) > 1:
        raise UsageError("the model has both users and arrivals from outside, so its load is not one number; vary one")
    return kinds.pop()


def load_of(network: Network) -> float:
    """Return the users, or the arrivals per second, of all classes."""
    return float(sum(c.population if isinstance(c, Closed) else c.rate for c in network.classes))


def with_load(network: Network, load: float) -> Network:
    """Return the network with another load, classes in the same proportions as far as whole users go.

    Raises
    ------
    UsageError
        For a load of nobody.
    """
    now = load_of(network)
    if not (math.isfinite(load) and load > 0.0 and now > 0.0):
        raise UsageError(f"a load of {load:g} for a model with {now:g}; give more than zero in both")
    factor = load / now
    if is_open(network):
        opened = [replace(c, rate=c.rate * factor) for c in network.classes if isinstance(c, Open)]
        return replace(network, classes=opened)
    closed = [c for c in network.classes if isinstance(c, Closed)]
    users = _apportioned([c.population * factor for c in closed])
    return replace(network, classes=[replace(c, population=n) for c, n in zip(closed, users, strict=True)])


def _apportioned(shares: Sequence[float]) -> list[int]:
    """Return whole users that sum to the rounded sum of the shares, more where the remainders are largest."""
    users = [math.floor(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda at: users[at] - shares[at])
    for at in by_remainder[: round(sum(shares)) - sum(users)]:
        users[at] += 1
    return users


def most(network: Network, goal: Goal, solver: str = "auto", progress: Show = lambda *_: None) -> dict[str, Any]:
    """Return the largest load that keeps a goal.

    Parameters
    ----------
    network : Network
        The model; its classes' proportions are kept.
    goal : Goal
        What response times must keep.
    solver : str
        Solver; ``"auto"`` is exact where it can be.
    progress : callable
        Takes what is being done and, where it is known, the share done; likewise below.

    Returns
    -------
    dict
        ``load`` (users, or requests per second), ``measured`` there and ``beyond`` it (seconds); ``by``, the solver
        that measured and what its figures are worth. Where it simulated, ``load_low`` and ``load_high``: up to the
        first all of the interval keeps the goal, and beyond the second none of it. Rates, and loads that are simulated,
        are within 0.5 % of the largest, or one user.

    Raises
    ------
    UsageError
        When no load keeps it, or every one does.
    """
    users = not is_open(network)
    low, high = 0.0, 1.0 if users else load_of(network)
    answers: dict[float, Answer] = {}

    def asked(load: float) -> Answer:
        if load not in answers:
            progress(f"looking for the largest load, at {load:.6g}")
            answers[load] = goal.answer(with_load(network, load), solver)
        return answers[load]

    def nearer(measured: Callable[[Answer], float], low: float) -> float:
        """Return the largest load whose measure keeps the goal, as at `low` and unlike the next that was asked."""

        def beyond(load: float) -> float:
            return measured(asked(load)) - goal.seconds if load > 0.0 else -math.inf

        def leave(load: float) -> float:
            return max(1.0, NEAR * load) if asked(load).is_simulated else 1.0

        above = sorted(load for load in answers if load > low)
        if not above:
            return low
        if users:
            return last_within(beyond, low, above[0], further=above[1] if above[1:] else None, leave=leave)
        return nearly_last_within(beyond, low, above[0], NEAR)

    def largest(measured: Callable[[Answer], float]) -> float:
        """Return the largest load whose measure keeps the goal, between those that were asked."""
        return nearer(measured, max((load for load, a in answers.items() if measured(a) <= goal.seconds), default=0.0))

    # What loses requests may keep a goal at any load, and takes the longer to simulate the more it loses.
    loses = any(station.when_full == "lose" for station in network.stations)
    most_load = MOST_LOSING * load_of(network) if loses else MOST_LOAD
    while high <= most_load and asked(high).met:
        low, high = high, 2.0 * high
    if high > most_load or (loses and asked(high).has == math.inf):
        raise UsageError(
            f"every load up to {low:.3g} keeps the goal: nothing is ever full, or what finds no room is lost; give the "
            "stations demands, or ask for the share lost at one load"
        )
    if not users and low == 0.0:
        least = high / 1024.0
        while high > least and not asked(high / 2.0).met:
            high /= 2.0
        low = high / 2.0
        if high <= least:
            raise UsageError(f"even hardly any load misses the goal: {asked(low).has:.4g} s; make services faster")
    low = nearer(lambda answer: answer.has, low)
    beyond = min((load for load, answer in answers.items() if load > low and not answer.met))
    if low < 1.0 and users:
        raise UsageError(f"even one user misses the goal: {asked(beyond).has:.4g} s; make services faster")
    at = asked(low)
    found = {"load": low, "measured": at.has, "beyond": asked(beyond).has, "by": at.by}
    if at.is_simulated:
        found["load_low"] = largest(lambda answer: answer.high)
        found["load_high"] = largest(lambda answer: answer.low)
    return found


def cheapest(
    network: Network,
    goal: Goal,
    cost: Mapping[str, float],
    up_to: int = 16,
    solver: str = "auto",
    progress: Show = lambda *_: None,
) -> list[dict[str, Any]]:
    """Return the numbers of servers that keep a goal, the cheapest first.

    Parameters
    ----------
    network : Network
        The model, at the load that is to be borne.
    goal : Goal
        What response times must keep.
    cost : mapping of str to float
        Cost of one server, by station; others stay as they are.
    up_to : int
        Most servers of a station.
    solver : str
        Solver; ``"auto"`` is exact where it can be.

    Returns
    -------
    list of dict
        ``servers`` by station, ``cost`` (of those that are added), ``measured`` (seconds), ``certain`` (see `forecast`)
        and ``by`` (see `most`), at most five. Choices that only add to a cheaper one are left out.

    Raises
    ------
    UsageError
        For stations that are not there or have no servers, too many choices, or when nothing helps.
    """
    known = {s.name: s for s in network.stations}
    for name, price in cost.items():
        if name not in known:
            raise UsageError(f"there is no station {name!r}; choose one of {', '.join(known)}")
        if known[name].kind != "queue" or not (math.isfinite(price) and price >= 0.0):
            raise UsageError(f"station {name!r} at {price:g} a server: give a queue, and a cost of zero or more")
    names = list(cost)
    ranges = [range(known[n].servers, max(up_to, known[n].servers) + 1) for n in names]
    if math.prod(len(r) for r in ranges) > MOST_CHOICES or not names:
        raise UsageError(f"1 to {MOST_CHOICES:,} choices can be tried; name fewer stations, or a lower --up-to")
    added = [
        (sum(cost[n] * (count - known[n].servers) for n, count in zip(names, counts, strict=True)), counts)
        for counts in product(*ranges)
    ]
    found: list[dict[str, Any]] = []
    failed: list[tuple[int, ...]] = []
    best = math.inf
    for at, (price, counts) in enumerate(sorted(added)):
        more = any(all(a >= b for a, b in zip(counts, f["counts"], strict=True)) for f in found)
        less = any(all(a <= b for a, b in zip(counts, bad, strict=True)) for bad in failed)
        if more or less or len(found) == 5:
            continue
        chosen = dict(zip(names, counts, strict=True))
        progress(f"trying {len(added):,} choices", at / len(added))
        answer = goal.answer(_with_servers(network, chosen), solver)
        best = min(best, answer.has)
        if answer.met:
            what = {"servers": chosen, "cost": price, "counts": counts}
            found.append({**what, "measured": answer.has, "certain": answer.certain, "by": answer.by})
        else:
            failed.append(counts)
    if not found:
        raise UsageError(
            f"with up to {up_to} servers at {', '.join(names)} the best is {best:.4g} s; "
            "name other stations too, a larger --up-to, or a lower load"
        )
    return [{key: value for key, value in f.items() if key != "counts"} for f in found]


def _with_servers(network: Network, servers: Mapping[str, int]) -> Network:
    changed = [replace(s, servers=servers[s.name]) if s.name in servers else s for s in network.stations]
    return replace(network, stations=changed)


def forecast(
    network: Network, goal: Goal, growth: float, periods: int, solver: str = "auto", progress: Show = lambda *_: None
) -> list[dict[str, Any]]:
    """Return how a goal fares while the load grows.

    Parameters
    ----------
    network : Network
        The model at today's load.
    goal : Goal
        What response times must keep.
    growth : float
        Growth per period, as a share: 0.05 is 5 %.
    periods : int
        How many, after today.
    solver : str
        Solver; ``"auto"`` is exact where it can be.

    Returns
    -------
    list of dict
        ``period`` (0 is today), ``load``, ``measured`` (seconds; infinite where the load cannot be borne), ``met``,
        ``certain`` (whether all of its interval says so) and ``by`` (see `most`).

    Raises
    ------
    UsageError
        For growth or periods that are none.
    """
    if not (-1.0 < growth <= 10.0 and 1 <= periods <= 600):
        raise UsageError(
            f"growth of {100 * growth:.4g} % over {periods} periods: give above -100 % and at most 1000 %, and 1 to "
            "600 periods"
        )
    rows: list[dict[str, Any]] = []
    for period in range(periods + 1):
        progress(f"solving period {period}", period / (periods + 1))
        then = with_load(network, load_of(network) * (1.0 + growth) ** period)
        answer = goal.answer(then, solver)
        judged = {"measured": answer.has, "met": answer.met, "certain": answer.certain, "by": answer.by}
        rows.append({"period": period, "load": load_of(then), **judged})
        if not math.isfinite(answer.has):
            break
    return rows


def predict(
    network: Network,
    loads: Sequence[float],
    fitted: Fit | None = None,
    solver: str = "auto",
    seed: int = 1,
    progress: Show = lambda *_: None,
) -> Columns:
    """Solve at several loads, with bands where demands were measured.

    Parameters
    ----------
    network : Network
        The model.
    loads : sequence of float
        Users, or requests per second; ascending.
    fitted : Fit, optional
        Estimates of its demands with their intervals.
    solver : str
        Solver; without bands ``"auto"`` is exact where it can be.
    seed : int
        Of the draws.

    Returns
    -------
    dict of list
        Columns ``load, throughput, response, throughput_low, throughput_high, response_low, response_high,
        utilization`` (of the busiest station or pool), ``solver`` and ``by`` (see `most`); ends of bands are None
        without intervals. They end before the first load that saturates the model.

    Raises
    ------
    Saturated
        When the first load does.
    """
    keys = ("load", "throughput", "response", "throughput_low", "throughput_high", "response_low", "response_high")
    columns: Columns = {key: [] for key in (*keys, "utilization", "solver", "by")}
    drawn = _drawn(network, fitted, seed) if fitted is not None else []
    for at, load in enumerate(loads):
        progress(f"solving at {load:.6g}", at / len(loads))
        try:
            solution = solve(with_load(network, load), solver)
        except Saturated:
            if not columns["load"]:
                raise
            break
        if drawn and solution.solver == "simulation":
            raise UsageError("bands need hundreds of solutions, and this model is simulated; name another --solver")
        pairs = []
        for other in drawn:
            try:
                answer = solve(with_load(other, load), solution.solver)
            except Saturated:
                # No steady state: every response time is exceeded, and what comes is not all served.
                pairs.append((solution.throughput, math.inf))
                continue
            pairs.append((answer.throughput, answer.response))
        row: dict[str, Any] = {"load": load, "throughput": solution.throughput, "response": solution.response}
        for which, key in enumerate(("throughput", "response")):
            values = sorted(pair[which] for pair in pairs)
            cut = len(values) // 40
            row[f"{key}_low"], row[f"{key}_high"] = (values[cut], values[-1 - cut]) if values else (None, None)
        row |= {"utilization": solution.busiest, "solver": solution.solver, "by": solution.by}
        for key, value in row.items():
            columns[key].append(value)
    return columns


def _drawn(network: Network, fitted: Fit, seed: int) -> list[Network]:
    """Return networks with demands drawn from their intervals, independently, above zero.

    Either side of an estimate is half of a normal distribution, as wide as the interval is on that side: it is wider
    below where the samples do not rule out work beside requests.
    """
    import numpy as np

    if any(c.phases for c in network.classes) or network.routes or network.pools:
        raise UsageError("bands are for models with demands; this one has routes or pools: leave the measurements out")
    spread: dict[tuple[str, str], tuple[float, float]] = {
        (d["station"], d["class"]): ((d["demand"] - d["low"]) / 1.96, (d["high"] - d["demand"]) / 1.96)
        for d in fitted.data["demands"]
        if d["low"] is not None and d["high"] is not None
    }
    names = [c.name for c in network.classes]
    draw = np.random.default_rng(seed)

    def moved(station: str, name: str, demand: float) -> float:
        below, above = spread.get((station, name), (0.0, 0.0))
        by = float(draw.standard_normal())
        return max(1e-9, demand + by * (below if by < 0.0 else above))

    def changed(station: Station) -> Station:
        demands = station.demand if isinstance(station.demand, Mapping) else dict.fromkeys(names, station.demand)
        drawn = {name: moved(station.name, name, demand) for name, demand in demands.items() if demand > 0.0}
        return replace(station, demand=drawn)

    return [replace(network, stations=[changed(s) for s in network.stations]) for _ in range(DRAWS)]
