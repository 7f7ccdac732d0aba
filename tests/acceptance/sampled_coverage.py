"""Hold the intervals of sampled simulation to full runs: pieces of traces, machines and seeds.

Usage: sampled_coverage.py [--pieces TRANSACTIONS] [--machines NAME[:KEY=VALUE,...] ...] [--seeds N] [--orders N]
[--warm-up N] [--transactions N] [--most PIECES] TRACE...

Every trace is cut into pieces of so many transactions (default 100, the whole with 0). Of every piece, machine and
seed all windows are timed once, and the full run. What a window takes depends on its live-point and the seed alone, so
every order in which windows could have been chosen (`--orders`, default 20) is a study: its first stage of windows,
and whether their interval covers the full run. A line for each piece, machine and seed: how far all windows together
miss the full run (what no choice of windows mends), and how many orders cover its cycles per transaction, and its
cycles for an instruction (which leaves out the ends of transactions). Lines go out as they are made. Every two machines
of a piece are compared on common windows as well: a line says how often the interval of their ratio covers that of the
full runs, and how often the better one is found, rightly or wrongly. A full run whose figures are invalid, such as of a
piece so short that users ran out of work in it, is no oracle: it is named, and its studies are not counted. Exits 1 if,
of at least 200 studies, fewer than 93.5 % are covered, or if a comparison found another winner than the full runs.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
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
    chosen = told | {"windows": first}
    per_transaction, per_instruction = misses_by(chosen, full)
    known = reached(chosen)
    inside = abs(per_transaction) <= known["half_width"] * (1 + per_transaction)
    half = known["of_windows"] + known["of_idle"] + known["of_misses"]
    return inside, abs(per_instruction) <= half * (1 + per_instruction)


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
    options = parser.parse_args(arguments)
    window = {"warmup": options.warm_up, "transactions": options.transactions}
    covered, narrow, studies, invalid, compared = 0, 0, 0, 0, Compared()
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
                        try:
                            told = sample(
                                piece,
                                machine,
                                0.5,
                                overrides=overrides,
                                seed=seed,
                                threads=1,
                                all_windows=True,
                                **window,
                            )
                        except UsageError as refused:
                            print(f"{piece.stem} {text} {seed} refused: {refused}", flush=True)
                            continue
                        run = simulate(piece, machine, overrides=overrides, seed=seed, threads=1, **window)
                        if doubt := next((one for one in recorded(run) if one.rank == "invalid"), None):
                            invalid += 1
                            print(f"{piece.stem} {text} {seed} not counted, full run invalid: {doubt.text}", flush=True)
                            continue
                        full = run["replications"][0]
                        if seed == 1:
                            designs.append((text, told, full))
                        both = [study(told, full, number) for number in range(1, options.orders + 1)]
                        inside, close = (sum(found) for found in zip(*both, strict=True))
                        covered, narrow, studies = covered + inside, narrow + close, studies + len(both)
                        per_transaction, per_instruction = misses_by(told, full)
                        known = reached(told)
                        print(
                            f"{piece.stem} {text} {seed}: all {len(told['windows'])} windows "
                            f"{100 * per_transaction:+.2f} % (instructions for a transaction ± "
                            f"{100 * known['of_ends']:.2f} %), for an instruction {100 * per_instruction:+.2f} ± "
                            f"{100 * known['of_windows']:.2f} % of windows, ± {100 * known['of_idle']:.2f} % of idle "
                            f"time, ± {100 * known['of_misses']:.2f} % of misses; covered by {inside} of {len(both)} "
                            f"orders, for an instruction by {close}",
                            flush=True,
                        )
                compared.add(designs, options.orders)
                shutil.rmtree(folder / "cache", ignore_errors=True)
                if piece.parent == folder:
                    piece.unlink()
    print(
        f"covered: {covered} of {studies}; cycles for an instruction: {narrow} of {studies}; full runs not counted as "
        f"invalid: {invalid}"
    )
    print(
        f"ratios covered: {compared.covered} of {compared.studies}; ranked as full runs are: {compared.right}, "
        f"otherwise: {compared.wrong}"
    )
    return 1 if compared.wrong or (studies >= 200 and covered < 0.935 * studies) else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
