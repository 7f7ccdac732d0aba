"""`servsim rset` as a user types it, and Python as an unmodified program, in a guest of four nodes."""

import re
from pathlib import Path

import numa_guest
import pytest
from servsim.rset import preload_library

# Two to three minutes, most of them of an emulated kernel that moves processors.
pytestmark = [pytest.mark.guest, pytest.mark.acceptance]

PROGRAM = numa_guest.ROOT / "tests/python/rset/in_guest.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the guest says of each check, by the check's name."""
    folder: Path = tmp_path_factory.mktemp("guest")
    files = numa_guest.with_python(folder) | {"check.py": PROGRAM.read_bytes(), "tmp/empty": b""}
    files["waiting.py"] = (numa_guest.ROOT / "tests/python/waiting.py").read_bytes()
    library = preload_library()
    files |= {"servsim/Cargo.toml": b"", str("servsim" / library.relative_to(numa_guest.ROOT)): library.read_bytes()}
    lines = numa_guest.boot(folder, files, "/usr/bin/python3", "/check.py")
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told and told[-1] == "done", lines
    return {re.split(r" ok | failed: ", line)[0]: line for line in told[:-1]}


_NAMES = re.search(r"^CHECKS = \((.*)\)$", PROGRAM.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("name", _NAMES.group(1).split(", ") if _NAMES else [])
def test_in_a_guest_of_four_nodes(said: dict[str, str], name: str) -> None:
    assert said[name].startswith(f"{name} ok "), said[name]
