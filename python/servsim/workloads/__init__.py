"""Commercial workloads, run natively: each a folder, by whose scripts it runs.

A workload runs real servers natively on this host; its client also runs inside the emulated guest.
"""

from servsim.workloads.base import Request, Workload

__all__ = ["Request", "Workload", "find"]


def find(name: str) -> Workload:
    """Return the workload of a name or of a folder, or say which names there are."""
    from servsim.capture import folder
    from servsim.workloads.native import FolderWorkload

    return FolderWorkload(folder.find(name))
