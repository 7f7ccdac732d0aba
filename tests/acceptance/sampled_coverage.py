"""Hold the intervals of sampled simulation to full runs: pieces of traces, machines and seeds.

Usage: sampled_coverage.py [--pieces TRANSACTIONS] [--machines NAME[:KEY=VALUE,...] ...] [--seeds N] [--orders N]
[--warm-up N] [--transactions N] TRACE...

Every trace is cut into pieces of so many transactions (default 100, the whole with 0). Of every piece, machine and
seed all windows are timed once, and the full run. What a window takes depends on its live-point and the seed alone, so
every order in which windows could have been chosen (`--orders`, default 20) is a study: its first stage of windows,
and whether their interval covers the full run. A line for each piece, machine and seed: how far all windows together
miss the full run (what no choice of windows mends), and how many orders cover its cycles per transaction, and its
cycles for an instruction (which leaves out the ends of transactions). Lines go out as they are made. Exits 1 if, of at
least 200 studies, fewer than 93.5 % are covered.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.errors import UsageError
from servsim.sampling import reached, sample, summary
from servsim.simulation import simulate
from servsim.statistics.sampling import FIRST_STAGE, order

MACHINES = (
    "foglia-2004-4p",
    "foglia-2004-4p:bus.memory_read=40 cycles",
    "foglia-2004-4p:bus.bytes_per_cycle=2 B",
)


def pieces(trace: Path, length: int, folder: Path) -> list[Path]:
    """Cut a trace into pieces of ``length`` transactions."""
    if length == 0:
        return [trace]
    found = []
    held = json.loads(_core.trace_info(trace))["totals"]["transactions"]
    for first in range(0, held - length + 1, length):
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
    return inside, abs(per_instruction) <= known["of_windows"] * (1 + per_instruction)


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
    options = parser.parse_args(arguments)
    window = {"warmup": options.warm_up, "transactions": options.transactions}
    covered, narrow, studies = 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trace in options.traces:
            for piece in pieces(trace, options.pieces, folder):
                for text in options.machines:
                    machine, _, changes = text.partition(":")
                    overrides = [change for change in changes.split(",") if change]
                    for seed in range(1, options.seeds + 1):
                        points = folder / f"{piece.stem}-{machine}.live"
                        try:
                            told = sample(
                                piece,
                                machine,
                                0.5,
                                overrides=overrides,
                                seed=seed,
                                threads=1,
                                live_points=points,
                                all_windows=True,
                                **window,
                            )
                        except UsageError as refused:
                            print(f"{piece.stem} {text} {seed} refused: {refused}", flush=True)
                            continue
                        run = simulate(piece, machine, overrides=overrides, seed=seed, threads=1, **window)
                        full = run["replications"][0]
                        both = [study(told, full, number) for number in range(1, options.orders + 1)]
                        inside, close = (sum(found) for found in zip(*both, strict=True))
                        covered, narrow, studies = covered + inside, narrow + close, studies + len(both)
                        per_transaction, per_instruction = misses_by(told, full)
                        known = reached(told)
                        print(
                            f"{piece.stem} {text} {seed}: all {len(told['windows'])} windows "
                            f"{100 * per_transaction:+.2f} % (instructions for a transaction ± "
                            f"{100 * known['of_ends']:.2f} %), for an instruction {100 * per_instruction:+.2f} ± "
                            f"{100 * known['of_windows']:.2f} %; covered by {inside} of {len(both)} orders, for an "
                            f"instruction by {close}",
                            flush=True,
                        )
                for points in folder.glob(f"{piece.stem}-*.live"):
                    points.unlink()
                if piece.parent == folder:
                    piece.unlink()
    print(f"covered: {covered} of {studies}; cycles for an instruction: {narrow} of {studies}")
    return 1 if studies >= 200 and covered < 0.935 * studies else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(sys.argv[1:]))
