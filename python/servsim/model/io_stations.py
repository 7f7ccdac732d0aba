"""Disks on I/O buses as stations of a queueing model, after Du et al. 2001, Equations 3.7 and 3.8 (ADR 0606).

A disk that waits for its bus serves nobody meanwhile, so what others do on the bus makes its service
longer; they add that time to the disk's demand ("Contention"), and so does this. A write that holds the
bus is with its disk; on the bus it keeps others from it, but it is no customer there: one request is in
one place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Requests:
    """Disk requests of one direction.

    Attributes
    ----------
    count
        Per transaction.
    mechanism_s
        Positioning and passage of the medium per transaction, seconds.
    shares
        Share of each table or other name; they add up to 1.
    """

    count: float
    mechanism_s: float
    shares: dict[str, float]


@dataclass(frozen=True)
class IoWork:
    """Work of one transaction by disk.

    Attributes
    ----------
    at_disk, on_bus
        Seconds of positioning and the medium, and of commands and data on the bus.
    held
        Seconds that the bus is taken: the latter, and positioning that holds it.
    reads, writes
        Requests.
    bus_of
        Number of the disk's bus, from 0.
    """

    at_disk: tuple[float, ...]
    on_bus: tuple[float, ...]
    held: tuple[float, ...]
    reads: tuple[float, ...]
    writes: tuple[float, ...]
    bus_of: tuple[int, ...]

    def stations(self, throughput: float = 0.0) -> dict[str, float] | None:
        """Return seconds per transaction by name of the station, at so many transactions per second.

        None when a bus or a disk cannot serve so many.
        """
        disks = range(len(self.at_disk))
        taken, moved = dict.fromkeys(sorted(set(self.bus_of)), 0.0), dict.fromkeys(sorted(set(self.bus_of)), 0.0)
        for disk, bus in enumerate(self.bus_of):
            taken[bus] += self.held[disk]
            moved[bus] += self.on_bus[disk]
        if any(seconds * throughput >= 1.0 for seconds in taken.values()):
            return None
        found = {f"disk {disk + 1}": self.at_disk[disk] + self._contention(disk, throughput) for disk in disks}
        found |= {f"I/O bus {bus + 1}": seconds for bus, seconds in moved.items()}
        return found if all(seconds * throughput < 1.0 for seconds in found.values()) else None

    def _contention(self, disk: int, throughput: float) -> float:
        """Return seconds per transaction that requests keep the disk while others have its bus.

        *Transfers* are short: mean tenure times (U - U(own)) / (1 - U), as in the paper, for each time that
        a request takes the bus: a read twice, for its command and for its data, a write once. *Writes that
        hold the bus* take it for longer than others position. A disk whose bus is held is stopped at its
        next command or data, so it gets on only while the bus is not held: its time is divided by the share
        of the time in which no other disk holds the bus, as a completion time under interruptions.
        """
        sharing = [other for other, bus in enumerate(self.bus_of) if bus == self.bus_of[disk]]
        others = [other for other in sharing if other != disk]
        stopped = throughput * sum(self.held[other] - self.on_bus[other] for other in others)
        if stopped >= 1.0:
            return math.inf
        tenures = sum(2.0 * self.reads[other] + self.writes[other] for other in sharing)
        if not tenures:
            return 0.0
        moved = sum(self.on_bus[other] for other in sharing)
        wait = moved / tenures * throughput * (moved - self.on_bus[disk]) / (1.0 - throughput * moved)
        taken = (2.0 * self.reads[disk] + self.writes[disk]) * wait
        return (self.at_disk[disk] + taken) / (1.0 - stopped) - self.at_disk[disk]


def io_work(
    reads: tuple[Requests, Sequence[float]],
    writes: tuple[Requests, Sequence[float]],
    transfer_s: float,
    write_holds: bool,
    buses: int,
) -> IoWork:
    """Return the work of a transaction by disk.

    Parameters
    ----------
    reads, writes
        Requests, and the share of them at each disk.
    transfer_s
        Commands and data on buses, seconds per transaction, in proportion to requests.
    write_holds
        Whether writes hold their bus while they are positioned.
    buses
        Number of buses; neighbouring disks share one.
    """
    disks = len(reads[1])
    requests = (reads[0].count + writes[0].count) or 1.0
    of_reads = tuple(reads[0].count * share for share in reads[1])
    of_writes = tuple(writes[0].count * share for share in writes[1])
    positions = [writes[0].mechanism_s * share for share in writes[1]]
    moved = [transfer_s * (r + w) / requests for r, w in zip(of_reads, of_writes, strict=True)]
    return IoWork(
        tuple(reads[0].mechanism_s * share + p for share, p in zip(reads[1], positions, strict=True)),
        tuple(moved),
        tuple(m + p * write_holds for m, p in zip(moved, positions, strict=True)),
        of_reads,
        of_writes,
        tuple(disk * buses // disks for disk in range(disks)),
    )
