"""How much room on the cache's disk the guest takes, and how much memory, known before anything is begun.

Measured at the default scale with Debian 12: 1,490 MiB at the peak of a build from nothing (packages, the archive of
their tree, the tree itself and the file system made of it), 1,010 MiB after it, and 400 MiB for a checkpoint.
"""

import re
import shutil
from pathlib import Path

from servsim.capture.folder_settings import FolderSettings
from servsim.errors import EnvironmentProblem

MIB = 1 << 20
#: What the kernel says of memory.
MEMINFO = Path("/proc/meminfo")
#: Downloaded packages and the archive of their tree, and what making it takes beside it for a while.
_BASE = 480 * MIB
#: The tree that becomes the image, and the image, without the workload's data, which lie in both.
_IMAGE = 780 * MIB
#: What a guest wrote to its disk until its checkpoint, and the part of its memory that is in use then.
_OVERLAY, _MEMORY_IN_USE = 64 * MIB, 0.4
#: Bytes of a trace per transaction; those of the default load take 270,000.
_PER_TRANSACTION = 400_000
#: Room demanded beyond what is known.
_MARGIN = 1.15


def for_image(settings: FolderSettings, *, base_is_cached: bool) -> int:
    """Return the bytes that building an image takes at its peak."""
    base = 0 if base_is_cached else _BASE
    return int(_MARGIN * (base + _IMAGE + 2 * settings.data_bytes()))


def for_checkpoint(settings: FolderSettings) -> int:
    """Return the bytes that a checkpoint takes."""
    return int(_MARGIN * (_OVERLAY + _MEMORY_IN_USE * settings.memory_mib * MIB))


def for_trace(transactions: int) -> int:
    """Return the bytes that a trace may take; statements sent one by one make it larger."""
    return transactions * _PER_TRANSACTION


def for_everything(settings: FolderSettings, cached: set[str]) -> int:
    """Return the bytes that are still needed until a capture can begin, given the kinds of parts that are cached."""
    if "checkpoint" in cached:
        return 0
    checkpoint = for_checkpoint(settings)
    if "image" in cached:
        return checkpoint
    # The tree is gone by the time the checkpoint is made, and it is larger than the checkpoint.
    return max(checkpoint, for_image(settings, base_is_cached="base" in cached))


def demand(folder: Path, needed: int, what: str, remedy: str = "or set SERVSIM_CACHE to a folder with more") -> None:
    """Refuse to begin what cannot end.

    Parameters
    ----------
    folder
        Where it will be written.
    needed
        Bytes, as the functions above return them.
    what, remedy
        The job and the way out, for the message.

    Raises
    ------
    EnvironmentProblem
        When the disk has less free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise EnvironmentProblem(
            f"{what} needs {text(needed)} in {folder}, which has {text(free)} free: free some room, {remedy}"
        )


def demand_memory(needed: int) -> None:
    """Refuse to start a guest that this host's memory cannot hold.

    Parameters
    ----------
    needed
        Bytes of the guest's memory.

    Raises
    ------
    EnvironmentProblem
        When the kernel has less to give; a kernel that does not say is believed to have enough.
    """
    found = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.M)
    free = int(found[1]) << 10 if found else needed
    if free < needed:
        raise EnvironmentProblem(
            f"the guest needs {text(needed)} of memory, and this host has {text(free)} available: end other programs, "
            "or give the guest less with --set memory_mib=N"
        )


def text(size: int) -> str:
    """Write a size for people.

    Examples
    --------
    >>> text(300 << 20), text(1700 << 20)
    ('300 MiB', '1.7 GiB')
    """
    return f"{size / MIB:,.0f} MiB" if size < 1000 * MIB else f"{size / (1 << 30):.1f} GiB"
