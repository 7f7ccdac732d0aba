"""Resource Sets where there are several nodes: a guest of four, page by page (`guest_check` of servsim-rset)."""

import json
import re
import subprocess
from pathlib import Path

import numa_guest
import pytest
from rset_c import compiled
from servsim.rset import preload_library

pytestmark = pytest.mark.guest

CHECKS = numa_guest.ROOT / "crates/servsim-rset/examples/guest_check/checks.rs"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the guest says of each check, by the check's name."""
    folder = tmp_path_factory.mktemp("guest")
    programs = {name: folder / name for name in ("elsewhere", "ruled")}
    for name, path in programs.items():
        source = numa_guest.ROOT / "tests/python/rset" / f"{name}.c"
        subprocess.run(["cc", "-O1", "-fno-builtin", "-pthread", source, "-o", path], check=True)
    in_c = compiled(folder, "c99")
    unmodified = numa_guest.with_libraries({**programs, "preload.so": preload_library(), "resource_sets": in_c})
    program = numa_guest.static_example("guest_check")
    lines = numa_guest.boot(folder, {"init": program, **unmodified}, removable=True)
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told[-1] == "done", lines
    return {re.split(r" ok | failed: ", line)[0]: line for line in told[:-1]}


def _names() -> list[str]:
    return re.findall(r'^    \("([^"]+)", [a-z_:]+\),$', CHECKS.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("name", _names())
def test_in_a_guest_of_four_nodes(said: dict[str, str], name: str) -> None:
    assert said[name].startswith(f"{name} ok "), said[name]


def test_every_check_ran(said: dict[str, str]) -> None:
    assert len(_names()) > 10
    assert list(said) == _names()


@pytest.mark.acceptance
def test_a_node_moves_a_hundred_times_under_load(tmp_path: Path) -> None:
    program = numa_guest.static_example("guest_check")
    lines = numa_guest.boot(tmp_path, {"init": program}, words="a-hundred-moves", limit_s=2400)
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told[-1] == "done", lines
    (moves,) = told[:-1]
    assert moves.startswith("a hundred moves ok "), moves
    found = json.loads(moves.removeprefix("a hundred moves ok "))
    assert len(found["milliseconds of a move"]) == 100


@pytest.mark.acceptance
def test_nodes_without_memory_or_without_processors(tmp_path: Path) -> None:
    program = numa_guest.static_example("guest_check")
    lines = numa_guest.boot(tmp_path, {"init": program}, words="nodes-that-lack-something", lacking=True)
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told[-1] == "done", lines
    assert told[0].startswith("nodes that lack something ok ") and len(told) == 2, told


#: Checks that go by how many nodes there are.
ON_ARM = ("topology", "orders", "local", "touch", "remote", "striped", "mappings", "process")


@pytest.mark.acceptance
def test_policies_and_processes_on_arm64_with_two_nodes(tmp_path: Path) -> None:
    lines = numa_guest.boot_arm(tmp_path, numa_guest.arm_example("guest_check"), " ".join(ON_ARM), limit_s=1200)
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told[-1] == "done", lines
    assert [re.split(r" ok | failed: ", line)[0] for line in told[:-1]] == list(ON_ARM)
    assert all(" ok " in line for line in told[:-1]), told
    assert len(json.loads(told[0].removeprefix("topology ok "))["memory"]) == numa_guest.ARM_NODES
