"""Reading `blocked`: the recommended interpretation, solved exactly.

Stations in series: processors, memory path, every I/O bus, every disk. The disk counts of Table 6 are
sectors of 256 bytes, and one seek and rotation serves a block of 20 of them (fitted to the disk
utilisation of Table 12); a cache miss holds memory and bus together (chosen because it matches Table
12); a write holds its bus while the disk works (Equation 3.7). Figure 5 is missing, so the processors'
rates are calibrated on Table 10, one number per row: those four cells prove nothing.

This reading is bound by the processors at two of them. It therefore flattens Table 17 to 47.3-47.4
tpmC and erases the paper's headline that I/O buses matter most.
"""

from __future__ import annotations

from functools import cache

from servsim.model import Closed, Network, Solution, Station, sensitivity, solve
from servsim.reproduce.du_2001 import data
from servsim.reproduce.du_2001.machine import REPRODUCTION_THINK_S, Machine, Outcome, configuration

#: Sectors per positioning of the disk arm, fitted to the disk utilisation of C2 in Table 12.
BLOCK_SECTORS = 20.0


def demands(machine: Machine) -> dict[str, float]:
    """Service demand in seconds per station, without the processors."""
    c = machine.service
    lines = (1.0 - data.HIT_RATE) * data.MEMORY_VISITS
    lines += data.SECTOR_BYTES / data.LINE_BYTES * data.DISK_VISITS
    path = c["memory"] + c["memory_bus_request"] + c["memory_bus_reply"]
    position = c["seek"] + c["rotation"]
    disk = data.DISK_VISITS / BLOCK_SECTORS * position + data.DISK_VISITS * c["transfer"]
    write = data.DISK_WRITES / BLOCK_SECTORS * position + data.DISK_WRITES * (c["io_bus"] + c["transfer"])
    bus = data.DISK_READS * (c["io_bus_request"] + c["io_bus_reply"]) + write
    result = {"memory": lines * path / data.CLOCK_HZ}
    for i, shares in enumerate(machine.shares(), start=1):
        result[f"bus {i}"] = sum(shares) * bus / data.CLOCK_HZ
        for j, share in enumerate(shares, start=1):
            result[f"disk {i}.{j}"] = share * disk / data.CLOCK_HZ
    return result


def network(machine: Machine, rates: tuple[float, ...], think_s: float = REPRODUCTION_THINK_S) -> Network:
    """Return the network; ``rates`` are transactions per second with 1, 2, ... at the processors."""
    stations = [Station("cpu", 1.0, kind="rates", rates=rates)]
    stations += [Station(name, d) for name, d in demands(machine).items() if d > 0.0]
    return Network([Closed("terminals", data.TERMINALS, think_s)], stations, name="du-2001 blocked")


@cache
def processor_rates(processors: int) -> tuple[float, ...]:
    """Rates c_1 ... c_k calibrated in turn on Table 10."""
    if processors == 0:
        return ()
    known = processor_rates(processors - 1)
    target = data.TABLE_10[processors][0]
    base = configuration("C1")
    low, high = (known[-1] if known else 0.1), 10.0
    for _ in range(45):
        middle = 0.5 * (low + high)
        if data.TPMC * solve(network(base, (*known, middle)), percentiles=[]).throughput < target:
            low = middle
        else:
            high = middle
    return (*known, 0.5 * (low + high))


def outcome(machine: Machine, solution: Solution) -> Outcome:
    """Turn a solution into the figures the paper prints."""
    used = solution.utilization
    shares = machine.shares()
    buses = [used.get(f"bus {i + 1}", 0.0) for i in range(len(shares))]
    disks = [used.get(f"disk {i + 1}.{j + 1}", 0.0) for i, bus in enumerate(shares) for j in range(len(bus))]
    return Outcome(data.TPMC * solution.throughput, disks, buses, used["memory"])


def solve_machine(machine: Machine) -> Outcome:
    """Solve one machine for 48 terminals."""
    solution = solve(network(machine, processor_rates(machine.processors)), "convolution", percentiles=[])
    return outcome(machine, solution)


def elasticities(machine: Machine) -> dict[str, float]:
    """Exact elasticity of throughput with respect to each demand, think time included (sum -1)."""
    result = sensitivity(network(machine, processor_rates(machine.processors)))
    columns = result.columns()
    return dict(zip(columns["station"], columns["throughput"], strict=True))
