"""The monitor of traffic between nodes, used as its user would: coarse counters first, then finer ones."""

from servsim.monitor.export import arrow, csv
from servsim.monitor.filters import Region, program, regions
from servsim.monitor.refine import by_data, watch

__all__ = ["Region", "arrow", "by_data", "csv", "program", "regions", "watch"]
