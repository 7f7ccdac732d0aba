"""Reading `literal`: Equations 3.1-3.10 as printed, by the paper's single-class iteration.

One repair: Equation 3.4 lacks V_CPU, without which it is no distribution. Figure 5 (the effective
service rates) is not in the paper, so processors are ideal: mu_k(j) = min(j, k) services per cycle.
The result saturates at 3.49 tpmC, a fourteenth of the printed values, because 433 disk visits of
12.7 ms each take 5.5 s per transaction.
"""

from __future__ import annotations

from itertools import product

from servsim.reproduce.du_2001 import data
from servsim.reproduce.du_2001.machine import REPRODUCTION_THINK_S, Machine, Outcome

_SECTOR_LINES = data.SECTOR_BYTES / data.LINE_BYTES
_CPU_MEMORY = (1.0 - data.HIT_RATE) * data.MEMORY_VISITS
_DISK_MEMORY = _SECTOR_LINES * data.DISK_VISITS


def solve(machine: Machine) -> Outcome:
    """Solve one machine for 48 terminals."""
    shares = machine.shares()
    model = _Model(machine, shares)
    for n in range(1, data.TERMINALS + 1):
        model.step(n)
    disks = [u for bus in model.disk_use for u in bus]
    return Outcome(data.TPMC * model.throughput, disks, model.bus_use, model.memory_bus_use)


class _Model:
    """State of the iteration: queues, utilisations and the processors' distribution."""

    def __init__(self, machine: Machine, shares: list[list[float]]) -> None:
        self.machine = machine
        self.shares = shares
        self.cycles = machine.service
        self.throughput = 0.0
        self.queue = [0.0, 0.0, 0.0]
        self.present = [1.0]
        self.memory_bus_use = 0.0
        self.bus_use = [0.0 for _ in shares]
        self.disk_use = [[0.0 for _ in bus] for bus in shares]

    def step(self, n: int) -> None:
        """One population step: Equations 3.2-3.9, Little's law, utilisations."""
        rate = [min(j, self.machine.processors) * data.CLOCK_HZ / data.CPU_VISITS for j in range(n + 1)]
        cpu = sum(j / rate[j] * self.present[j - 1] for j in range(1, n + 1))
        buses, disks = self.bus_demands(), self.disk_demands()
        demands = [self.memory_bus(), self.memory(), sum(buses) + self.disk_average(disks)]
        residence = [d * (1.0 + q) for d, q in zip(demands, self.queue, strict=True)]
        self.throughput = n / (REPRODUCTION_THINK_S + cpu + sum(residence))
        self.queue = [self.throughput * r for r in residence]
        busy = [self.throughput / rate[j] * self.present[j - 1] for j in range(1, n + 1)]
        self.present = [max(0.0, 1.0 - sum(busy)), *busy]
        self.memory_bus_use = self.throughput * demands[0]
        self.bus_use = [self.throughput * d for d in buses]
        self.disk_use = [[self.throughput * d for d in bus] for bus in disks]

    def memory_bus(self) -> float:
        """Equation 3.5, seconds."""
        both = self.cycles["memory_bus_request"] + self.cycles["memory_bus_reply"]
        return (_CPU_MEMORY + _DISK_MEMORY) * both / data.CLOCK_HZ

    def memory(self) -> float:
        """Equation 3.6, seconds."""
        half = (self.cycles["memory_bus_request"] + self.cycles["memory_bus_reply"]) / 2.0
        by_memory = self.memory_bus_use * _CPU_MEMORY / (_CPU_MEMORY + _DISK_MEMORY)
        contention = half * (self.memory_bus_use - by_memory) / (1.0 - self.memory_bus_use)
        return (_CPU_MEMORY + _DISK_MEMORY) * (self.cycles["memory"] + contention) / data.CLOCK_HZ

    def bus_demands(self) -> list[float]:
        """Equation 3.7, seconds per bus: a write holds its bus while the disk works."""
        c = self.cycles
        read = data.DISK_READS * (c["io_bus_request"] + c["io_bus_reply"])
        write = data.DISK_WRITES * (c["io_bus"] + c["seek"] + c["rotation"] + c["transfer"])
        return [sum(bus) * (read + write) / data.CLOCK_HZ for bus in self.shares]

    def disk_demands(self) -> list[list[float]]:
        """Equation 3.8 with its contention term, seconds per disk."""
        c = self.cycles
        mechanical = c["seek"] + c["rotation"] + c["transfer"]
        split = c["io_bus_request"] + c["io_bus_reply"]
        hold = (data.DISK_WRITES * c["io_bus"] + data.DISK_READS * split) / data.DISK_VISITS
        demands = []
        for bus, use in zip(self.shares, self.bus_use, strict=True):
            row = []
            for share in bus:
                own = use * share / sum(bus) if sum(bus) else 0.0
                contention = hold * (use - own) / (1.0 - use)
                read = data.DISK_READS * (mechanical + c["disk_cache"] + contention)
                row.append(share * (read + data.DISK_WRITES * mechanical) / data.CLOCK_HZ)
            demands.append(row)
        return demands

    def disk_average(self, demands: list[list[float]]) -> float:
        """Average over which disks are busy of the longest of them (section 3.2, unnormalised)."""
        pairs = [
            (min(u, 1.0), d)
            for use, row in zip(self.disk_use, demands, strict=True)
            for u, d in zip(use, row, strict=True)
        ]
        total = 0.0
        for busy in product((False, True), repeat=len(pairs)):
            probability, longest = 1.0, 0.0
            for is_busy, (u, d) in zip(busy, pairs, strict=True):
                probability *= u if is_busy else 1.0 - u
                longest = max(longest, d) if is_busy else longest
            total += probability * longest
        return total
