"""Partitions of this Linux host while it runs: whole nodes set apart for some processes, moved, and taken back.

What is in no partition is the *rest*, where the kernel lives and which keeps the machine's first node. The work is done
by ``servsim-rset`` through control groups (cgroup v2); it needs the privileges of an administrator. Each step is noted
before it is done in a journal, from which :func:`undo` takes back what was done and nothing else.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from servsim import _core
from servsim.rset import ResourceSet

#: The machine's journal; it goes with the partitions when the machine starts again.
JOURNAL = Path(_core.RSET_JOURNAL)
#: The partition of everything that is in no other.
REST = "rest"


@dataclass(frozen=True)
class Partition:
    """A partition as the kernel has it.

    Attributes
    ----------
    resources
        The processors that it has to itself, and the nodes in which its processes' memory lies.
    processes
        Their numbers.
    processor_time_s
        Seconds of processor time that its processes used since it was made, those that ended included.
    """

    resources: ResourceSet
    processes: tuple[int, ...]
    processor_time_s: float = 0.0


@dataclass(frozen=True)
class Change:
    """What was, or would be, done.

    Attributes
    ----------
    steps
        A sentence each, in order.
    pages_left
        Pages that the kernel would not move: others use them, or they are locked in their place.
    """

    steps: tuple[str, ...]
    pages_left: int = 0


def present() -> dict[str, Partition]:
    """Return the partitions that are there, by name.

    Raises
    ------
    EnvironmentProblem
        When the kernel offers no control groups that govern processors and nodes.
    """
    return {
        name: Partition(
            ResourceSet(frozenset(part["set"]["processors"]), frozenset(part["set"]["nodes"])),
            tuple(part["processes"]),
            part["processor_time_us"] / 1e6,
        )
        for name, part in json.loads(_core.rset_partitions()).items()
    }


def create(wanted: Mapping[str, Iterable[int]], *, dry_run: bool = False) -> Change:
    """Set nodes apart under names.

    Parameters
    ----------
    wanted
        Nodes by the partition's name: small letters, digits and ``-``.
    dry_run
        Return the steps without doing them.

    Raises
    ------
    UsageError
        When a name or a node cannot be had.
    EnvironmentProblem
        When the kernel or its privileges refuse.
    """
    nodes = {name: sorted(held) for name, held in wanted.items()}
    return _change(_core.rset_partition_create(nodes, str(JOURNAL), dry_run))


def move(node: int, origin: str, to: str, *, dry_run: bool = False) -> Change:
    """Move a node from one partition to another (either may be ``rest``); the memory of those who leave it goes along.

    Raises
    ------
    UsageError, EnvironmentProblem
        As for :func:`create`.
    """
    return _change(_core.rset_partition_move(node, origin, to, str(JOURNAL), dry_run))


def adopt(process: int, name: str, *, dry_run: bool = False) -> Change:
    """Put a process, with all its threads and its memory, into a partition, or with ``rest`` out of all.

    Raises
    ------
    UsageError, EnvironmentProblem
        As for :func:`create`.
    """
    return _change(_core.rset_partition_adopt(process, name, str(JOURNAL), dry_run))


def _change(outcome: tuple[list[str], int]) -> Change:
    steps, left = outcome
    return Change(tuple(steps), left)


def undo() -> Change:
    """Take back everything that was done here since the last time, also before a crash.

    Raises
    ------
    EnvironmentProblem
        As for :func:`create`.
    """
    return Change(tuple(_core.rset_partition_undo(str(JOURNAL))))


@contextlib.contextmanager
def partitioned(wanted: Mapping[str, Iterable[int]]) -> Iterator[dict[str, Partition]]:
    """Set nodes apart for the duration of a ``with`` block.

    Raises
    ------
    UsageError, EnvironmentProblem
        As for :func:`create`.
    """
    try:
        create(wanted)
        yield present()
    finally:
        undo()
