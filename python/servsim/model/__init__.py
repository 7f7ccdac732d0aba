"""Queueing-network models: build, solve, bound, fit, allocate and question them.

Times are seconds and rates are per second throughout; in TOML files times carry units.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from servsim.model.network import Closed, Fork, Network, Open, Pool, Route, Station
    from servsim.model.plots import plot
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

#: Where the objects are: each module is loaded when the first of its own is asked for, so that commands start quickly.
_MODULES = {
    "network": ("Closed", "Fork", "Network", "Open", "Pool", "Route", "Station"),
    "plots": ("plot",),
    "prometheus": ("prometheus_measurements",),
    "results": ("Allocation", "Fit", "Sensitivity", "Solution"),
}


def __getattr__(name: str) -> Any:
    """Load an object when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'servsim.model' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "solving")
    found = globals()[name] = getattr(import_module(f"servsim.model.{module}"), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
