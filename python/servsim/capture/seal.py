"""Seals: a cached directory's files with their sizes and digests, so that damage is found before it counts.

A guest that goes on from a damaged file may well seem to work. Sizes are compared at once; digests
while the guest runs, on another processor, so that they cost no time. Holes of sparse files are zeros
and are not read.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from servsim.errors import EnvironmentProblem, ServsimError
from servsim.json_text import json_text

#: Name of the seal in the directory that it is about.
NAME = "seal.json"
_CHUNK = 1 << 20
_REMEDY = "remove it with `servsim guest clean` and capture again"


def make(directory: Path) -> None:
    """Seal the files of a directory, which is complete but for its seal and its manifest."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name != NAME)
    sealed = {path.name: {"bytes": path.stat().st_size, "sha256": digest(path)} for path in files}
    (directory / NAME).write_text(json_text(sealed))


def check_sizes(directory: Path) -> dict[str, str]:
    """Compare the sizes of a directory's files with its seal; return the digests that they should have.

    Raises
    ------
    EnvironmentProblem
        When a file is missing, cannot be read, or has another size.
    """
    try:
        sealed = json.loads((directory / NAME).read_text())
        for name, stated in sealed.items():
            size = (directory / name).stat().st_size
            if size != stated["bytes"]:
                raise EnvironmentProblem(
                    f"{directory / name} is damaged: it has {size} bytes, and had {stated['bytes']}; {_REMEDY}"
                )
        return {name: stated["sha256"] for name, stated in sealed.items()}
    except OSError as error:
        raise EnvironmentProblem(f"{directory} is damaged ({error}); {_REMEDY}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentProblem(f"{directory / NAME} is damaged; {_REMEDY}") from error


def digest(path: Path, stop: Callable[[], bool] = lambda: False) -> str:
    """Return a digest of what a file holds between its holes.

    Parameters
    ----------
    path
        The file.
    stop
        Asked now and then; once it says so, the digest is given up.
    """
    found = hashlib.sha256()
    with path.open("rb") as file:
        for place in _chunks(file.fileno()):
            if stop():
                break
            file.seek(place)
            data = file.read(_CHUNK)
            # A block of zeros is a hole or not, as the file system likes.
            if data.strip(b"\0"):
                found.update(place.to_bytes(8, "little"))
                found.update(data)
    return found.hexdigest()


def _chunks(descriptor: int) -> Iterator[int]:
    """Yield where the chunks of a file begin that hold data."""
    size, place = os.fstat(descriptor).st_size, 0
    while place < size:
        try:
            place = max(place, os.lseek(descriptor, place, os.SEEK_DATA) // _CHUNK * _CHUNK)
        except OSError:
            return  # nothing but a hole to the end
        yield place
        place += _CHUNK


class Check:
    """Compares sizes at once and digests on a thread of its own, for the duration of a ``with`` block.

    Parameters
    ----------
    *directories
        Sealed directories.

    Raises
    ------
    EnvironmentProblem
        When a size differs.
    """

    def __init__(self, *directories: Path) -> None:
        self._expected = {
            directory / name: sha256 for directory in directories for name, sha256 in check_sizes(directory).items()
        }
        self._problem: str | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Check":
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what is not read yet."""
        self._left.set()
        self._thread.join()

    def found(self) -> None:
        """Raise EnvironmentProblem if damage has been found so far."""
        if self._problem is not None:
            raise EnvironmentProblem(self._problem)

    @contextlib.contextmanager
    def explains_failures(self) -> Iterator[None]:
        """Wait, after a ``with`` block, until everything is read; damage is told in place of the block's failure."""
        try:
            yield
        except ServsimError:
            self._finish()
            raise
        self._finish()

    def _finish(self) -> None:
        self._thread.join()
        self.found()

    def _read(self) -> None:
        for path, sha256 in self._expected.items():
            try:
                same = digest(path, self._left.is_set) == sha256
            except OSError as error:
                self._problem = f"{path} cannot be read ({error}); {_REMEDY}"
                return
            if self._left.is_set():
                return
            if not same:
                self._problem = f"{path} is damaged: its content is not what was written; {_REMEDY}"
                return
