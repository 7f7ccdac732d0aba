"""Cached results of slow steps: built beside, then renamed; never half-built, never built twice at once.

A result is a directory named by a hash of everything that went into it. A lock (flock(2)) keeps
two processes from building the same one; the kernel drops it when its holder dies, so a crash
never leaves a lock behind, and what a crash left half-built is removed by the next builder.
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from servsim.cache import cache_dir
from servsim.errors import EnvironmentProblem

#: Hexadecimal digits of a hash kept in a directory's name (64 bits).
_DIGITS = 16
#: Logs that are kept.
_KEPT_LOGS = 60
_COUNTER = itertools.count()


def guest_dir() -> Path:
    """Return the folder of everything about the guest inside the project's cache."""
    path = cache_dir() / "guest"
    path.mkdir(parents=True, exist_ok=True)
    return path


def logs_dir() -> Path:
    """Return the folder of the logs of builds, boots and resumed guests."""
    path = guest_dir() / "logs"
    path.mkdir(parents=True, exist_ok=True)
    return path


def new_log(name: str) -> Path:
    """Return the path of a new log, removing the oldest ones; it names its process, so none is shared."""
    logs = sorted(logs_dir().glob("*.log"), key=lambda path: path.stat().st_mtime)
    for path in logs[:-_KEPT_LOGS]:
        path.unlink(missing_ok=True)
    return logs_dir() / f"{name}-{os.getpid()}-{next(_COUNTER)}.log"


def digest(inputs: Any) -> str:
    """Return the hash of JSON-like inputs, independent of the order of keys."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and machines."""
    path.write_text(json.dumps(value, indent=2) + "\n")


def build_once(directory: Path, build: Callable[[Path], None], waiting: Callable[[], None] = lambda: None) -> bool:
    """Make sure a cached directory exists.

    Parameters
    ----------
    directory
        Where the result belongs.
    build
        Fills the empty directory it is given; what it raises leaves nothing behind.
    waiting
        Called once if another process is building the same thing.

    Returns
    -------
    bool
        Whether it was built now.

    Raises
    ------
    EnvironmentProblem
        When the disk is full or may not be written.
    """
    if directory.is_dir():
        return False
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with locked(directory.with_name(directory.name + ".lock"), waiting):
            if directory.is_dir():
                return False
            partial = directory.with_name(directory.name + ".partial")
            remove(partial)
            partial.mkdir()
            try:
                build(partial)
                _flush(partial)
                partial.rename(directory)
            except BaseException:
                remove(partial)
                raise
    except OSError as error:
        raise EnvironmentProblem(
            f"the cache {directory.parent} cannot be written ({error}); free some room, or set SERVSIM_CACHE"
        ) from error
    return True


def remove(directory: Path) -> None:
    """Remove a directory tree if it is there."""
    if directory.exists():
        shutil.rmtree(directory)


@contextlib.contextmanager
def locked(path: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold an exclusive lock for the duration of a ``with`` block; the lock's file goes with it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The holder before us may have removed the file we locked; then it guards nothing.
            if not _same_file(descriptor, path):
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Say whether some process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _flush(directory: Path) -> None:
    """Bring a directory's files to the disk, so that the rename never precedes them."""
    for path in (*directory.rglob("*"), directory):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
