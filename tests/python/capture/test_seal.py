"""Damaged files of the cache are found: at once by their size, during the run by their content."""

import json
from pathlib import Path

import pytest
from servsim.capture import seal
from servsim.errors import CheckFailed, EnvironmentProblem

MIB = 1 << 20


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A directory with a sparse file and a small one."""
    directory = tmp_path / "entry"
    directory.mkdir()
    with (directory / "root.raw").open("wb") as file:
        file.write(b"\1" * 5000)
        file.seek(9 * MIB + 17)
        file.write(b"\2" * 5000)
        file.truncate(20 * MIB)
    (directory / "state").write_bytes(bytes(range(256)) * 4096)
    seal.make(directory)
    return directory


def check(directory: Path) -> None:
    with seal.Check(directory) as check, check.explains_failures():
        pass


def test_what_is_whole_passes(sealed: Path) -> None:
    check(sealed)
    assert seal.check_sizes(sealed).keys() == {"root.raw", "state"}


@pytest.mark.parametrize("name, place", [("state", 0), ("state", MIB - 1), ("root.raw", 4999), ("root.raw", 15 * MIB)])
def test_a_flipped_byte_is_found_anywhere_even_in_a_hole(sealed: Path, name: str, place: int) -> None:
    with (sealed / name).open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))
    seal.check_sizes(sealed)
    with pytest.raises(EnvironmentProblem, match=f"{name} is damaged: its content.*servsim guest clean"):
        check(sealed)


def test_damage_explains_why_a_run_failed_and_without_damage_the_failure_stands(sealed: Path) -> None:
    def fail() -> None:
        with seal.Check(sealed) as check, check.explains_failures():
            raise CheckFailed("the guest computed nonsense")

    with pytest.raises(CheckFailed, match="nonsense"):
        fail()
    (sealed / "state").write_bytes(b"\0" * MIB)
    with pytest.raises(EnvironmentProblem, match="state is damaged"):
        fail()


def test_zeros_written_into_a_hole_change_nothing(sealed: Path) -> None:
    with (sealed / "root.raw").open("r+b") as file:
        file.seek(4 * MIB)
        file.write(b"\0" * MIB)
    check(sealed)


def test_a_cut_a_missing_file_and_a_damaged_seal_are_found_at_once(sealed: Path) -> None:
    whole = (sealed / "state").read_bytes()
    (sealed / "state").write_bytes(whole[:100_000])
    with pytest.raises(EnvironmentProblem, match="state is damaged: it has 100000 bytes, and had 1048576"):
        seal.check_sizes(sealed)
    (sealed / "state").unlink()
    with pytest.raises(EnvironmentProblem, match=r"is damaged \(.*No such file.*servsim guest clean"):
        seal.check_sizes(sealed)
    (sealed / "state").write_bytes(whole)
    for text in ("", "[1]", json.dumps({"state": {}}), json.dumps({"state": 1})):
        (sealed / seal.NAME).write_text(text)
        with pytest.raises(EnvironmentProblem, match=r"seal\.json is damaged"):
            seal.check_sizes(sealed)
