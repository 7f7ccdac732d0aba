"""Queueing-network models: build, solve, bound, fit, allocate and question them.

Times are seconds and rates are per second throughout; in TOML files times carry units.
"""

from servsim.model.network import Closed, Fork, Network, Open, Pool, Route, Station
from servsim.model.plot import plot
from servsim.model.prometheus import prometheus_measurements
from servsim.model.results import Allocation, Fit, Sensitivity, Solution
from servsim.model.solving import (
    allocate,
    bounds,
    curve,
    fit,
    sensitivity,
    solve,
    solvers,
    sweep,
    what_if,
)

__all__ = [
    "Allocation",
    "Closed",
    "Fit",
    "Fork",
    "Network",
    "Open",
    "Pool",
    "Route",
    "Sensitivity",
    "Solution",
    "Station",
    "allocate",
    "bounds",
    "curve",
    "fit",
    "plot",
    "prometheus_measurements",
    "sensitivity",
    "solve",
    "solvers",
    "sweep",
    "what_if",
]
