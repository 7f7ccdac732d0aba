"""Goals of a planner: what a mean or a percentile of response times must keep, read from text and judged by solving."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from servsim.errors import Saturated, UsageError
from servsim.model.network import Network
from servsim.model.results import Solution
from servsim.model.solving import solve

#: Requests per replication with which a percentile is looked for once more that was withheld.
LONGER = (400_000, 2_000_000)


@dataclass(frozen=True)
class Answer:
    """What a model has of what a goal asks for.

    Parameters
    ----------
    met : bool
        Whether it keeps the goal.
    has : float
        Seconds; infinite where it cannot bear its load, or hardly.
    low, high : float
        Ends of the 95 % interval of ``has`` in seconds; the same where it is not simulated.
    certain : bool
        Whether all of that interval says the same of the goal.
    by : str, optional
        The solver, and what its figures are worth; None where there are none.
    """

    met: bool
    has: float
    low: float
    high: float
    certain: bool
    by: str | None

    @property
    def is_simulated(self) -> bool:
        """Whether it has an interval."""
        return self.low < self.high


#: Of a model that cannot bear its load.
SATURATED = Answer(met=False, has=math.inf, low=math.inf, high=math.inf, certain=True, by=None)


@dataclass(frozen=True)
class Goal:
    """What an answer must keep: a mean or a percentile of response times, at most so many seconds.

    Parameters
    ----------
    seconds : float
        The limit.
    percentile : float, optional
        Per cent; the mean by default.
    """

    seconds: float
    percentile: float | None = None

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Read a goal such as ``p95 <= 1 s`` or ``mean <= 200 ms``.

        Raises
        ------
        UsageError
            When it is none.
        """
        measure, found, limit = text.partition("<=")
        measure = measure.strip()
        seconds = duration(limit)
        percentile = None if measure == "mean" else _percentile(measure)
        if not found or seconds is None or (measure != "mean" and percentile is None):
            raise UsageError(f'{text!r} is no goal; write for example "p95 <= 1 s" or "mean <= 200 ms"')
        return cls(seconds, percentile)

    def measure(self, solution: Solution) -> float:
        """Return the worst of all classes.

        Raises
        ------
        UsageError
            When a percentile is withheld.
        """
        classes = _present(solution)
        if self.percentile is None:
            return max(float(c["response"]) for c in classes)
        if not self._is_known(solution):
            reasons = [note for note in solution.notes if "withheld" in note] or ["it is not known closely enough"]
            raise UsageError(
                f"the {self.percentile:g}th percentile is withheld ({reasons[0]}); ask for the mean instead"
            )
        return max(solution.percentiles(c["name"])[self.percentile] for c in classes)

    def _is_known(self, solution: Solution) -> bool:
        names = [c["name"] for c in _present(solution)]
        return self.percentile is None or all(self.percentile in solution.percentiles(name) for name in names)

    def met(self, network: Network, solver: str = "auto") -> tuple[bool, float]:
        """Say whether a network keeps the goal, and what it has; not so where it cannot bear its load, or hardly.

        Raises
        ------
        UsageError
            For a model without an answer.
        """
        answer = self.answer(network, solver)
        return answer.met, answer.has

    def answer(self, network: Network, solver: str = "auto") -> Answer:
        """Say what a network has, and whether that keeps the goal.

        Raises
        ------
        UsageError
            For a model without an answer.
        """
        try:
            wanted = [] if self.percentile is None else [self.percentile]
            solution = solve(network, solver, percentiles=wanted)
            for requests in LONGER:
                if not self._is_known(solution):
                    solution = solve(network, solver, percentiles=wanted, requests=requests)
            if not self._is_known(solution) and solution.data.get("saturated"):
                return SATURATED
            has = self.measure(solution)
        except Saturated:
            return SATURATED
        low, high = self._interval(solution, has)
        by = "; ".join([solution.by, *solution.presumed])
        met = has <= self.seconds
        certain = high <= self.seconds if met else low > self.seconds
        return Answer(met=met, has=has, low=low, high=high, certain=certain, by=by)

    def _interval(self, solution: Solution, has: float) -> tuple[float, float]:
        """Return the ends of the interval of the worst of all classes; ``has`` twice where nothing was simulated."""
        ends = []
        for c in _present(solution):
            if self.percentile is None:
                interval = c.get("response_interval")
                ends += [(interval["low"], interval["high"])] if interval else []
            else:
                ends += [(low, high) for p, low, high in c.get("percentile_intervals", []) if p == self.percentile]
        return (max(low for low, _ in ends), max(high for _, high in ends)) if ends else (has, has)


def _present(solution: Solution) -> list[dict[str, Any]]:
    """Return the classes of which somebody is there."""
    return [c for c in solution.data["classes"] if c["throughput"] > 0.0]


def duration(text: str) -> float | None:
    """Return the seconds of a time such as ``1 s`` or ``1s``; None for anything else."""
    found = re.fullmatch(r"(\S+?)\s*([a-z]+)", text.strip())
    if found is None:
        return None
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}.get(found[2])
    try:
        value = float(found[1])
    except ValueError:
        return None
    return value * scale if scale is not None and 0.0 <= value < math.inf else None


def _percentile(text: str) -> float | None:
    try:
        value = float(text.removeprefix("p"))
    except ValueError:
        return None
    return value if text.startswith("p") and 1.0 <= value < 100.0 else None
