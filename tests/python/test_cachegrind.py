"""Counts of one processor equal those of an independent simulator, Valgrind's cachegrind, to the unit.

One deterministic program runs under lackey, which writes its references, and under cachegrind, which
simulates them; servsim reads lackey's trace. Instructions and data are compared apart, since
cachegrind's first-level caches are split and servsim's is one. What differs is only how an access that
crosses into a second line is counted:

- servsim counts every line that is fetched;
- cachegrind counts the access once if either line is missed, and a load and store of the same bytes by
  one instruction (lackey's ``M``) as one read.

So a small model of an LRU cache counts both ways: its lines must be servsim's, its accesses
cachegrind's. Where no access misses two lines, the two simulators agree without it.
"""

import functools
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import servsim

SERVSIM = Path(sys.executable).with_name("servsim")
MACHINE = Path(servsim.__file__).with_name("machines") / "foglia-2004-4p.toml"
PROGRAM = Path(__file__).with_name("cachegrind_program.c")

#: Size in bytes, ways, line in bytes of cachegrind's caches of instructions and of data.
CACHES = [
    ((512, 1, 32), (4096, 2, 64)),
    ((1024, 2, 64), (8192, 4, 32)),
    ((2048, 8, 32), (32768, 8, 64)),
    ((1024, 2, 128), (16384, 1, 128)),
]

Cache = tuple[int, int, int]


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done


def valgrind(*arguments: object, cwd: Path) -> None:
    """Run Valgrind without address-space randomisation and with an empty environment."""
    clean = ["env", "-i", f"PATH={os.environ['PATH']}", "setarch", "-R"]
    run(*clean, "valgrind", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the program and lackey's trace of it."""
    if platform.machine() != "x86_64":
        pytest.skip("the program is written for x86-64")
    if shutil.which("valgrind") is None:
        if shutil.which("apt-get") is not None:
            pytest.fail("valgrind is missing: run `make deps FOR=test`")
        pytest.skip("valgrind is not here, and there is no apt-get to install it with")
    folder = tmp_path_factory.mktemp("cachegrind")
    flags = ["-O1", "-static", "-nostdlib", "-fno-stack-protector", "-fcf-protection=none", "-fno-builtin"]
    run("cc", *flags, "-o", folder / "program", PROGRAM)
    valgrind("--tool=lackey", "--trace-mem=yes", "--log-file=all.lackey", "./program", cwd=folder)
    for only in ("fetch", "data"):
        run(SERVSIM, "trace", "export", folder / "all.lackey", "--only", only, "-o", folder / f"{only}.raw16")
    return folder


def cachegrind(folder: Path, instructions: Cache, data: Cache) -> dict[str, int]:
    """Return cachegrind's events, by the names of its file format."""
    options = [f"--{name}={','.join(map(str, cache))}" for name, cache in (("I1", instructions), ("D1", data))]
    valgrind("--tool=cachegrind", *options, "--LL=1048576,16,128", "--cachegrind-out-file=out", "./program", cwd=folder)
    lines = (folder / "out").read_text().splitlines()
    events = next(line for line in lines if line.startswith("events:")).split()[1:]
    summary = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return dict(zip(events, map(int, summary), strict=True))


def servsim(trace: Path, cache: Cache) -> tuple[dict[str, int], int]:
    """Return the references by kind and the misses of one processor."""
    size, ways, line = cache
    settings = {
        "processors": 1,
        "protocol.name": '"mesi"',
        "cache.size": f'"{size} B"',
        "cache.associativity": ways,
        "cache.line": f'"{line} B"',
    }
    options = [f"--set={key}={value}" for key, value in settings.items()]
    done = run(SERVSIM, "simulate", trace, "-m", MACHINE, "--engine", "functional", "--json", *options)
    found = json.loads(done.stdout)["replications"][0]
    kinds = {kind: sum(modes.values()) for kind, modes in found["references_by_kind"].items()}
    return kinds, sum(found["misses"]["total"].values())


@functools.cache
def accesses(folder: Path, kinds: str) -> list[tuple[int, int]]:
    """Return first and last byte of lackey's accesses of the given kinds."""
    found = []
    with (folder / "all.lackey").open() as file:
        for line in file:
            if line[0] in "I " and line[:2].strip() in kinds:
                address, size = line[3:].split(",")
                start = int(address, 16)
                found.append((start, start + int(size) - 1))
    return found


def model(stream: list[tuple[int, int]], cache: Cache) -> tuple[int, int]:
    """Return the lines and the accesses that miss in an LRU cache."""
    size, ways, length = cache
    sets: list[list[int]] = [[] for _ in range(size // ways // length)]
    lines = missed = 0
    for first, last in stream:
        before = lines
        for line in range(first // length, last // length + 1):
            held = sets[line % len(sets)]
            if line in held:
                held.remove(line)
            else:
                lines += 1
                if len(held) == ways:
                    del held[0]
            held.append(line)
        missed += lines > before
    return lines, missed


@pytest.mark.parametrize(("instructions", "data"), CACHES)
def test_misses_of_one_processor_are_those_of_cachegrind(
    traced: Path, instructions: Cache, data: Cache, capsys: pytest.CaptureFixture[str]
) -> None:
    events = cachegrind(traced, instructions, data)
    fetches, fetched = servsim(traced / "fetch.raw16", instructions)
    moved, missed = servsim(traced / "data.raw16", data)
    modified = len(accesses(traced, "M"))
    assert fetches == {"fetch": events["Ir"], "load": 0, "store": 0}
    assert moved == {"fetch": 0, "load": events["Dr"], "store": events["Dw"] + modified}
    compared = (
        ("I1", instructions, "I", fetched, events["I1mr"]),
        ("D1", data, "LSM", missed, events["D1mr"] + events["D1mw"]),
    )
    for name, cache, kinds, ours, theirs in compared:
        lines, crossing = model(accesses(traced, kinds), cache)
        with capsys.disabled():
            print(
                f"\n{name} {cache[0]} B, {cache[1]} ways, {cache[2]} B lines: servsim {ours:,} lines missed, "
                f"of them {ours - lines + crossing:,} accesses; cachegrind {theirs:,} accesses missed",
                end="",
            )
        assert ours == lines, "every line that is fetched"
        assert theirs == crossing, "every access that misses"
        assert theirs > 100, "a comparison of something"
