"""The hash of a file, which names it in results and in the cache: of a large file read once, and known from then on.

A kept hash is that of a file which has not changed since by what its file system tells: the same number, length, and
times of the last change of what it holds and of what is told of it. Removing the cache loses time only.
"""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from servsim.cache import location
from servsim.errors import ServsimError
from servsim.files import atomic_write

__all__ = ["file_hash", "hashed_beside"]

#: Bytes of a file below which reading it is as quick as looking.
LEAST = 16 << 20
#: Bytes that are hashed in one go: some thousand times a second, so that who interrupts is heard.
BLOCK = 1 << 18
#: Seconds since the last change before a hash is kept: file systems give changes one shortly after the other one time.
SETTLED = 2.0


def file_hash(path: Path, told: Callable[[int, int], None] | None = None) -> str:
    """Return the SHA-256 of a file as ``sha256:HEX``; of a directory, that of its files' names and hashes.

    Parameters
    ----------
    path
        The file or directory.
    told
        Called with the bytes of a large file that were hashed so far, and with all of them.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listing = "".join(f"{file.relative_to(path)} {file_hash(file)}\n" for file in files)
        return "sha256:" + hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        known = _identity(file.fileno())
        if known["bytes"] < LEAST:
            return _digest(file)
        place = location() / "hashes" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.json"
        if (kept := _kept(place, known)) is not None:
            return kept
        found = _digest(file, told and (lambda done: told(done, known["bytes"])))
        last = max(known["modified_ns"], known["changed_ns"]) / 1e9
        settled = _identity(file.fileno()) == known and last + SETTLED < time.time()
    if settled:
        _keep(place, known | {"hash": found})
    return found


@contextmanager
def hashed_beside(path: Path, *, now: bool = False) -> Iterator[Callable[[], str]]:
    """Hash a large file on another core, where there is one, while something is done that needs no hash before its end.

    What is yielded waits for the hash and returns it. Who leaves without asking does not wait for the rest of the file.
    With ``now`` it is known from the beginning.
    """
    if now or len(os.sched_getaffinity(0)) == 1 or path.is_dir() or path.stat().st_size < LEAST:
        whole = file_hash(path)
        yield lambda: whole
        return
    found: list[str | BaseException] = []
    left = threading.Event()

    def told(_done: int, _of: int) -> None:
        if left.is_set():
            raise InterruptedError

    def work() -> None:
        try:
            found.append(file_hash(path, told))
        except BaseException as error:  # raised again by who asks
            found.append(error)

    def ask() -> str:
        thread.join()
        if isinstance(found[0], str):
            return found[0]
        raise found[0]

    # What cannot be read is told before anything is begun.
    path.open("rb").close()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield ask
    finally:
        left.set()
        thread.join()


def _digest(file: BufferedReader, told: Callable[[int], None] | None = None) -> str:
    found, done, block = hashlib.sha256(), 0, memoryview(bytearray(BLOCK))
    while count := file.readinto(block):
        found.update(block[:count])
        done += count
        if told is not None:
            told(done)
    return f"sha256:{found.hexdigest()}"


def _identity(descriptor: int) -> dict[str, int]:
    """Return what tells a file that has changed from one that has not."""
    told = os.fstat(descriptor)
    return {
        "device": told.st_dev,
        "inode": told.st_ino,
        "bytes": told.st_size,
        "modified_ns": told.st_mtime_ns,
        "changed_ns": told.st_ctime_ns,
    }


def _kept(place: Path, known: dict[str, int]) -> str | None:
    """Return the hash that is kept of a file, if it is of this very file; anything else is as good as none."""
    try:
        kept = json.loads(place.read_text())
    except (OSError, ValueError):
        return None
    found = kept.get("hash") if isinstance(kept, dict) else None
    return found if isinstance(found, str) and kept == known | {"hash": found} else None


def _keep(place: Path, what: dict[str, object]) -> None:
    """Keep a hash, where there is room for it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(place, json.dumps(what) + "\n")
    except (OSError, ServsimError):
        return
