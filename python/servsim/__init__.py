"""Simulate a real commercial workload on a multiprocessor server that exists only as a description."""

from servsim._core import __version__

__all__ = ["__version__"]
