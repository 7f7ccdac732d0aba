"""Partitions of a machine that is described: whole nodes set apart for a workload of their own (Brock et al. 2001).

A static partition is a machine of its own, cut out of the description (:mod:`servsim.machine_partitions.cut`). A
dynamic one gets and loses nodes as the load changes, by the same rule that moves nodes of a running host
(:mod:`servsim.machine_partitions.day`). Partitions of this host: :mod:`servsim.partitions`.
"""

from servsim.machine_partitions.cut import cut, shapes
from servsim.machine_partitions.day import Served, Step, live

__all__ = ["Served", "Step", "cut", "live", "shapes"]
