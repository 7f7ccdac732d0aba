"""Disk models from block traces: import, fit, evaluate, simulate, reorganise, capture.

Thin functions over the native module: they take paths and options, return dictionaries (the same
ones the command line prints with ``--json``) and numpy arrays. Units are in the names.

Examples
--------
>>> from servsim import disk
>>> "forest" in [kind["name"] for kind in disk.catalogue()["models"]]
True
"""

from servsim.disk.api import (
    Source,
    catalogue,
    evaluate,
    fit,
    import_trace,
    info,
    load,
    reorganize,
)
from servsim.disk.running import Simulation, simulate, sweep

__all__ = [
    "Simulation",
    "Source",
    "catalogue",
    "evaluate",
    "fit",
    "import_trace",
    "info",
    "load",
    "reorganize",
    "simulate",
    "sweep",
]
