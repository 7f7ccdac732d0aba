"""The study: native runs, one calibration, predictions, and what they are worth.

One figure is calibrated, on one configuration: the clock of the description, so that the base has its
native throughput. The time of a flush is measured by a micro-benchmark. Nothing else is taken from the
runs that are predicted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from servsim.errors import UsageError
from servsim.statistics.intervals import Estimate, estimate
from servsim.validation.native import NativeRun
from servsim.validation.plan import BASE, Configuration
from servsim.validation.ratios import Ratio, error_percent, ratio
from servsim.validation.simulated import SimulatedRun

SCHEMA = "servsim.validate/1"
#: Error aimed at, in percent: Du et al. 2001 (section 4) report 15.3 % between their model and a real machine.
AIM_PERCENT = 15.0
CALIBRATED, PREDICTED = "calibrated", "predicted"


@dataclass(frozen=True)
class Row:
    """One configuration: native beside simulated.

    Attributes
    ----------
    name, what
        The configuration.
    label
        ``calibrated`` for the base, whose throughput was given; ``predicted`` for every other.
    native, simulated
        Transactions per second.
    measured, predicted
        Ratio to the base; None for the base.
    error_percent
        Error of the predicted ratio; for the base what the calibration left over.
    processor_error, waiting_error
        Parts of that error, in percent: of processor time per transaction, and of the time that
        processors stood idle. None for the base.
    verdict
        A sentence.
    """

    name: str
    what: str
    label: str
    native: Estimate
    simulated: Estimate
    measured: Ratio | None
    predicted: Ratio | None
    error_percent: float
    processor_error: float | None
    waiting_error: float | None
    verdict: str


def rows(
    configurations: Sequence[Configuration], native: Sequence[NativeRun], simulated: Sequence[SimulatedRun]
) -> list[Row]:
    """Return a row per configuration, the base first.

    Raises
    ------
    UsageError
        When a configuration, or the base, was not run on both sides.
    """
    measured = _by_name(native, "native", lambda run: run.round)
    modelled = _by_name(simulated, "simulated", lambda run: run.capture)
    for name in (BASE.name, *(c.name for c in configurations)):
        for runs, side in ((measured, "native"), (modelled, "simulated")):
            if name not in runs:
                raise UsageError(f"there is no {side} run of '{name}': measure it anew, or leave it out with --only")
    changes = [c for c in configurations if c.name != BASE.name]
    return [_base(measured[BASE.name], modelled[BASE.name])] + [_change(c, measured, modelled) for c in changes]


def _by_name(runs: Sequence[Any], side: str, order: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for run in sorted(runs, key=order):
        if run.throughput <= 0:
            raise UsageError(f"a {side} run of '{run.configuration}' completed nothing")
        found.setdefault(run.configuration, []).append(run)
    return found


def _throughputs(runs: Sequence[Any]) -> list[float]:
    return [run.throughput for run in runs]


def _base(native: Sequence[NativeRun], simulated: Sequence[SimulatedRun]) -> Row:
    ours, theirs = estimate(_throughputs(simulated)), estimate(_throughputs(native))
    rest = 100 * (ours.mean / theirs.mean - 1)
    verdict = "its throughput was given, and fixed the clock"
    return Row(BASE.name, BASE.what, CALIBRATED, theirs, ours, None, None, rest, None, None, verdict)


def _change(
    configuration: Configuration, native: Mapping[str, list[NativeRun]], simulated: Mapping[str, list[SimulatedRun]]
) -> Row:
    name = configuration.name
    pairs = {}
    for side, runs in (("native", native), ("simulated", simulated)):
        alike = _partners(runs[name]) == _partners(runs[BASE.name])
        pairs[side] = ratio(_throughputs(runs[name]), _throughputs(runs[BASE.name]), paired=alike)
    measured, predicted = pairs["native"], pairs["simulated"]
    error = error_percent(predicted, measured)
    theirs = _native_share(native[name], configuration.processors) / _native_share(native[BASE.name], BASE.processors)
    ours = _share(simulated[name]) / _share(simulated[BASE.name])
    waiting = 100 * (ours / theirs - 1)
    # Throughput is processors times their busy share, divided by processor time per transaction.
    processor = 100 * ((1 + error / 100) / (1 + waiting / 100) - 1)
    verdict = _verdict(configuration, measured, predicted, error, processor, waiting)
    return Row(
        name,
        configuration.what,
        PREDICTED,
        estimate(_throughputs(native[name])),
        estimate(_throughputs(simulated[name])),
        measured,
        predicted,
        error,
        processor,
        waiting,
        verdict,
    )


def _partners(runs: Sequence[Any]) -> list[int]:
    return [run.round if isinstance(run, NativeRun) else run.capture for run in runs]


def _native_share(runs: Sequence[NativeRun], processors: int) -> float:
    """Return the busy share of the processors."""
    return _geometric([run.processor_seconds / (run.elapsed_seconds * processors) for run in runs])


def _share(runs: Sequence[SimulatedRun]) -> float:
    return _geometric([run.processor_share for run in runs])


def _geometric(values: Sequence[float]) -> float:
    """Return the geometric mean, as ratios of throughputs have it."""
    return exp(estimate([log(value) for value in values]).mean)


def _verdict(
    configuration: Configuration, measured: Ratio, predicted: Ratio, error: float, processor: float, waiting: float
) -> str:
    """Say what a prediction is worth, and what makes it wrong if it is off by more than the aim."""
    if abs(error) <= AIM_PERCENT:
        return f"within {AIM_PERCENT:.0f} %"
    by_chance = ", yet the intervals overlap: more runs are needed to say so" if predicted.within(measured) else ""
    if abs(log(1 + processor / 100)) >= abs(log(1 + waiting / 100)):
        part = f"processor time per transaction ({-processor / (1 + processor / 100):+.0f} % of the real change)"
    else:
        part = f"waiting (processors are busy {waiting:+.0f} % relative to the real change)"
    return f"off by {error:+.0f} %{by_chance}; most of it is {part}; station: {configuration.station}"


def document(found: Sequence[Row], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON document, schema ``servsim.validate/1``."""
    errors = [abs(row.error_percent) for row in found if row.label == PREDICTED]
    return {
        "schema": SCHEMA,
        "aim_percent": AIM_PERCENT,
        **facts,
        "rows": [asdict(row) for row in found],
        "mean_error_percent": sum(errors) / len(errors) if errors else None,
        "largest_error_percent": max(errors, default=None),
        "within_aim": sum(error <= AIM_PERCENT for error in errors),
        "predicted": len(errors),
    }
