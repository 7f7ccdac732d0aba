"""Disks as self-contained HTML pages, in the look of the report: an evaluation, and a sweep over load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from servsim.disk import plots
from servsim.report import write_page
from servsim.report.charts.svg import tag
from servsim.report.format import mean, number
from servsim.report.sections import Section
from servsim.report.tables import pairs, table, warning_list
from servsim.result_warnings import ResultWarning
from servsim.statistics.intervals import reported

_TIMES = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms")
_TIME_HEADS = ("mean, ms", "p50", "p95", "p99", "p99.9")


def write_evaluation(result: Mapping[str, Any], source: str, output: Path) -> None:
    """Write the page of an evaluation.

    Parameters
    ----------
    result
        What :func:`servsim.disk.evaluate` returned.
    source
        Name of the trace.
    output
        The HTML file.
    """
    devices = result["devices"]
    parts = [section for at, device in enumerate(devices) for section in _evaluation(device, at)]
    parts.append(_provenance(result["import"], source, {"share that trains": f"{result['train']:g}"}))
    said = [f"{d['device']}: mean {d['free_running']['mean_error_percent']:+.1f} %" for d in devices]
    skills = [f"{d['skill']['over_histogram']:.2f}" for d in devices]
    headline = f"{_listed(said)}; skill {_listed(skills)} run freely"
    write_page(output, f"{source}: disks judged", f"servsim disk evaluate {source}", headline, parts)


def write_sweep(result: Mapping[str, Any], source: str, model: str, output: Path) -> None:
    """Write the page of a sweep.

    Parameters
    ----------
    result
        What :func:`servsim.disk.sweep` returned.
    source, model
        Names of the trace and of the model file.
    output
        The HTML file.
    """
    devices = result["devices"]
    parts = [section for at, device in enumerate(devices) for section in _sweep(device, at)]
    more = {"model file": model, "first seed": str(result["seed"])}
    more |= {"sets": ", ".join(result["sets"])} if result["sets"] else {}
    more |= {"block map": result["remapped"]} if result["remapped"] else {}
    parts.append(_provenance(result["import"], source, more))
    headline = _listed([f"{d['device']}: {knee_text(d['sweep'])}" for d in devices])
    write_page(output, f"{source}: disks over load", f"servsim disk sweep {source}", headline, parts)


def _listed(texts: Sequence[str]) -> str:
    """Join texts, the first three of many."""
    return "; ".join(texts) if len(texts) <= 3 else f"{'; '.join(texts[:3])} and {len(texts) - 3} more"


def knee_text(sweep: Mapping[str, Any]) -> str:
    """Say where the knee of a sweep lies."""
    knee = sweep["knee"]
    if knee is None:
        return "no load could be simulated"
    if knee["below"] is None:
        last = "beyond, the model refuses to answer" if refused_text(sweep) else "the last load: ask for more"
        return f"no knee up to x{knee['load']:.3g}; {last}"
    if knee["above"] is None:
        return f"the knee is at x{knee['load']:.3g} or below: ask for less"
    return (
        f"knee at x{knee['load']:.3g} (between x{knee['above']:.3g} and x{knee['below']:.3g}), "
        f"{number(knee['throughput_per_second'])} requests/s at {number(knee['mean_ms'])} ms"
    )


def refused_text(sweep: Mapping[str, Any]) -> str | None:
    """Say which loads of a sweep have no figures, and why the first has none."""
    refused = [point for point in sweep["points"] if point["refused"]]
    if not refused:
        return None
    loads = ", ".join(f"x{point['load']:.3g}" for point in refused)
    return f"no figures at {loads}: {refused[0]['refused']}"


def _rank(verdict: str) -> str:
    """Rank a line of a verdict."""
    return "weak" if verdict.startswith(("not worth using", "do not trust")) else "note"


def _panels(drawn: Sequence[str]) -> Markup:
    # What is drawn escapes the names in it.
    return tag("div", *(Markup(panel) for panel in drawn), class_="panels")


def _evaluation(device: dict[str, Any], at: int) -> list[Section]:
    name, of = device["device"], device["free_running"]
    warnings = [ResultWarning(_rank(line), "", line) for line in device["verdict"]]
    drawn = _panels([draw(device) for draw in plots.OF_EVALUATION])
    sections = [
        Section(f"verdict-{at}", f"Verdict of {name}", _basis(device), warning_list(warnings)),
        Section(
            f"distribution-{at}",
            f"Distribution of {name}",
            "Requests after the training part, run freely: the model was given their arrivals alone. Circles grow "
            "with the requests of a slice.",
            tag("div", drawn, _percentiles(device["by_operation"])),
        ),
        Section(f"figures-{at}", f"Figures of {name}", _CHANCE, _figures(device)),
        Section(
            f"slices-{at}",
            f"Slices of {name}",
            f"Alike requests, by operation, queue at arrival, seek and length: the {of['slice']['slices']} slices "
            "with 100 requests or more.",
            _slices(of["slice"]["each"]),
        ),
    ]
    if device["closed_loop"]:
        head = ["load", "mean, ms", "p99", "busy, %", "measured mean", "error, %", "D, %"]
        rows = [
            [f"x{row['load']:g}", *(_cell(row[key]) for key in ("simulated_mean_ms", "simulated_p99_ms"))]
            + [f"{100 * row['utilization']:.0f}"]
            + [_cell(row[key]) for key in ("real_mean_ms", "mean_error_percent", "d_percent")]
            for row in device["closed_loop"]
        ]
        sections.append(Section(f"loads-{at}", f"Other loads of {name}", "", table(head, rows)))
    return sections


_CHANCE = (
    "One step is given the queue of the trace at every request; run freely, the model has to make it. What chance "
    "gives is the D of the measured responses against themselves, drawn anew."
)


def _basis(device: Mapping[str, Any]) -> str:
    return (
        f"Model {device['model']}, fitted to the first {device['trained_on']} of {device['requests']} requests and "
        "judged on the others."
    )


def _cell(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else number(value)


def _percentiles(of: Mapping[str, Any]) -> Markup:
    rows = []
    for operation in ("read", "write"):
        for which, key in (("measured", "real"), ("simulated", "free_running")):
            if known := of[key][operation]:
                rows.append([f"{operation}s, {which}", str(known["requests"]), *(number(known[t]) for t in _TIMES)])
    return table(["", "requests", *_TIME_HEADS], rows)


def _figures(device: Mapping[str, Any]) -> Markup:
    free, one = device["free_running"], device["one_step"]
    skill, step = device["skill"], device["one_step_skill"]
    rows: list[tuple[str, float, float]] = [
        ("measured mean, ms", free["real_mean_ms"], one["real_mean_ms"]),
        ("simulated mean, ms", free["simulated_mean_ms"], one["simulated_mean_ms"]),
        ("D, %", free["d_rest_percent"], one["d_rest_percent"]),
        ("D up to p99, %", free["d99_percent"], one["d99_percent"]),
        ("of which chance, %", free["floor99_percent"], one["floor99_percent"]),
        ("slices, %", free["slice"]["percent"], one["slice"]["percent"]),
        ("of which chance, %", free["slice"]["floor_percent"], one["slice"]["floor_percent"]),
        ("skill over a histogram", skill["over_histogram"], step["over_histogram"]),
        ("skill over the mean", skill["over_mean"], step["over_mean"]),
        ("autocorrelation, lag 1", free["acf_simulated"][0], one["acf_simulated"][0]),
        ("the same, measured", free["acf_real"][0], one["acf_real"][0]),
    ]
    return table(["", "run freely", "one step"], [[title, number(a), number(b)] for title, a, b in rows])


def _range(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"


def _slices(each: Sequence[Mapping[str, Any]]) -> Markup:
    head = [
        "requests of a slice",
        "queue",
        "seek, sectors",
        "length, sectors",
        "requests",
        "measured, ms",
        "simulated",
        "D, %",
        "chance",
    ]
    rows = [
        [
            "writes" if s["is_write"] else "reads",
            _range(s["queue_from"], s["queue_to"]),
            _range(s["seek_from"], s["seek_to"]),
            _range(s["sectors_from"], s["sectors_to"]),
            str(s["requests"]),
            *(number(s[key]) for key in ("real_mean", "simulated_mean", "d_percent", "floor_percent")),
        ]
        for s in each
    ]
    return table(head, rows)


def _sweep(device: dict[str, Any], at: int) -> list[Section]:
    name, sweep = device["device"], device["sweep"]
    known = [point for point in sweep["points"] if point["figures"]]
    saturated = sweep["saturated_from"]
    said = [knee_text(sweep)] + ([f"saturated from x{saturated:.3g} on"] if saturated else [])
    rows = []
    for point in known:
        f = point["figures"]
        runs = reported([run["mean_ms"] for run in f["runs"]])
        times = [mean(runs), *(number(f["response"][t]) for t in _TIMES[1:])]
        rates = [number(f["arrivals_per_second"]), number(f["throughput_per_second"])]
        rows.append([f"x{point['load']:.3g}", *times, *rates, f"{100 * f['utilization']:.0f}"])
    head = ["load", *_TIME_HEADS, "arriving/s", "completed/s", "busy, %"]
    by_operation = [
        [f"x{point['load']:.3g}, {operation}s", *(number(of[t]) for t in _TIMES)]
        for point in known
        for operation, of in point["figures"]["by_operation"].items()
        if of
    ]
    warnings = [ResultWarning("note", "", text) for text in device["warnings"]]
    refused = refused_text(sweep)
    warnings += [ResultWarning("weak", "", refused)] if refused else []
    return [
        Section(
            f"load-{at}",
            f"Over load of {name}",
            f"{'; '.join(said)}. The knee is where throughput over mean response is highest.",
            tag("div", _panels(plots.over_load(sweep)), table(head, rows)),
        ),
        Section(
            f"operations-{at}",
            f"Reads and writes of {name}",
            "",
            table(["", *_TIME_HEADS], by_operation),
        ),
        Section(
            f"warnings-{at}",
            f"Warnings of {name}",
            "Intervals hold the draws of the model, not its error; servsim disk evaluate tells that.",
            warning_list(warnings) if warnings else tag("p", "None."),
        ),
    ]


def _provenance(report: Mapping[str, Any], source: str, more: Mapping[str, str]) -> Section:
    from servsim import __version__

    entries = [
        ("trace", source),
        ("format", str(report["format"])),
        ("requests", str(report["requests"])),
        ("devices", ", ".join(report["devices"])),
        *more.items(),
        *((warning["what"], str(warning["count"])) for warning in report["warnings"]),
        ("servsim", __version__),
    ]
    return Section("provenance", "Provenance", "", pairs(entries))
