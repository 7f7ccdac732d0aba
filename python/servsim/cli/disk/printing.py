"""What the disk commands print for people."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from servsim.files import atomic_write, make_folder
from servsim.text import columns


def in_file_name(device: str) -> str:
    """Return a device's name as part of a file's; two devices never share one."""
    return quote(device, safe=" ")


def warn(report: dict[str, Any] | None) -> None:
    """Tell on stderr what an import could not keep."""
    for warning in (report or {}).get("warnings", []):
        print(f"warning: {warning['count']} {warning['what']}", file=sys.stderr)
    for note in (report or {}).get("notes", []):
        print(f"note: {note}", file=sys.stderr)


def warn_of_skipped(result: dict[str, Any]) -> None:
    """Tell on stderr which devices were left out, and why."""
    for entry in result["skipped"]:
        print(f"warning: {entry['device']} is left out: {entry['reason']}", file=sys.stderr)


def _server(server: dict[str, Any], kind: str) -> str:
    if kind == "parallel":
        return "side by side"
    places = f" by places of {server['place_sectors']} sectors" if server["place_sectors"] > 1 else ""
    return f"{server['discipline']}{places}, {server['slots']} at a time"


def print_models(result: dict[str, Any]) -> None:
    """Print what was fitted, device by device."""
    for device in result["devices"]:
        print(f"{device['device']}: {device['kind']}, {_server(device['server'], device['kind'])}")
        if training := device["training"]:
            print(f"  trained on {training['requests']} requests, mean response {training['mean_response_us']:.1f} us")
            if trial := training["trial"]:
                print(
                    f"  tried on the last quarter, run freely: skill {trial['skill']:.2f} over a histogram, "
                    f"mean {trial['mean_error_percent']:+.1f} %"
                )
        if (inference := device["inference"]) and inference["choices"]:
            names = ("fcfs", "sstf", "c-scan")
            shares = ", ".join(
                f"{name} {100 * share:.1f} %" for name, share in zip(names, inference["agreement"], strict=True)
            )
            print(f"  of {inference['choices']} choices of the scheduler each explains: {shares}")
        if inference and inference["completion_tick_ms"]:
            print(
                f"  requests complete on ticks of {inference['completion_tick_ms']:.2f} ms and do not arrive on them: "
                "idle times would tell service times, so the model is not given them"
            )
        if device["kind"] == "parallel":
            for name, value in device["model"].items():
                if value is not None and name != "rivals":
                    print(f"  {name:<16} {json.dumps(value)}")
        for name, share in list((device["model"].get("importance") or {}).items())[:6]:
            print(f"  {name:<28} {100 * share:5.1f} % of what is explained")


def write_plots(result: dict[str, Any], folder: Path) -> None:
    """Write the plots of an evaluation into ``folder``."""
    from servsim.disk.plots import evaluation_svg

    make_folder(folder)
    for device in result["devices"]:
        path = folder / f"{in_file_name(device['device'])}-{device['model']}.svg"
        atomic_write(path, evaluation_svg(device))
        print(f"wrote {path}", file=sys.stderr)


#: Figures of a distribution, with their titles.
_FIGURES = (
    ("real mean, ms", "real_mean_ms"),
    ("simulated mean, ms", "simulated_mean_ms"),
    ("D all, %", "d_all_percent"),
    ("D rest, %", "d_rest_percent"),
    ("D99, %", "d99_percent"),
    ("floor of D99, %", "floor99_percent"),
)


def print_evaluation(entry: dict[str, Any]) -> None:
    """Print what is known about a model on one device."""
    print(
        f"{entry['device']}: {entry['model']}, trained on {entry['trained_on']} of "
        f"{entry['requests']} requests; "
        f"{_server(entry['server'], entry['model'])}"
    )
    free, one = entry["free_running"], entry["one_step"]
    skill, step = entry["skill"], entry["one_step_skill"]
    rows = [
        ("", "free running", "one step", ""),
        *((title, free[key], one[key], "") for title, key in _FIGURES),
        ("slices, %", free["slice"]["percent"], one["slice"]["percent"], ""),
        ("floor of slices, %", free["slice"]["floor_percent"], one["slice"]["floor_percent"], ""),
        ("acf 1", free["acf_simulated"][0], one["acf_simulated"][0], f"real {free['acf_real'][0]:.3f}"),
        ("skill over histogram", skill["over_histogram"], step["over_histogram"], "CRPS, 1 is perfect"),
        ("skill over mean", skill["over_mean"], step["over_mean"], ""),
    ]
    for line in columns([[cell if isinstance(cell, str) else f"{cell:.3f}" for cell in row] for row in rows]):
        print(f"  {line}")
    print("  free running is what a simulation gives; one step is given the queue of the trace at every request")
    print(f"  outside the training support: {100 * entry['outside_support']:.1f} % of the requests")
    for row in entry["closed_loop"]:
        text = f"  load x{row['load']:g}: mean {row['simulated_mean_ms']:.3f} ms"
        text += f", busy {100 * row['utilization']:.0f} %"
        if row["real_mean_ms"] is not None:
            text += f"; truth {row['real_mean_ms']:.3f} ms ({row['mean_error_percent']:+.1f} %)"
            text += f", D {row['d_percent']:.1f} %"
        print(text)
    for line in entry["verdict"]:
        print(f"  {line}")


def print_run(entry: dict[str, Any]) -> None:
    """Print what a simulation of one device gave, and what each drive of a set did."""
    figures = entry["figures"]
    text = f"{entry['device']}: {entry['requests']} requests"
    text += f", mean response {figures['simulated_mean_ms']:.3f} ms"
    if "utilization" in figures:
        text += f", p99 {figures['simulated_p99_ms']:.3f} ms, busy {100 * figures['utilization']:.1f} %"
    print(text)
    titles = ("mean", "p50", "p95", "p99", "p999")
    rows = [
        [f"  {name}", f"{of['requests']} requests", *(f"{title} {of[f'{title}_ms']:.3f}" for title in titles), "ms"]
        for name, of in figures.get("by_operation", {}).items()
        if of is not None
    ]
    for line in columns(rows) if rows else []:
        print(line)
    for warning in entry.get("warnings", []):
        print(f"warning: {entry['device']}: {warning}", file=sys.stderr)
    for at, member in enumerate(figures.get("members", [])):
        work = f"{member['reads']} reads, {member['writes']} writes, {member['sectors']} sectors"
        print(f"  drive {at}: {work}, busy {100 * member['utilization']:.1f} %")


def print_sweep(entry: dict[str, Any]) -> None:
    """Print a sweep of one device: a line for each load, the knee, and where it saturates."""
    from servsim.disk.page import knee_text, refused_text
    from servsim.report.format import number
    from servsim.statistics.intervals import reported

    sweep = entry["sweep"]
    print(f"{entry['device']}: {entry['model']}, {entry['requests']} requests")
    rows = [["load", "arriving/s", "completed/s", "busy, %", "mean, ms", "+-", "p95", "p99", "p99.9"]]
    for point in sweep["points"]:
        if (f := point["figures"]) is None:
            continue
        half = reported([run["mean_ms"] for run in f["runs"]]).half_width
        times = [number(f["response"][key]) for key in ("p95_ms", "p99_ms", "p999_ms")]
        rates = [number(f["arrivals_per_second"]), number(f["throughput_per_second"])]
        spread = "" if half is None else number(half, 2)
        mean = number(f["response"]["mean_ms"], 4)
        rows.append([f"x{point['load']:.3g}", *rates, f"{100 * f['utilization']:.0f}", mean, spread, *times])
    for line in columns(rows):
        print(f"  {line}")
    print(f"  {knee_text(sweep)}; +- holds the draws of the model, not its error")
    if sweep["saturated_from"] is not None:
        print(f"  saturated from x{sweep['saturated_from']:.3g} on: completions do not keep up with arrivals")
    refused = refused_text(sweep)
    for warning in [*([refused] if refused else []), *entry["warnings"]]:
        print(f"warning: {entry['device']}: {warning}", file=sys.stderr)
