"""Beside numactl, hwloc-bind and libnuma in one guest of four nodes: what each can express, and what a call takes."""

import json
import re
import subprocess
from pathlib import Path

import numa_guest
import pytest
from rset_c import HEADER, library
from servsim.rset import preload_library

pytestmark = [pytest.mark.guest, pytest.mark.acceptance]

PACKAGES = ("numactl", "libnuma1", "hwloc-nox", "libhwloc15")
TOOLS = ("numactl", "hwloc-bind")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, dict[str, float]]]:
    """What the guest says."""
    folder: Path = tmp_path_factory.mktemp("peers")
    trees = {name: numa_guest.package(name) for name in PACKAGES}
    sources = numa_guest.ROOT / "tests/python/rset"
    programs = {name: folder / name for name in ("where", "per_call")}
    with_c = [f"-I{HEADER.parent}", f"-L{library().parent}", "-lservsim_rset_c", f"-Wl,-rpath,{library().parent}"]
    for name, path in programs.items():
        words = ["-O1", "-fno-builtin", "-pthread", sources / f"{name}.c", "-o", path]
        subprocess.run(["cc", *words, *(with_c if name == "per_call" else [])], check=True)
    found = [tree / "usr/bin" / tool for tree in trees.values() for tool in TOOLS]
    tools = {f"usr/bin/{path.name}": path for path in found if path.exists()}
    libraries = {
        f"usr/lib/x86_64-linux-gnu/{path.name}": path
        for tree in trees.values()
        for path in tree.glob("usr/lib/x86_64-linux-gnu/*.so.*")
    }
    files = numa_guest.with_python(folder) | numa_guest.with_libraries({**programs, **tools, **libraries})
    for name in ("in_guest.py", "peers_in_guest.py"):
        files[name] = (sources / name).read_bytes()
    files["waiting.py"] = (numa_guest.ROOT / "tests/python/waiting.py").read_bytes()
    preload = preload_library()
    files |= {"servsim/Cargo.toml": b"", str("servsim" / preload.relative_to(numa_guest.ROOT)): preload.read_bytes()}
    lines = numa_guest.boot(folder, files, "/usr/bin/python3", "/peers_in_guest.py")
    told = re.findall(r"servsim-guest: (\w+) ok (\{.*\})", "\n".join(lines))
    assert len(told) == 2, lines[-20:]
    return {name: json.loads(text) for name, text in told}


def test_every_tool_does_what_it_can_express_and_only_ours_all_of_it(
    said: dict[str, dict[str, dict[str, float]]],
) -> None:
    can = said["what_each_can_express"]
    assert {tool: len(wishes) for tool, wishes in can.items()} == {"servsim rset run": 6, "numactl": 3, "hwloc-bind": 3}
    assert all(share > 0.99 for share in can["servsim rset run"].values()), can
    for tool in ("numactl", "hwloc-bind"):
        assert can[tool]["node 3"] > 0.99 and can[tool]["the writing thread's node"] > 0.99, can
        # Huge pages put 512 neighbours into one node, which neither keeps out.
        assert 0.2 < can[tool]["stripes of a page"] < 0.99, can


def test_what_a_call_takes_is_known_of_all(said: dict[str, dict[str, dict[str, float]]]) -> None:
    took = said["time_per_call"]
    assert len(took) == 7 and all(float(least) > 0 for least in took.values())
