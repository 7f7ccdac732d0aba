"""Laws of service and arrival times in JSIM files: their mean, and how they are spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from servsim.model.importing.markup import Element


@dataclass(frozen=True)
class Time:
    """A law: its mean in seconds, its coefficient of variation, or its phases."""

    mean: float
    cv: float = 1.0
    phases: tuple[Any, ...] | None = None

    def shape(self) -> dict[str, Any]:
        """Return how a station says it."""
        if self.phases is not None:
            start, means, following = self.phases
            return {"phases": {"start": list(start), "means": list(means), "next": [list(row) for row in following]}}
        return {"cv": self.cv}


def strategy(element: Element, notes: list[str]) -> Time | None:
    """Return the law of a service strategy; None where the class is not served."""
    kind = element.get("classPath").rpartition(".")[2]
    if kind in ("DisabledServiceTimeStrategy", "ZeroServiceTimeStrategy"):
        return None if kind.startswith("Disabled") else Time(0.0)
    if kind != "ServiceTimeStrategy":
        raise element.refused(f"a {kind} is not read", "use service times that do not depend on the load")
    if element.text.strip() == "null" or any(c.text.strip() == "null" for c in element.all("value")):
        return None
    parts = element.all("subParameter")
    if len(parts) != 2:
        raise element.refused("a service strategy without law and parameters", "export the model again from JMT")
    return _law(parts[0], parts[1], notes)


def _law(named: Element, given: Element, notes: list[str]) -> Time:
    law = named.get("classPath").rpartition(".")[2].removesuffix("Distr")
    values = {p.get("name"): p for p in given.all("subParameter")}

    def value(key: str) -> float:
        found = values.get(key)
        if found is None:
            raise given.refused(f"{law} has no parameter `{key}`", "export the model again from JMT")
        return found.number((found.first("value") or found).text.strip(), f"`{key}`", -math.inf)

    if law in LAWS:
        try:
            found: Time = LAWS[law](value)
        except (ZeroDivisionError, ValueError, OverflowError):
            found = Time(math.nan)
        if not (math.isfinite(found.mean) and found.mean > 0.0 and math.isfinite(found.cv)):
            raise named.refused(f"this {law} has no positive mean and finite variance", "correct its parameters")
        if found.phases is None and 0.0 < found.cv < 0.1:
            notes.append(f"line {named.line}: times that vary by less than 10 % are taken for constant")
            found = Time(found.mean, 0.0)
        if found.cv != 1.0 and law in BY_MOMENTS:
            notes.append(f"line {named.line}: of {law} times only mean and variance are kept")
        return found
    raise named.refused(f"{law} times are not read", f"use one of {', '.join(LAWS)}")


def _hyper(value: Any) -> Time:
    p, first, second = value("p"), value("lambda1"), value("lambda2")
    mean = p / first + (1.0 - p) / second
    return Time(mean, phases=((p, 1.0 - p), (1.0 / first, 1.0 / second), ((0.0, 0.0), (0.0, 0.0))))


def _coxian(value: Any) -> Time:
    first, second, ends = value("lambda0"), value("lambda1"), value("phi0")
    mean = 1.0 / first + (1.0 - ends) / second
    return Time(mean, phases=((1.0, 0.0), (1.0 / first, 1.0 / second), ((0.0, 1.0 - ends), (0.0, 0.0))))


def _erlang(value: Any) -> Time:
    shape = value("r")
    return Time(shape / value("alpha"), 1.0 / math.sqrt(shape))


def _uniform(value: Any) -> Time:
    low, high = value("min"), value("max")
    return Time((low + high) / 2.0, (high - low) / math.sqrt(3.0) / (low + high))


def _lognormal(value: Any) -> Time:
    mu, sigma = value("mu"), value("sigma")
    return Time(math.exp(mu + sigma * sigma / 2.0), math.sqrt(math.expm1(sigma * sigma)))


def _pareto(value: Any) -> Time:
    alpha, least = value("alpha"), value("k")
    return Time(alpha * least / (alpha - 1.0), 1.0 / math.sqrt(alpha * (alpha - 2.0)))


def _gamma(value: Any) -> Time:
    return Time(value("alpha") * value("beta"), 1.0 / math.sqrt(value("alpha")))


LAWS: dict[str, Any] = {
    "Exponential": lambda value: Time(1.0 / value("lambda")),
    "Deterministic": lambda value: Time(value("t"), 0.0),
    "HyperExponential": _hyper,
    "Coxian": _coxian,
    "Erlang": _erlang,
    "Gamma": _gamma,
    "Uniform": _uniform,
    "Normal": lambda value: Time(value("mean"), value("standardDeviation") / value("mean")),
    "Lognormal": _lognormal,
    "Pareto": _pareto,
}
#: Laws of which only two moments survive.
BY_MOMENTS = ("Gamma", "Uniform", "Normal", "Lognormal", "Pareto")
