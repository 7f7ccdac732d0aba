"""The study as text for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from servsim.statistics.intervals import Estimate
from servsim.text import columns
from servsim.validation.ratios import Ratio
from servsim.validation.study import CALIBRATED, Row
from servsim.validation.windows import Spread


def table(found: Sequence[Row]) -> str:
    """Return a line per configuration, and below it the verdicts."""
    rows = [
        ["", "", "native", "simulated", "native ratio", "predicted ratio", "error"],
        ["", "", "transactions/s", "transactions/s", "", "", ""],
    ]
    for row in found:
        name = row.name if row.label == CALIBRATED else row.what
        rate, ours = _estimate(row.native), _estimate(row.simulated)
        measured, predicted = _ratio(row.measured), _ratio(row.predicted)
        error = "" if row.label == CALIBRATED else f"{row.error_percent:+.1f} %"
        rows.append([name, row.label, rate, ours, measured, predicted, error])
    return "\n".join([*columns(rows, left=2), "", *(f"{row.what}: {row.verdict}" for row in found)])


def _estimate(known: Estimate) -> str:
    if known.half_width is None:
        return f"{known.mean:,.0f} (n = 1)"
    return f"{known.mean:,.0f} ± {known.half_width:,.0f} ({known.n})"


def _ratio(known: Ratio | None) -> str:
    if known is None:
        return "1"
    if known.low is None or known.high is None:
        return f"{known.mean:.2f} (n = {known.n})"
    return f"{known.mean:.2f} [{known.low:.2f}, {known.high:.2f}]"


def summary(document: Mapping[str, Any]) -> str:
    """Return the last lines: what was calibrated, and how large the errors are."""
    calibration = document["calibration"]
    return (
        f"calibrated on '{calibration['on']}' alone: clock {calibration['clock_hz'] / 1e9:.2f} GHz; measured by "
        f"micro-benchmark: flush {1e3 * calibration['flush_seconds']:.2f} ms\n"
        f"{document['within_aim']} of {document['predicted']} predictions within {document['aim_percent']:.0f} %; "
        f"mean error {document['mean_error_percent']:.1f} %, largest {document['largest_error_percent']:.1f} % "
        "(Du et al. 2001 report 15.3 % against a real machine)\n"
        "± and [ ]: 95 % intervals; (n): runs. Simulated intervals are over captures, native ones over rounds."
    )


def spread_table(title: str, unit: str, found: Sequence[Spread]) -> str:
    """Return the variability by length of the window."""
    rows = [["window", "sd, % of mean", "least", "most", "windows"]]
    for row in found:
        ends = ["" if end is None else f"{end:.2f}" for end in (row.smallest, row.largest)]
        window = f"{row.seconds:.1f} s" if row.seconds >= 0.1 else f"{1e3 * row.seconds:.2f} ms"
        rows.append([window, f"{row.within_percent:.1f}", *ends, str(row.windows)])
    heading = f"{title} ({unit}; {found[0].runs if found else 0} runs)"
    return "\n".join([heading, *(f"  {line}" for line in columns(rows, left=0))])
