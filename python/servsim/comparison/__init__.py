"""Which design is really better: designs with their runs in, a verdict that cannot mislead out."""

from servsim.comparison.designs import Design, from_file, run_designs, run_until
from servsim.comparison.judge import Comparison, Method, Pair, judge
from servsim.comparison.metrics import METRICS, Metric

__all__ = [
    "METRICS",
    "Comparison",
    "Design",
    "Method",
    "Metric",
    "Pair",
    "from_file",
    "judge",
    "run_designs",
    "run_until",
]
