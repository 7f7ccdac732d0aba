"""The machine of the paper as both readings see it: a configuration with its service times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from servsim.reproduce.du_2001 import data

#: Tables on each disk of each I/O bus.
Layout = tuple[tuple[tuple[int, ...], ...], ...]

#: The think time that the authors' results imply: r = 0.5 put into Equation 3.1. Its mean is 20.99 s.
REPRODUCTION_THINK_S = data.KEYING_S - data.THINK_FACTOR_S * math.log(0.5)
#: The true mean of Equation 3.1, since the mean of -ln(r) is 1.
MEAN_THINK_S = data.KEYING_S + data.THINK_FACTOR_S


@dataclass(frozen=True)
class Machine:
    """Processors, layout of tables on disks on buses, and service times in cycles."""

    processors: int
    layout: Layout
    service: dict[str, float] = field(default_factory=lambda: dict(data.SERVICE))

    def with_service(self, **cycles: float) -> Machine:
        """Return the machine with some service times replaced."""
        return replace(self, service={**self.service, **cycles})

    def shares(self) -> list[list[float]]:
        """Share of disk accesses per bus and disk (Table 5)."""
        total = sum(data.ACCESS)
        return [[sum(data.ACCESS[t - 1] for t in disk) / total for disk in bus] for bus in self.layout]


@dataclass(frozen=True)
class Outcome:
    """Throughput in tpmC and utilisations as fractions; disks and buses in the order of the layout."""

    tpmc: float
    disks: list[float]
    buses: list[float]
    memory_bus: float


def configuration(name: str) -> Machine:
    """Return a configuration C1-C9 of Table 9."""
    processors, layout = data.CONFIGURATIONS[name]
    return Machine(processors, layout)
