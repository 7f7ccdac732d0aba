"""Functions that answer questions about a network; each is one call into the compiled core."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from servsim import _core
from servsim.limits import LARGEST_COUNT, LARGEST_SEED, MANY, finite, whole
from servsim.model.network import Closed, Network
from servsim.model.results import Allocation, Columns, Fit, Sensitivity, Solution

#: Options that are whole numbers, with the least and the greatest value.
_NUMBERS = {"max_iterations": (1, MANY), "replications": (1, MANY), "seed": (0, LARGEST_SEED)}


def _options(**values: Any) -> str:
    """Return options as the native module reads them: JSON, which has no word for what is no number."""
    for name, value in values.items():
        if name in _NUMBERS:
            whole(name, value, *_NUMBERS[name])
        elif name == "percentiles":
            finite("a percentile", *value)
        elif name != "solver":
            finite(name, value)
        elif isinstance(value, str):
            values[name] = value.lower()
    return json.dumps({key: value for key, value in values.items() if value is not None})


def check(network: Network) -> None:
    """Say what is wrong with a network, without solving it.

    Raises
    ------
    UsageError
        For a description that is not understood or contradicts itself.
    """
    _core.model_describe(*network.source())


def solvers() -> list[dict[str, str]]:
    """Return the registry of solvers: ``name``, ``summary`` and ``nature`` of each."""
    return list(json.loads(_core.model_solvers()))


def solve(
    network: Network,
    solver: str = "auto",
    *,
    percentiles: Sequence[float] = (),
    tolerance: float | None = None,
    max_iterations: int | None = None,
    replications: int | None = None,
    requests: float | None = None,
    warmup: float | None = None,
    seed: int | None = None,
    half_width: float | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Solution:
    """Solve a network.

    Parameters
    ----------
    network : Network
        The model.
    solver : str
        A name from :func:`solvers`, or ``"auto"``: exact where possible.
    percentiles : sequence of float
        Response-time percentiles in per cent, from 1 to below 100; none by default. They are exact for one
        queueing station, with delays, and for open stations in a row, first come, first served. Other
        models are simulated for them, which takes up to some seconds.
    tolerance, max_iterations : optional
        When iterations stop; stopping without convergence is an error with the residual.
    replications, requests, warmup, seed, half_width : optional
        Simulation: independent replications (default 10), requests in each (20,000), warm-up as a
        share of the run (0.2), seed (1), and a relative half-width of the 95 % intervals to reach.
    progress : callable, optional
        Takes the requests in each replication and the share done, now and then while a model is simulated. What is
        simulated anew for longer begins at zero again.

    Returns
    -------
    Solution
        Means per class and station, percentiles, notes; intervals of what was simulated.

    Raises
    ------
    UsageError
        For a model that has no answer: the station and the remedy are named.
    CheckFailed
        When an iteration does not converge or an answer breaks a law and is withheld.

    Examples
    --------
    >>> from servsim.model import Closed, Network, Station, solve
    >>> solution = solve(Network([Closed("users", 2)], [Station("cpu", 1.0)]))
    >>> solution.throughput
    1.0
    """
    text, is_json = network.source()
    options = _options(
        solver=solver,
        percentiles=[float(p) for p in percentiles],
        tolerance=tolerance,
        max_iterations=max_iterations,
        replications=replications,
        requests=requests,
        warmup=warmup,
        seed=seed,
        half_width=half_width,
    )
    return Solution(json.loads(_core.model_solve(text, is_json, options, progress)))


def bounds(network: Network) -> list[dict[str, Any]]:
    """Return asymptotic and balanced-job bounds per class, without solving.

    Returns
    -------
    list of dict
        ``name``, ``throughput`` and ``balanced`` (``low``, ``high`` per second; ``balanced`` is None for several or
        open classes, and beside pools and forks), ``response`` (seconds), ``bottleneck`` (a station or a pool),
        ``knee`` (customers).

    Raises
    ------
    UsageError
        For stations of finite capacity, and where open load exceeds a station.
    """
    return list(json.loads(_core.model_bounds(*network.source())))


def curve(network: Network, populations: Sequence[int], solver: str = "auto") -> Columns:
    """Solve at several populations (classes keep their proportions).

    Returns
    -------
    dict of list
        Columns ``population, throughput, response, low, high, solver``; ``low`` and ``high`` bound the
        throughput and are None for several classes. Between populations at which all classes have
        whole customers in proportion, several classes are interpolated. Nobody has no response time: None.

    Raises
    ------
    UsageError
        For a model without customers, whose proportions could be kept.
    """
    for number in populations:
        whole("population", number, 0, LARGEST_COUNT)
    closed = [c for c in network.classes if isinstance(c, Closed)]
    if len(closed) > 1 and sum(c.population for c in closed) > 0:
        points = [_between(network, closed, total, solver) for total in populations]
    else:
        points = _points(network, list(populations), solver)
    keys = ("population", "throughput", "response", "low", "high", "solver")
    return {key: [p[key] for p in points] for key in keys}


def _points(network: Network, populations: list[int], solver: str) -> list[dict[str, Any]]:
    text, is_json = network.source()
    return list(json.loads(_core.model_curve(text, is_json, _options(solver=solver), populations)))


def _between(network: Network, closed: Sequence[Closed], total: int, solver: str) -> dict[str, Any]:
    """Return a point of several classes in proportion, interpolated linearly in the simplex of whole customers around.

    Rounding each class by itself would make a curve of teeth: the mix would change from point to point.
    """
    whole = sum(c.population for c in closed)
    exact = [c.population * total / whole for c in closed]
    counts = [int(x + 1e-9) for x in exact]
    parts = [max(0.0, x - n) for x, n in zip(exact, counts, strict=True)]
    order = sorted(range(len(closed)), key=lambda i: -parts[i])
    levels = [1.0, *(parts[i] for i in order), 0.0]
    found: list[tuple[float, dict[str, Any]]] = []
    for step in range(len(order) + 1):
        if step:
            counts[order[step - 1]] += 1
        weight = levels[step] - levels[step + 1]
        if weight > 1e-9 and sum(counts) > 0:
            named = {c.name: n for c, n in zip(closed, counts, strict=True)}
            classes = [replace(c, population=named[c.name]) if isinstance(c, Closed) else c for c in network.classes]
            found.append((weight, _points(replace(network, classes=classes), [sum(counts)], solver)[0]))
    all_weights = sum(weight for weight, _ in found)
    if not found:
        nothing = {"throughput": 0.0, "response": None, "low": None, "high": None, "solver": None}
        return {"population": total, **nothing}
    mixed = {
        "throughput": sum(weight * point["throughput"] for weight, point in found),
        "response": sum(weight * point["response"] for weight, point in found) / all_weights,
    }
    return {"population": total, **mixed, "low": None, "high": None, "solver": found[0][1]["solver"]}


def sensitivity(network: Network) -> Sensitivity:
    """Return exact elasticities and derivatives of a closed product-form network.

    Raises
    ------
    UsageError
        For open classes, and for what has no product form: pools, forks, priorities, weights, capacities, and service
        in turn with unequal or not exponential times.
    """
    text, is_json = network.source()
    return Sensitivity(json.loads(_core.model_sensitivity(text, is_json, "{}")))


def what_if(network: Network, solver: str = "auto") -> list[dict[str, Any]]:
    """Solve every ``[[what_if]]`` of a TOML model; the largest gain in throughput first.

    Returns
    -------
    list of dict
        ``name, throughput, response, gain, cost, gain_per_cost``; ``solver`` and ``accuracy`` of throughput and
        response; ``gain_interval`` where it is simulated.
    """
    text, is_json = network.source()
    return list(json.loads(_core.model_what_if(text, is_json, _options(solver=solver))))


def allocate(text: str, *, is_json: bool = False) -> Allocation:
    """Find the best allocation of tables to disks on buses.

    Parameters
    ----------
    text : str
        The problem (TOML, or JSON in seconds): ``population``, ``think``, ``disks_per_bus``,
        ``disk_demand``, ``bus_demand``, ``[[table]]`` with ``share``, ``[[station]]``, ``[[compare]]``.

    Returns
    -------
    Allocation
        Exact for small problems (``gap`` 0), else with the gap to a bound.
    """
    return Allocation(json.loads(_core.model_allocate(text, is_json)))


def fit(
    text: str, method: str = "nnls", *, drift: float = 0.02, measurement: float = 0.05, is_json: bool = False
) -> Fit:
    """Estimate service demands from measured throughputs and utilisations.

    Parameters
    ----------
    text : str
        Measurements (TOML or JSON): ``classes``, ``stations``, ``[[sample]]`` with ``throughput``
        (per second, per class) and ``utilization`` (fraction, per station).
    method : {"nnls", "kalman"}
        Constant demands by non-negative least squares, or drifting ones by a Kalman filter.
    drift, measurement : float
        Relative standard deviations that the Kalman filter assumes per sample.

    Returns
    -------
    Fit
        Demands with 95 % intervals; those that cannot be identified are None, with the reason.

    Raises
    ------
    UsageError
        For measurements that no system can give, or an assumed deviation that is no number from 0.
    """
    finite("drift", drift)
    finite("noise", measurement)
    return Fit(json.loads(_core.model_fit(text, is_json, method, drift, measurement)))


def sweep(demands: Sequence[Sequence[float]], think: Sequence[float], population: Sequence[int]) -> list[float]:
    """Throughputs of many one-class networks of single servers, exactly (a microsecond or so each).

    Parameters
    ----------
    demands : sequence of sequence of float
        Service demands in seconds, one row per model.
    think, population : sequence
        Think time in seconds and customers, one per model.

    Raises
    ------
    UsageError
        For a number of customers that is not whole, or beyond a million: the time taken grows with it.
    """
    for number in population:
        whole("population", number, 0, MANY)
    return _core.model_sweep([list(row) for row in demands], list(think), list(population))
