"""Which design is really better: designs with their runs in, a verdict that cannot mislead out."""

from servsim.comparison.designs import Design, from_files, run_designs, run_until
from servsim.comparison.judge import Comparison, Method, Pair, check_enough, judge
from servsim.comparison.metrics import Metric, metric

__all__ = [
    "Comparison",
    "Design",
    "Method",
    "Metric",
    "Pair",
    "check_enough",
    "from_files",
    "judge",
    "metric",
    "run_designs",
    "run_until",
]
