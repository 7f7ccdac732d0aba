"""Resource Sets from C: the header says what the library has, and a program in C finds every function as it is told."""

import re
import subprocess
from pathlib import Path

import pytest
from rset_c import HEADER, SOURCE, compiled, library


def _declared() -> set[str]:
    code = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.S)
    return set(re.findall(r"\b(servsim_\w+)\(", code))


def test_the_header_declares_what_the_library_exports() -> None:
    command = ["nm", "-D", "--defined-only", library()]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in listed.splitlines()}
    assert _declared() == {name for name in exported if name.startswith("servsim_")}


def test_the_program_uses_every_function() -> None:
    used = SOURCE.read_text(encoding="utf-8")
    assert len(_declared()) > 20
    assert [name for name in _declared() if f"{name}(" not in used] == []


@pytest.mark.parametrize("language", ["c99", "c++"])
def test_a_program_in_c_finds_every_function_as_the_header_says(tmp_path: Path, language: str) -> None:
    done = subprocess.run([compiled(tmp_path, language)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all so\n"), done.stderr
