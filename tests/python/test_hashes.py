"""The hash of a large file is read once, and never that of what the file was."""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from servsim import hashes
from servsim.cache import location
from servsim.hashes import file_hash, hashed_beside

LONG_AGO = 1_600_000_000


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of which hashes are kept, in a cache of its own; its last change counts as long ago."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hashes, "LEAST", 3)
    # Nobody can set the time of the change of what is told of a file, so the clock goes on instead.
    monkeypatch.setattr(hashes, "SETTLED", -1.0)
    path = tmp_path / "a.svt"
    path.write_bytes(b"first")
    return path


def expected(content: bytes) -> str:
    """Return the hash of a content as results have it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def kept() -> list[Path]:
    """Return the files in which hashes are kept."""
    return list((location() / "hashes").glob("*"))


def test_a_file_that_has_not_changed_is_not_read_again(trace: Path) -> None:
    assert file_hash(trace) == expected(b"first")
    (place,) = kept()
    told = json.loads(place.read_text())
    place.write_text(json.dumps(told | {"hash": "sha256:as kept"}))
    assert file_hash(trace) == "sha256:as kept"


def test_a_file_of_the_same_length_and_time_that_was_written_since_is_read(trace: Path) -> None:
    os.utime(trace, (LONG_AGO, LONG_AGO))
    assert file_hash(trace) == expected(b"first")
    before = trace.stat().st_ctime_ns
    # Changes close to one another have one time: what `SETTLED` is for.
    while trace.stat().st_ctime_ns == before:
        trace.write_bytes(b"other")
        os.utime(trace, (LONG_AGO, LONG_AGO))
    assert file_hash(trace) == expected(b"other")


def test_another_file_in_its_place_is_read(trace: Path) -> None:
    assert file_hash(trace) == expected(b"first")
    other = trace.with_name("b.svt")
    other.write_bytes(b"moved")
    other.replace(trace)
    assert file_hash(trace) == expected(b"moved")


def test_what_changed_just_now_and_what_is_small_is_not_kept(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "SETTLED", 3600.0)
    assert file_hash(trace) == expected(b"first")
    assert kept() == []
    monkeypatch.setattr(hashes, "SETTLED", -1.0)
    monkeypatch.setattr(hashes, "LEAST", 6)
    assert file_hash(trace) == expected(b"first")
    assert kept() == []


@pytest.mark.parametrize("damaged", ["", "[]", '{"hash": "sha256:0"}', "{"])
def test_a_damaged_note_is_as_good_as_none(trace: Path, damaged: str) -> None:
    file_hash(trace)
    (place,) = kept()
    place.write_text(damaged)
    assert file_hash(trace) == expected(b"first")


def test_a_cache_that_cannot_be_written_is_no_fault(trace: Path) -> None:
    location().write_text("a file where the folder should be")
    assert file_hash(trace) == expected(b"first")


def test_a_hash_beside_something_else_is_the_same_and_is_left_with_it(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a thread of its own where the host has two cores; who leaves early waits for a block, not for the file."""
    threads: list[int] = []
    one, two = {0}, {0, 1}
    for cores, now in ((one, False), (two, True), (two, False)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: cores)
        with hashed_beside(trace, now=now) as hashed:
            threads.append(threading.active_count())
            assert hashed() == expected(b"first") == hashed()
    with pytest.raises(FileNotFoundError), hashed_beside(trace.with_name("none")):
        pass
    blocks: list[int] = []

    def slow(_: Path, told: Callable[[int, int], None]) -> str:
        threads.append(threading.active_count())
        for block in range(1000):
            blocks.append(block)
            told(block, 1000)
            threading.Event().wait(0.01)
        return "whole"

    monkeypatch.setattr(hashes, "file_hash", slow)
    with pytest.raises(KeyboardInterrupt), hashed_beside(trace):
        raise KeyboardInterrupt
    assert len(blocks) < 500
    assert threads[0] == threads[1] < threads[-1]

    def broken(*_: object) -> str:
        raise OSError("worn out")

    monkeypatch.setattr(hashes, "file_hash", broken)
    with hashed_beside(trace) as hashed, pytest.raises(OSError, match="worn out"):
        hashed()
