"""Run the benchmarks registered in benches/*.toml; print a table and write JSON into out/.

A benchmark is a command that prints one JSON object ``{"figures": [{"name", "value", "unit"}]}`` on
its last line. It is repeated, and every raw value is kept beside the median, so that a reader can
see the spread. Figures depend on the host, which the JSON names; none of them gates a test.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def load(folder: Path) -> list[dict[str, Any]]:
    """Read every registered benchmark: name, what, command, and how often to repeat it."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.toml")):
        found += tomllib.loads(path.read_text(encoding="utf-8")).get("benchmark", [])
    return found


def measure(benchmark: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one benchmark and return its figures, each with all raw values and their median."""
    raw: dict[str, dict[str, Any]] = {}
    for _ in range(benchmark.get("repeat", 3)):
        done = subprocess.run(
            benchmark["command"], shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{benchmark['name']}: exit code {done.returncode}")
        for figure in json.loads(done.stdout.strip().splitlines()[-1])["figures"]:
            entry = raw.setdefault(figure["name"], {"unit": figure["unit"], "values": []})
            entry["values"].append(figure["value"])
    return [
        {"benchmark": benchmark["name"], "name": name, "median": statistics.median(entry["values"]), **entry}
        for name, entry in raw.items()
    ]


def host() -> dict[str, Any]:
    """Return what the figures depend on: processor, cores in use, system, commit."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "processor": model or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "commit": commit.stdout.strip(),
    }


def main() -> int:
    """Run the benchmarks whose name contains the argument, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="part of a benchmark's name")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "bench.json")
    options = parser.parse_args()
    figures: list[dict[str, Any]] = []
    failed = 0
    for benchmark in load(ROOT / "benches"):
        if options.filter not in benchmark["name"]:
            continue
        print(f"{benchmark['name']}: {benchmark['what']}", file=sys.stderr)
        try:
            rows = measure(benchmark)
        except (RuntimeError, ValueError, KeyError, IndexError) as error:
            print(f"{benchmark['name']}: no figure: {error}", file=sys.stderr)
            failed += 1
            continue
        figures += rows
    print(f"{'figure':<44} {'median':>14}  {'unit':<18} n")
    for row in figures:
        name = f"{row['benchmark']}: {row['name']}"
        print(f"{name:<44} {row['median']:>14,.4g}  {row['unit']:<18} {len(row['values'])}")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    document = {"schema": "servsim.bench/1", "time": stamp, "host": host(), "figures": figures}
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"written to {options.output}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
