"""Files that are whole or not there: written under a fresh name beside their own, then renamed.

The writer is the native module's, the same for every file that servsim writes, whichever language
asked for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from servsim.errors import EnvironmentProblem, UsageError


@contextmanager
def atomic_writer(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing; it takes the place of ``path`` when all went well, and is nowhere if not.

    What is no file, such as ``/dev/null`` or a pipe, is written to directly: a file must not take its place.

    Parameters
    ----------
    path
        The file to write.
    mode
        ``w`` for text in UTF-8, ``wb`` for bytes.

    Raises
    ------
    servsim.errors.UsageError
        When nothing can have that name.
    servsim.errors.EnvironmentProblem
        When the host refuses: a full disk, say. ``path`` is as it was.

    Examples
    --------
    >>> with atomic_writer(Path("out.json")) as file:  # doctest: +SKIP
    ...     file.write("{}")
    """
    from servsim import _core

    target = _core.AtomicFile(path)
    try:
        try:
            with os.fdopen(target.fileno(), mode, encoding=None if "b" in mode else "utf-8", closefd=False) as file:
                yield file
        except OSError as error:
            # An error that names a file is of another one.
            if error.errno is None or error.filename is not None:
                raise
            raise target.refused(error.errno) from None
        target.commit()
    finally:
        target.discard()


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; see `atomic_writer`."""
    with atomic_writer(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def publish_folder(part: Path, folder: Path) -> None:
    """Give a folder that is filled its name, which nothing may have yet; its files are on the disk by then."""
    for path in (*part.rglob("*"), part):
        sync(path)
    part.rename(folder)
    sync(folder.parent)


def make_folder(folder: Path) -> Path:
    """Make a folder for output, and those above it, if they are not there; return it.

    Raises
    ------
    servsim.errors.UsageError
        When something else has that name.
    servsim.errors.EnvironmentProblem
        When the host refuses.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"cannot make the folder {folder}: a file has that name; choose another") from None
    except OSError as error:
        raise EnvironmentProblem(f"cannot make the folder {folder}: {error.strerror}; choose another place") from None
    return folder


def sync(path: Path) -> None:
    """Bring a file's content, or a folder's names, to the disk; what is neither is left alone."""
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
