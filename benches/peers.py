"""Time whole commands beside peers and a bare loop, on one trace in one run; the table of docs/performance.md.

Usage: peers.py [--page docs/performance.md] [--references N] [--repeat N]. The trace is OLTP-like, of four
processors, in raw16 (`cargo bench -p servsim-machine --bench probe`); all commands are run in turn, each ``--repeat``
times, and the least processor time counts. Start-up, which a trace of a few references tells, is taken off. Peers are
those that package managers have: cachegrind (Debian's valgrind), which simulates one processor's caches while a program
runs, and pycachesim (PyPI, installed beside the build), a library for one processor that Python gives the addresses.
Simulators of several coherent processors are not among them. The last line is JSON, as `make bench` reads it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

from common import ROOT, built, write_between

SERVSIM = Path(sys.executable).with_name("servsim")
MARKS = ("<!-- peers: written by benches/peers.py --page -->", "<!-- peers end -->")
MACHINE = """processors = 4
[cache]
organisation = "split"
size = "32 KiB"
associativity = 8
line = "64 B"
[l2]
size = "8 MiB"
associativity = 16
sharing = "shared"
"""
#: The same caches of one processor, for the peers that have no more.
CACHEGRIND = ("--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
PYCACHESIM = "pycachesim==0.3.1"
#: Given the addresses of one processor's data, it prints processor seconds for each of them.
LIBRARY = """
import sys, time
from cachesim import Cache, CacheSimulator, MainMemory
addresses = [int.from_bytes(b[:8], "little") for b in iter(lambda f=open(sys.argv[1], "rb"): f.read(16), b"")
             if b[8] & 127 != 2 and b[12] == 0]
memory = MainMemory()
outer = Cache("outer", 8192, 16, 64, "LRU")
inner = Cache("inner", 64, 8, 64, "LRU", store_to=outer, load_from=outer)
memory.load_to(outer)
memory.store_from(outer)
simulator = CacheSimulator(inner, memory)
start = time.process_time()
simulator.load(addresses, length=8)
print((time.process_time() - start) / len(addresses))
"""
#: References of the trace that start-up is told from.
FEW = 4000


def run(*words: object) -> tuple[float, str, str]:
    """Run a command; its processor time in seconds, and what it printed and said."""
    before = os.times()
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, check=True)
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, done.stdout, done.stderr


def library(folder: Path) -> Path | None:
    """Return a Python that has pycachesim, installed where it is not; none where it cannot be."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    done = subprocess.run([python, "-m", "pip", "install", "-q", PYCACHESIM], capture_output=True, check=False)
    return python if done.returncode == 0 else None


class Commands:
    """What is timed: each returns its rate in millions of references a second."""

    def __init__(self, probe: str, folder: Path, references: int) -> None:
        self.probe, self.folder = probe, folder
        self.whole, self.few, self.short = (folder / f"{name}.raw16" for name in ("whole", "few", "short"))
        self.machine = folder / "machine.toml"
        self.machine.write_text(MACHINE)
        counts = ((self.whole, references), (self.few, FEW), (self.short, references // 4))
        for path, count in counts:
            run(probe, "write", path, count)
        self.references, self.misses = references, {"probe": 0, "command": 0}

    def bare(self) -> float:
        """Time the bare loop, records at hand."""
        told = json.loads(run(self.probe, self.whole)[1])
        self.misses["probe"] = told["misses"]
        return float(self.references / told["seconds"] / 1e6)

    def servsim(self, classes: str) -> float:
        """Time the command that a user types, without its start-up."""

        def once(trace: Path) -> tuple[float, str]:
            words = ("--engine", "functional", "--threads", 1, "--set", f"classification.replacement={classes}")
            seconds, told, _ = run(SERVSIM, "simulate", trace, "-m", self.machine, *words, "--json")
            return seconds, told

        started, (seconds, told) = once(self.few)[0], once(self.whole)
        self.misses["command"] = sum(json.loads(told)["replications"][0]["misses"]["total"].values())
        return self.references / (seconds - started) / 1e6

    def cachegrind(self) -> float:
        """Time cachegrind on the bare loop, which stands for any program: references are those that it counts."""

        def once(trace: Path) -> tuple[float, int]:
            seconds, _, said = run("valgrind", *CACHEGRIND, "--cachegrind-out-file=/dev/null", self.probe, trace)
            counted = [re.search(rf"{name}\s+refs:\s+([\d,]+)", said) for name in "ID"]
            return seconds, sum(int(found[1].replace(",", "")) for found in counted if found is not None)

        (started, few), (seconds, many) = once(self.few), once(self.short)
        return (many - few) / (seconds - started) / 1e6

    def pycachesim(self, python: Path) -> float:
        """Time pycachesim on the data of one processor, addresses at hand."""
        return 1e-6 / float(run(python, "-c", LIBRARY, self.short)[1])


def main() -> int:
    """Time all commands in turn; the exit code."""
    read = argparse.ArgumentParser()
    read.add_argument("--page", type=Path)
    read.add_argument("--references", type=int, default=24_000_000)
    read.add_argument("--repeat", type=int, default=3)
    given = read.parse_args()
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        commands = Commands(built("probe"), Path(name), given.references)
        peers: dict[str, Callable[[], float]] = {
            "bare loop: tags and directory, records at hand": commands.bare,
            "`servsim simulate`, merged classes": lambda: commands.servsim("merged"),
            "`servsim simulate`, exact classes": lambda: commands.servsim("exact"),
            "cachegrind, a program while it runs, one processor": commands.cachegrind,
        }
        python = library(ROOT / "target" / "peers")
        if python is not None:
            peers["pycachesim, data of one processor, addresses at hand"] = lambda: commands.pycachesim(python)
        for _ in range(given.repeat):
            for what, timed in peers.items():
                rates[what] = max(rates.get(what, 0.0), timed())
                print(f"{what}: {rates[what]:.1f} M references/s", file=sys.stderr, flush=True)
        misses = commands.misses
    bare, whole, *_ = rates.values()
    print(f"misses: {misses['probe']:,} of the bare loop, {misses['command']:,} of the command", file=sys.stderr)
    if given.page is not None:
        rows = [f"| {what} | {rate:.1f} | {whole / rate:.2f} |" for what, rate in rates.items()]
        told = (
            f"{given.references:,} references, each command {given.repeat} times in turn, least processor time, "
            f"start-up taken off. First-level misses: {misses['probe']:,} of the bare loop, {misses['command']:,} of "
            "the command."
        )
        head = "| what | M references/s | the command, merged, is so many times as fast |"
        write_between(given.page, MARKS, told, [head, "|---|---|---|", *rows])
    figures = [{"name": what, "value": round(rate, 2), "unit": "M references/s"} for what, rate in rates.items()]
    figures.append({"name": "the command, merged, of the bare loop", "value": round(whole / bare, 3), "unit": "share"})
    print(json.dumps({"figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
