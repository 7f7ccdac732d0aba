"""Hold the intervals of sampled simulation to full runs: pieces of traces, machines and seeds.

Usage: sampled_coverage.py [--pieces TRANSACTIONS] [--machines NAME[:KEY=VALUE,...] ...] [--seeds N] [--orders N]
[--warm-up N] [--transactions N] [--most PIECES] [--keep FOLDER] TRACE...

Every trace is cut into pieces of so many transactions (default 100, the whole with 0). Of every piece, machine and
seed all windows are timed once, and the full run. What a window takes depends on its live-point and the seed alone, so
every order in which windows could have been chosen (`--orders`, default 20) is a study: its first stage of windows,
and whether their interval covers the full run. A line for each piece, machine and seed: how far all windows together
miss the full run (what no choice of windows mends), and how many orders cover its cycles per transaction, and its
cycles for an instruction. Lines go out as they are made. Orders of one full run hang together, so the interval of a
coverage is over full runs. With `--keep` windows and full runs are kept, and taken from there the next time. Every two
machines of a piece are compared on common windows as well: a line says how often the interval of their ratio covers
that of the full runs, and how often the better one is found, rightly or wrongly. A full run whose figures are invalid,
such as of a piece so short that users ran out of work in it, is no oracle: it is named, and its studies are not
counted. Exits 1 if, of at least 200 studies, fewer than 93.5 % are covered, or if a comparison found another winner
than the full runs.
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
from servsim.statistics.sampling import FIRST_STAGE, order

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


def study(told: dict[str, Any], full: dict[str, Any], seed: int) -> tuple[bool, bool]:
    """Say whether the first stage of windows, in the order of this seed, covers both figures of the full run."""
    timed = {window["point"]: window for window in told["windows"]}
    first = [timed[point] for point in order(len(told["points"]), seed) if point in timed][:FIRST_STAGE]
    found = summary(told | {"windows": first})

    def covers(name: str, true: float) -> bool:
        low, high = found[name]["interval_95"]
        return bool(low <= true <= high)

    return (
        covers("cycles_per_transaction", full["cycles_per_transaction"]),
        covers("cycles_per_instruction", full["cycles"] / full["instructions"]),
    )


@dataclass
class Covered:
    """Coverage of one figure: the share of orders that cover it, of each full run."""

    shares: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """Tell the share of studies with its 95 % interval over full runs."""
        count = len(self.shares)
        if count < 2:
            return f"{100 * sum(self.shares):.1f} % of {count} full run"
        half = 1.96 * stdev(self.shares) / sqrt(count)
        return f"{100 * fmean(self.shares):.1f} % (± {100 * half:.1f} over {count} full runs)"


@dataclass
class Compared:
    """Comparisons on common windows so far, beside full runs of the same machines."""

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
                places = order(len(base["points"]), seed)[:FIRST_STAGE]
                pair = (_at(a, nearest(a, base, places)), _at(b, nearest(b, base, places)))
                ratio, parts = ratio_of(*pair), parts_of(*pair)
                covered += abs(truth / ratio.mean - 1) <= parts.half_width
                found = verdict(ratio, parts)
                right += found * (truth - 1) > 0
                wrong += found * (truth - 1) < 0
            self.studies, self.covered = self.studies + orders, self.covered + covered
            self.right, self.wrong = self.right + right, self.wrong + wrong
            print(
                f"  {name} over {other}: {truth:.4f} in full runs, {ratio.mean:.4f} ± {100 * parts.windows:.2f} % of "
                f"windows, ± {100 * parts.half_width:.2f} % in all, in the last order; covered by {covered} of "
                f"{orders}, ranked rightly by {right}, wrongly by {wrong}",
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


def main(arguments: list[str]) -> int:
    """Run all studies; the exit code."""
    parser = argparse.ArgumentParser(description="How often the intervals of sampled simulation cover full runs.")
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--pieces", type=int, default=100)
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--warm-up", type=int)
    parser.add_argument("--transactions", type=int)
    parser.add_argument("--most", type=int)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    window = {"warmup": options.warm_up, "transactions": options.transactions}
    per_transaction, per_instruction, studies, invalid = Covered(), Covered(), 0, 0
    compared = Compared()
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
                    for seed in range(1, options.seeds + 1):
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
                        if seed == 1:
                            designs.append((text, told, full))
                        both = [study(told, full, number) for number in range(1, options.orders + 1)]
                        inside, close = (sum(found) for found in zip(*both, strict=True))
                        studies += len(both)
                        per_transaction.shares.append(inside / len(both))
                        per_instruction.shares.append(close / len(both))
                        off, off_instruction = misses_by(told, full)
                        known = reached(told)
                        print(
                            f"{piece.stem} {text} {seed}: all {len(told['windows'])} windows {100 * off:+.2f} %, for "
                            f"an instruction {100 * off_instruction:+.2f} %; ± {100 * known['of_windows']:.2f} % of "
                            f"windows, ± {100 * known['of_order']:.2f} % of order, ± {100 * known['of_misses']:.2f} % "
                            f"of misses; covered by {inside} of {len(both)} orders, for an instruction by {close}",
                            flush=True,
                        )
                compared.add(designs, options.orders)
                shutil.rmtree(folder / "cache", ignore_errors=True)
                if piece.parent == folder:
                    piece.unlink()
    print(
        f"{studies} studies; cycles per transaction covered: {per_transaction}; cycles for an instruction: "
        f"{per_instruction}; full runs not counted as invalid: {invalid}"
    )
    print(
        f"ratios covered: {compared.covered} of {compared.studies}; ranked as full runs are: {compared.right}, "
        f"otherwise: {compared.wrong}"
    )
    return 1 if compared.wrong or (studies >= 200 and fmean(per_transaction.shares) < 0.935) else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
