"""The loop closed: a kernel captured, advice for it, applied in a guest of four nodes, and fetches counted there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numa_guest
import pytest
from servsim.monitor.filters import MOST_COUNTERS, Region, program
from servsim.monitor.refine import run
from servsim.placement.advise import advise
from servsim.rset import preload_library

# A capture, a study and a guest for each: ten minutes where nothing else runs.
pytestmark = [pytest.mark.guest, pytest.mark.acceptance, pytest.mark.timeout(5400)]

SERVSIM = Path(sys.executable).with_name("servsim")
KERNELS = {"fft": ("32", "64 KiB"), "ocean": ("66", "64 KiB")}
#: Captures that are there already, as KERNEL-SIZE-4.svt.
TRACES = os.environ.get("SERVSIM_KERNEL_TRACES")
#: The placement that the advice is compared with.
BEFORE = 'policy = "striped"\n[threads]\norder = "pinned"\n'


#: The machine that is asked: four processors, one in each node.
MACHINE = ["processors=4", "node.placement=striped", "node.threads=pinned"]


def _advice(folder: Path, kernel: str) -> dict[str, Any]:
    """Capture a kernel, ask for advice, and simulate what its data structures fetch from far without it and with it."""
    size, cache = KERNELS[kernel]
    trace = Path(TRACES or folder) / f"{kernel}-{size}-4.svt"
    if not trace.exists():
        settings = [word for key in (f"kernel={kernel}", "threads=4", f"size={size}") for word in ("--set", key)]
        words = [SERVSIM, "capture", "kernels", *settings, "--transactions", "1", "-o", trace]
        subprocess.run(words, capture_output=True, check=True)
    settings = [*MACHINE, f"l2.size={cache}"]
    found = advise(trace, "brock-2001-4x4", overrides=settings, replications=0)
    file = folder / f"{kernel}.toml"
    file.write_text(found["placement"])
    found["simulated"] = {
        "before": _remote_share(trace, kernel, settings, None),
        "after": _remote_share(trace, kernel, settings, file),
    }
    return found


def _remote_share(trace: Path, kernel: str, settings: list[str], placement: Path | None) -> float:
    """Return the share of fetches of named data that another node serves: what a card sees, of everything."""
    counted = {}
    for mode in ("card", "simulator"):
        text = program([Region(0, (MOST_COUNTERS - 1024) * 4096)], 4096, mode, ['types = "read read-exclusive"'])
        options: dict[str, Any] = {"overrides": settings, "placement": placement, "replications": 1, "seed": 2}
        found = run(trace, "brock-2001-4x4", text, **options)["replications"][0]["monitor"]["histogram"]
        named = zip(found["data"], found["count"], strict=True)
        counted[mode] = sum(count for data, count in named if data and data.startswith(f"{kernel}."))
    return counted["card"] / counted["simulator"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What was predicted, what the guest says, and what the plug-in counted before and after, by kernel."""
    folder = tmp_path_factory.mktemp("loop")
    advice = {kernel: _advice(folder, kernel) for kernel in KERNELS}
    return applied(folder, advice)


def _dynamic_kernel() -> Path:
    """Return the kernels as a program that a library can be loaded into: `make build` links them statically."""
    target = numa_guest.ROOT / "target" / "dynamic"
    words = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "servsim-kernels", "--target-dir", str(target)]
    subprocess.run([*words, "--bin", "servsim-kernel"], cwd=numa_guest.ROOT, check=True)
    return target / "release" / "servsim-kernel"


def applied(folder: Path, advice: dict[str, Any]) -> dict[str, Any]:
    """Apply advice in the guest."""
    plugin, counted = folder / "remote.so", folder / "counted"
    source = numa_guest.ROOT / "tests/python/rset/remote.c"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", plugin], check=True)
    files = numa_guest.with_python(folder) | {"before.toml": BEFORE.encode(), "tmp/empty": b""}
    files |= {f"{kernel}.toml": found["placement"].encode() for kernel, found in advice.items()}
    for name in ("in_guest.py", "loop_in_guest.py"):
        files[name] = (numa_guest.ROOT / "tests/python/rset" / name).read_bytes()
    files["waiting.py"] = (numa_guest.ROOT / "tests/python/waiting.py").read_bytes()
    library = preload_library()
    files |= {"servsim/Cargo.toml": b"", str("servsim" / library.relative_to(numa_guest.ROOT)): library.read_bytes()}
    files |= numa_guest.with_libraries({"servsim-kernel": _dynamic_kernel()})
    # The processors' outer caches are those that the advice was given for.
    size = {int(KERNELS[kernel][1].split()[0]) << 10 for kernel in advice}
    assert len(size) == 1
    arguments = (
        f"{plugin},out={counted},per=4,node={numa_guest.MEBIBYTES_PER_NODE << 20},size={size.pop()},ways=4,line=32"
    )
    wanted = {
        kernel: [kernel, "--threads", "4", "--size", KERNELS[kernel][0], "--iterations", "2"] for kernel in advice
    }
    files["kernels.json"] = json.dumps(wanted).encode()
    lines = numa_guest.boot(folder, files, "/usr/bin/python3", "/loop_in_guest.py", ["-plugin", arguments])
    told = dict(
        re.split(r" ok ", line.removeprefix("servsim-guest: ").strip(), maxsplit=1)
        for line in lines
        if line.startswith("servsim-guest: ") and " ok " in line
    )
    runs = [json.loads(line) for line in counted.read_text().splitlines()]
    assert set(told) == set(advice) and len(runs) == 2 * len(advice), lines[-30:]
    return {
        kernel: {
            "simulated": advice[kernel]["simulated"],
            "guest": json.loads(re.sub(r" \([0-9.]+ s\)$", "", told[kernel])),
            "counted": {"before": remote_share(runs[2 * at]), "after": remote_share(runs[2 * at + 1])},
        }
        for at, kernel in enumerate(advice)
    }


def remote_share(counts: dict[str, Any]) -> float:
    """Return the share of the program's fetches from memory that lies in another node.

    What caches hand over is left out: lines of barriers above all, which are no data of the kernel.
    """
    rows = counts["user_by_memory"]
    return 1 - sum(row[asker] for asker, row in enumerate(rows)) / sum(map(sum, rows))


@pytest.mark.parametrize("kernel", KERNELS)
def test_pages_lie_where_the_advice_says(said: dict[str, Any], kernel: str) -> None:
    for found in (said[kernel]["guest"]["before"], said[kernel]["guest"]["after"]):
        assert found["pages"] > 100
        assert found["elsewhere"] <= 0.01 * found["pages"], said[kernel]


@pytest.mark.parametrize("kernel", KERNELS)
def test_fetches_from_other_nodes_fall_as_simulated(said: dict[str, Any], kernel: str) -> None:
    simulated, counted = said[kernel]["simulated"], said[kernel]["counted"]
    fall = counted["before"] - counted["after"]
    assert fall > 0.3
    assert abs(fall - (simulated["before"] - simulated["after"])) <= 0.10, said[kernel]
