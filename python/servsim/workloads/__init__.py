"""Commercial workloads, run natively: a module for each, one line here, and a driver.

A workload runs real servers natively on this host; its driver also runs inside the emulated guest.
"""

from importlib import import_module

from servsim.errors import UsageError
from servsim.workloads.base import Request, Workload

__all__ = ["REGISTRY", "Request", "Workload", "find"]

#: Name on the command line and the class that implements it, as ``module:class``.
REGISTRY: dict[str, str] = {
    "javaserver": "servsim.workloads.javaserver:JavaServer",
    "kernels": "servsim.workloads.kernels:Kernels",
    "oltp": "servsim.workloads.oltp:Oltp",
}


def find(name: str) -> Workload:
    """Return the workload called ``name``, or say which names there are."""
    if name not in REGISTRY:
        raise UsageError(f"there is no workload '{name}'; known: {', '.join(sorted(REGISTRY))}")
    module, _, attribute = REGISTRY[name].partition(":")
    workload: Workload = getattr(import_module(module), attribute)()
    return workload
