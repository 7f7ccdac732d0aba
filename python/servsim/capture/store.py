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
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from servsim.cache import folder
from servsim.errors import EnvironmentProblem
from servsim.files import publish_folder
from servsim.json_text import json_text

#: Hexadecimal digits of a hash kept in a directory's name (64 bits).
_DIGITS = 16
#: Logs that are kept.
_KEPT_LOGS = 60
_COUNTER = itertools.count()


def guest_dir() -> Path:
    """Return the folder of everything about the guest inside the project's cache."""
    return folder("guest")


def logs_dir() -> Path:
    """Return the folder of the logs of builds, boots and resumed guests."""
    return folder("guest", "logs")


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
    path.write_text(json_text(value))


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
            _remove_half_built(directory.parent)
            partial = directory.with_name(directory.name + ".partial")
            remove(partial)
            partial.mkdir()
            try:
                build(partial)
                publish_folder(partial, directory)
            except BaseException:
                remove(partial)
                raise
    except OSError as error:
        raise EnvironmentProblem(
            f"the cache {directory.parent} cannot be written ({error}); free some room, or set SERVSIM_CACHE"
        ) from error
    return True


@contextlib.contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Path]:
    """Give a new folder for the duration of a ``with`` block, and remove those that killed processes left.

    The folder is locked while it is used. The kernel drops the lock of a process that dies, by which
    the next user of the same prefix knows what nobody needs any more.

    Parameters
    ----------
    parent
        The folder to make it in.
    prefix
        How the names of such folders begin; nothing else in ``parent`` may begin so.

    Raises
    ------
    EnvironmentProblem
        When the folder cannot be made.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for path in parent.glob(f"{prefix}*"):
            _remove_if_unused(path)
        path, descriptor = _locked_folder(parent, prefix)
    except OSError as error:
        raise EnvironmentProblem(f"{parent} cannot be written ({error}); free some room or choose another") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Make a folder and lock it, before anybody else takes it for one that is not used."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _same_file(descriptor, path):
                return path, descriptor
            os.close(descriptor)


def _remove_if_unused(path: Path) -> None:
    """Remove a folder that `scratch` made, unless its user lives."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _remove_half_built(parent: Path) -> None:
    """Remove what killed builders left in a folder of cached results."""
    for partial in parent.glob("*.partial"):
        lock = partial.with_suffix(".lock")
        if not is_locked(lock):
            remove(partial)
            lock.unlink(missing_ok=True)


def existing(path: Path) -> Path:
    """Return the nearest folder above a path that is there."""
    return next(parent for parent in path.absolute().parents if parent.is_dir())


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
