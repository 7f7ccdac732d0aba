"""Hold the intervals of sampled simulation to full runs: pieces of traces, machines and seeds.

Usage: sampled_coverage.py [--pieces TRANSACTIONS] [--machines NAME[:KEY=VALUE,...] ...] [--seeds N] [--first-seed N]
[--orders N] [--warm-up N] [--transactions N] [--most PIECES] [--keep FOLDER] TRACE...

Every trace is cut into pieces of so many transactions (default 100, the whole with 0). Of every piece, machine and
seed all windows are timed once, and the full run. Every piece has seeds of its own: runs of one seed take the same
draws of the scheduler, so pieces that share one repeat its chance. What a window takes depends on its live-point and
the seed alone, so every order in which windows could have been chosen (`--orders`, default 20) is a study: its first
windows, and whether their interval covers the full run. Two numbers of windows are tried: those of the first look, and
those of the first stage. A line for each piece, machine and seed: how far all windows together miss the full run (what
no choice of windows mends), and how many orders cover its cycles per transaction, and its cycles for an instruction.
Lines go out as they are made. Orders of one full run hang together, so the interval of a coverage is over full runs.
With `--keep` windows and full runs are kept, and taken from there the next time. Every two machines of a piece are
compared on common windows as well: how often the interval of their ratio covers that of the full runs, and how often
the better one is found, rightly or wrongly. A full run whose figures are invalid, such as of a piece so short that
users ran out of work in it, is no oracle: it is named, and its studies are not counted. The last lines are a table in
Markdown, by trace (its name up to the first hyphen) and machine. Exits 1 if, of at least 200 studies of the first
stage, fewer than 93.5 % are covered, or if a comparison found another winner than the full runs.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from servsim import _core
from servsim.comparison.ratios import parts_of, ratio_of, verdict
from servsim.comparison.windows import nearest
from servsim.errors import UsageError
from servsim.result_warnings import recorded
from servsim.sampling import sample, summary
from servsim.sampling.estimates import reached
from servsim.simulation import simulate
from servsim.statistics.sampling import FIRST_LOOK, FIRST_STAGE, order

MACHINES = (
    "foglia-2004-4p",
    "foglia-2004-4p:bus.memory_read=40 cycles",
    "foglia-2004-4p:bus.bytes_per_cycle=2 B",
)


def pieces(trace: Path, length: int, most: int | None, folder: Path) -> list[Path]:
    """Cut a trace into pieces of ``length`` transactions, ``most`` of them at most, spread over all of it."""
    if length == 0:
        return [trace]
    found = []
    held = json.loads(_core.trace_info(trace))["totals"]["transactions"]
    there = held // length
    for number in range(min(there, most or there)):
        first = length * (number * there // min(there, most or there))
        found.append(folder / f"{trace.stem}-{first}.svt")
        _core.trace_cut(trace, found[-1], transactions=(first, first + length))
    return found


def misses_by(told: dict[str, Any], full: dict[str, Any]) -> tuple[float, float]:
    """Return by what share estimates miss the full run: cycles per transaction, and cycles for an instruction."""
    found = summary(told)
    per_instruction = found["cycles_per_instruction"]["mean"] / (full["cycles"] / full["instructions"]) - 1
    return found["cycles_per_transaction"]["mean"] / full["cycles_per_transaction"] - 1, per_instruction


def study(told: dict[str, Any], full: dict[str, Any], seed: int, count: int) -> "Study":
    """Hold the first ``count`` windows, in the order of this seed, to both figures of the full run."""
    timed = {window["point"]: window for window in told["windows"]}
    first = [timed[point] for point in order(len(told["points"]), seed) if point in timed][:count]
    found = summary(told | {"windows": first})

    def covers(name: str, true: float) -> bool:
        low, high = found[name]["interval_95"]
        return bool(low <= true <= high)

    low, high = found["cycles_per_transaction"]["interval_95"]
    return Study(
        covers("cycles_per_transaction", full["cycles_per_transaction"]),
        covers("cycles_per_instruction", full["cycles"] / full["instructions"]),
        (high - low) / (high + low),
    )


@dataclass(frozen=True)
class Study:
    """Whether an interval covers cycles per transaction and for an instruction, and half its width, as a share."""

    transaction: bool
    instruction: bool
    half_width: float


@dataclass
class Covered:
    """The studies of each full run, with one number of windows."""

    runs: list[list[Study]] = field(default_factory=list)

    @property
    def studies(self) -> int:
        """How many there are."""
        return sum(map(len, self.runs))

    def shares(self, name: str) -> list[float]:
        """Return the share of studies that cover a figure, of each full run."""
        return [fmean(getattr(one, name) for one in run) for run in self.runs]

    def told(self, name: str) -> str:
        """Tell the share of studies with its 95 % interval over full runs."""
        shares = self.shares(name)
        if len(shares) < 2:
            return f"{100 * sum(shares):.1f} % of {len(shares)} full run"
        half = 1.96 * stdev(shares) / sqrt(len(shares))
        return f"{100 * fmean(shares):.1f} % (± {100 * half:.1f} over {len(shares)} full runs)"

    def half_width(self) -> float:
        """Return the mean half of the intervals, as a share."""
        return fmean(one.half_width for run in self.runs for one in run)


@dataclass
class Compared:
    """Comparisons on so many common windows, beside full runs of the same machines."""

    count: int
    studies: int = 0
    covered: int = 0
    right: int = 0
    wrong: int = 0

    def add(self, designs: list[tuple[str, dict[str, Any], dict[str, Any]]], orders: int) -> None:
        """Compare every two machines of a piece, in every order of windows; a line for each two."""
        for (name, a, full_a), (other, b, full_b) in combinations(designs, 2):
            truth = full_a["cycles_per_transaction"] / full_b["cycles_per_transaction"]
            base = a if len(a["points"]) <= len(b["points"]) else b
            covered, right, wrong = 0, 0, 0
            for seed in range(1, orders + 1):
                places = order(len(base["points"]), seed)[: self.count]
                pair = (_at(a, nearest(a, base, places)), _at(b, nearest(b, base, places)))
                ratio, parts = ratio_of(*pair), parts_of(*pair)
                covered += abs(truth / ratio.mean - 1) <= parts.half_width
                found = verdict(ratio, parts)
                right += found * (truth - 1) > 0
                wrong += found * (truth - 1) < 0
            self.studies, self.covered = self.studies + orders, self.covered + covered
            self.right, self.wrong = self.right + right, self.wrong + wrong
            print(
                f"  {name} over {other}, {self.count} windows: {truth:.4f} in full runs, {ratio.mean:.4f} ± "
                f"{100 * parts.windows:.2f} % of windows, ± {100 * parts.half_width:.2f} % in all, in the last order; "
                f"covered by {covered} of {orders}, ranked rightly by {right}, wrongly by {wrong}",
                flush=True,
            )


def _at(told: dict[str, Any], points: list[int]) -> dict[str, Any]:
    """Return what the windows at these live-points tell."""
    timed = {window["point"]: window for window in told["windows"]}
    return told | {"windows": [timed[point] for point in points]}


def kept(path: Path | None, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a file keeps, or make it and keep it there."""
    if path is not None and path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    made = make()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made))
    return made


def full_run(piece: Path, machine: str, **options: Any) -> dict[str, Any]:
    """Return the figures of a full run that a study asks for, and why it is no oracle if it is none."""
    run = simulate(piece, machine, threads=1, **options)
    doubt = next((one.text for one in recorded(run) if one.rank == "invalid"), None)
    one = run["replications"][0]
    return {name: one[name] for name in ("cycles", "instructions", "cycles_per_transaction")} | {"invalid": doubt}


def table(found: dict[tuple[str, str], dict[int, Covered]]) -> None:
    """Print coverage by trace and machine, and of all."""
    print(
        "| trace, machine | full runs | " + " | ".join(f"{n} windows: covered, of an instruction, ±" for n in LOOKS),
        "|",
    )
    print("|---|---|" + "---|" * len(LOOKS))
    whole = {n: Covered([run for by_looks in found.values() for run in by_looks[n].runs]) for n in LOOKS}
    for (trace, machine), by_looks in [*found.items(), (("all", ""), whole)]:
        cells = [
            f"{100 * fmean(one.shares('transaction')):.1f} %, {100 * fmean(one.shares('instruction')):.1f} %, "
            f"{100 * one.half_width():.1f} %"
            for one in by_looks.values()
            if one.runs
        ]
        print(f"| {trace} {machine} | {len(by_looks[FIRST_STAGE].runs)} |", " | ".join(cells), "|")


def conclude(found: dict[tuple[str, str], dict[int, Covered]], compared: list[Compared], invalid: int) -> int:
    """Print the table and what it comes to; the exit code."""
    table(found)
    whole = Covered([run for by_looks in found.values() for run in by_looks[FIRST_STAGE].runs])
    print(
        f"{whole.studies} studies with {FIRST_STAGE} windows; cycles per transaction covered: "
        f"{whole.told('transaction')}; cycles for an instruction: {whole.told('instruction')}; "
        f"full runs not counted as invalid: {invalid}"
    )
    for one in compared:
        print(
            f"ratios of {one.count} windows covered: {one.covered} of {one.studies}; ranked as full runs are: "
            f"{one.right}, otherwise: {one.wrong}"
        )
    missed = whole.studies >= 200 and fmean(whole.shares("transaction")) < 0.935
    return 1 if missed or any(one.wrong for one in compared) else 0


#: Windows of the first look, and of the first stage.
LOOKS = (FIRST_LOOK, FIRST_STAGE)


def main(arguments: list[str]) -> int:
    """Run all studies; the exit code."""
    parser = argparse.ArgumentParser(description="How often the intervals of sampled simulation cover full runs.")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--pieces", type=int, default=100)
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--warm-up", type=int)
    parser.add_argument("--transactions", type=int)
    parser.add_argument("--most", type=int)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    window = {"warmup": options.warm_up, "transactions": options.transactions}
    found: dict[tuple[str, str], dict[int, Covered]] = {}
    invalid, first_seed = 0, options.first_seed
    compared = [Compared(count) for count in LOOKS]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Machines of one shape share live-points there, and they go with the piece that they belong to.
        os.environ["SERVSIM_CACHE"] = str(folder / "cache")
        for trace in options.traces:
            for piece in pieces(trace, options.pieces, options.most, folder):
                designs = []
                for text in options.machines:
                    machine, _, changes = text.partition(":")
                    overrides = [change for change in changes.split(",") if change]
                    for seed in range(first_seed, first_seed + options.seeds):
                        stem = f"{piece.stem} {text} {seed} {options.warm_up} {options.transactions}".replace("/", "_")
                        asked = {"overrides": overrides, "seed": seed, **window}
                        try:
                            told = kept(
                                options.keep and options.keep / f"{stem}.windows.json",
                                partial(sample, piece, machine, 0.5, threads=1, all_windows=True, **asked),
                            )
                        except UsageError as refused:
                            print(f"{piece.stem} {text} {seed} refused: {refused}", flush=True)
                            continue
                        full = kept(
                            options.keep and options.keep / f"{stem}.full.json",
                            partial(full_run, piece, machine, **asked),
                        )
                        if full["invalid"]:
                            invalid += 1
                            print(
                                f"{piece.stem} {text} {seed} not counted, full run invalid: {full['invalid']}",
                                flush=True,
                            )
                            continue
                        if seed == first_seed:
                            designs.append((text, told, full))
                        of_run = {
                            count: [study(told, full, number, count) for number in range(1, options.orders + 1)]
                            for count in LOOKS
                        }
                        row = found.setdefault(
                            (trace.stem.partition("-")[0], text), {count: Covered() for count in LOOKS}
                        )
                        for count, studies in of_run.items():
                            row[count].runs.append(studies)
                        off, off_instruction = misses_by(told, full)
                        known = reached(told)
                        inside = ", ".join(
                            f"{sum(one.transaction for one in studies)} with {count} windows (for an instruction "
                            f"{sum(one.instruction for one in studies)})"
                            for count, studies in of_run.items()
                        )
                        print(
                            f"{piece.stem} {text} {seed}: all {len(told['windows'])} windows {100 * off:+.2f} %, for "
                            f"an instruction {100 * off_instruction:+.2f} %; ± {100 * known['of_windows']:.2f} % of "
                            f"windows, ± {100 * known['of_order']:.2f} % of order, ± {100 * known['of_misses']:.2f} % "
                            f"of misses; of {options.orders} orders covered by {inside}",
                            flush=True,
                        )
                for one in compared:
                    one.add(designs, options.orders)
                first_seed += options.seeds
                shutil.rmtree(folder / "cache", ignore_errors=True)
                if piece.parent == folder:
                    piece.unlink()
    return conclude(found, compared, invalid)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
