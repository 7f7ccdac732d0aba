"""The program in C that uses every function of `servsim_rset.h`, compiled."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "crates/servsim-rset-c/include/servsim_rset.h"
LIBRARY = ROOT / "target/release/libservsim_rset_c.so"
SOURCE = ROOT / "tests/python/rset/resource_sets.c"


def library() -> Path:
    """Return the shared library; skips where it is not compiled."""
    if not LIBRARY.is_file():
        pytest.skip("the library for C is not compiled: run make build")
    return LIBRARY


def compiled(folder: Path, language: str) -> Path:
    """Return the program, compiled as this language and linked with the library."""
    place = library().parent
    program = folder / "resource_sets"
    compiler = ["c++", "-x", "c++"] if language == "c++" else ["cc", f"-std={language}", "-D_GNU_SOURCE"]
    command = [*compiler, "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parent}", str(SOURCE), "-o", str(program)]
    subprocess.run([*command, f"-L{place}", "-lservsim_rset_c", f"-Wl,-rpath,{place}"], check=True)
    return program
