"""Commercial workloads, run natively: each a folder, by whose scripts it runs; a few have a module besides.

A workload runs real servers natively on this host; its client also runs inside the emulated guest.
"""

from importlib import import_module
from pathlib import Path

from servsim.errors import UsageError
from servsim.workloads.base import Request, Workload

__all__ = ["REGISTRY", "Request", "Workload", "find", "names"]

#: Workloads whose native runs are more than the scripts of their folder: name and class, as ``module:class``.
REGISTRY: dict[str, str] = {
    "javaserver": "servsim.workloads.javaserver:JavaServer",
    "oltp": "servsim.workloads.oltp:Oltp",
}


def names() -> list[str]:
    """Return the names of the workloads that ship: the folders, and those with a module."""
    from servsim.capture.folder import place

    here = place()
    folders = [path.name for path in here.iterdir() if path.is_dir()] if here is not None and here.is_dir() else []
    return sorted({*REGISTRY, *folders})


def find(name: str) -> Workload:
    """Return the workload of a name or of a folder, or say which names there are."""
    if name in REGISTRY:
        module, _, attribute = REGISTRY[name].partition(":")
        workload: Workload = getattr(import_module(module), attribute)()
        return workload
    from servsim.capture.folder import read, shipped
    from servsim.workloads.native import FolderWorkload

    if name in names():
        return FolderWorkload(read(shipped(name)))
    if Path(name).is_dir():
        return FolderWorkload(read(Path(name).absolute()))
    known = ", ".join(names())
    raise UsageError(f"there is no workload '{name}'; known: {known}; or name the folder of one (docs/workloads.md)")
