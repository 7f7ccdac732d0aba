"""Simulate a real commercial workload on a multiprocessor server that exists only as a description."""

from typing import TYPE_CHECKING, Any

from servsim._core import __version__

if TYPE_CHECKING:
    from servsim.api import Machine, Trace, compare, load, simulate
    from servsim.result import Result

__all__ = ["Machine", "Result", "Trace", "__version__", "compare", "load", "simulate"]


def __getattr__(name: str) -> Any:
    """Load the objects when they are first asked for, so that the command line starts quickly."""
    if name not in __all__:
        raise AttributeError(f"module 'servsim' has no attribute {name!r}")
    from servsim import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
