"""Run the benchmarks registered in benches/*.toml; print a table and write JSON into out/.

A benchmark is a command that prints one JSON object ``{"figures": [{"name", "value", "unit"}]}`` on
its last line. It is repeated, and every raw value is kept beside the median, so that a reader can
see the spread. Figures depend on the host, which the JSON names; none of them gates a test. What is aimed at stands
beside the benchmark (``[[benchmark.wanted]]``: how the figure's name begins, and ``at_least`` or ``at_most``) and is
shown, met or not.

What is done so far is in ``NAME.partial.json`` beside the file, from the first benchmark on; the file itself is written
when all are through.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import children
from servsim.cli.progress import Progress
from servsim.files import atomic_write

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Benchmark:
    """A registered benchmark: a shell command, run ``repeat`` times, each of which takes about so many ``minutes``.

    ``wanted`` lists what is aimed at: ``figure`` (how its name begins), and ``at_least`` or ``at_most``.
    """

    name: str
    what: str
    command: str
    minutes: float
    repeat: int = 3
    wanted: tuple[dict[str, Any], ...] = ()

    def aim(self, figure: str) -> dict[str, float]:
        """Return ``at_least`` or ``at_most`` of a figure; nothing where nothing is aimed at."""
        found = next((one for one in self.wanted if figure.startswith(one["figure"])), {})
        return {key: value for key, value in found.items() if key != "figure"}


def load(folder: Path) -> list[Benchmark]:
    """Read every list in ``folder``."""
    lists = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    return [Benchmark(**entry) for one in lists for entry in one.get("benchmark", [])]


def measure(benchmark: Benchmark, tell: Callable[[int, float], None], seconds: list[float]) -> list[dict[str, Any]]:
    """Run one benchmark and return its figures, each with all raw values and their median.

    ``tell`` hears which run is under way and how many minutes it has taken so far, ``seconds`` gets how long each took.
    """
    raw: dict[str, dict[str, Any]] = {}
    for turn in range(benchmark.repeat):
        start = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            code = children.run(benchmark.command, ROOT, output, meanwhile=partial(tell, turn))
            output.seek(0)
            lines = output.read().strip().splitlines()
        seconds.append(round(time.monotonic() - start, 1))
        if code != 0:
            raise RuntimeError(f"exit code {code}")
        for figure in json.loads(lines[-1])["figures"]:
            entry = raw.setdefault(figure["name"], {"unit": figure["unit"], "values": []})
            entry["values"].append(figure["value"])
    return [
        {
            "benchmark": benchmark.name,
            "name": name,
            "median": statistics.median(entry["values"]),
            **entry,
            **benchmark.aim(name),
        }
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


def number(value: float) -> str:
    """Return a value to three digits, whole from a hundred on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def aimed(row: dict[str, Any]) -> str:
    """Return what is aimed at, and whether the median misses it."""
    for key, word, sign in (("at_least", "at least", 1), ("at_most", "at most", -1)):
        if (aim := row.get(key)) is not None:
            return f"{word} {number(aim)}" + ("" if sign * row["median"] >= sign * aim else ", missed")
    return ""


def show(figures: list[dict[str, Any]]) -> None:
    """Print the table."""
    names = [f"{row['benchmark']}: {row['name']}" for row in figures]
    first, unit = max(map(len, ["figure", *names])), max(len(row["unit"]) for row in [{"unit": "unit"}, *figures])
    print(f"{'figure':<{first}} {'median':>14}  {'unit':<{unit}} n  wanted")
    for name, row in zip(names, figures, strict=True):
        line = f"{name:<{first}} {row['median']:>14,.4g}  {row['unit']:<{unit}} {len(row['values'])}  {aimed(row)}"
        print(line.rstrip())


class Results:
    """What is measured so far, in a file that does not pass for whole."""

    def __init__(self, output: Path) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        self.output, self.partial = output, output.with_suffix(".partial.json")
        self.figures: list[dict[str, Any]] = []
        self.failed: list[str] = []
        #: Of the runs of each benchmark.
        self.seconds: dict[str, list[float]] = {}
        stamp = datetime.now(UTC).isoformat(timespec="seconds")
        self._about = {"schema": "servsim.bench/1", "time": stamp, "host": host()}

    def write(self, left: list[Benchmark]) -> None:
        """Write the file if none is ``left``, or what there is into that beside it."""
        names = [benchmark.name for benchmark in left]
        runs = {"seconds": self.seconds, "failed": self.failed, "left": names}
        document = {**self._about, **runs, "figures": self.figures}
        atomic_write(self.partial if left else self.output, json.dumps(document, indent=1) + "\n")
        if not left:
            self.partial.unlink(missing_ok=True)


def perform(due: list[Benchmark], results: Results) -> None:
    """Run what is due, and keep each benchmark's figures as soon as they are there."""
    planned = sum(benchmark.minutes * benchmark.repeat for benchmark in due)
    passed = 0.0
    results.write(due)
    with Progress() as progress:
        for number, benchmark in enumerate(due, 1):
            progress.note(f"{benchmark.name}: {benchmark.what}")

            def tell(turn: int, minutes: float, benchmark: Benchmark = benchmark, before: float = passed) -> None:
                done = before + turn * benchmark.minutes + min(minutes, benchmark.minutes)
                progress(f"{benchmark.name}, run {turn + 1} of {benchmark.repeat}", done / planned)

            try:
                seconds = results.seconds.setdefault(benchmark.name, [])
                results.figures += measure(benchmark, tell, seconds)
            except (RuntimeError, ValueError, KeyError, IndexError) as error:
                progress.note(f"{benchmark.name}: no figure: {error}")
                results.failed.append(benchmark.name)
            passed += benchmark.minutes * benchmark.repeat
            results.write(due[number:])


def main() -> int:
    """Run the benchmarks whose name contains the argument, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="?", default="", help="part of a benchmark's name")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "bench.json")
    parser.add_argument("--list", type=Path, default=ROOT / "benches", help="folder of lists")
    options = parser.parse_args()
    known = load(options.list)
    due = [benchmark for benchmark in known if options.filter in benchmark.name]
    if not due:
        names = ", ".join(benchmark.name for benchmark in known)
        parser.error(f"no benchmark has {options.filter!r} in its name; there are: {names}")
    results = Results(options.output)
    try:
        perform(due, results)
    except KeyboardInterrupt:
        show(results.figures)
        print(f"bench: interrupted; what was measured is in {results.partial}", file=sys.stderr)
        return 130
    show(results.figures)
    print(f"written to {options.output}", file=sys.stderr)
    return 1 if results.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
