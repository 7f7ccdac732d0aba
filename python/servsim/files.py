"""Files that are whole or not there: written beside their final name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a fresh name next to ``path`` to write to; it takes the place of ``path`` when all went well.

    What is no file, such as ``/dev/null`` or a pipe, is written to directly: a file must not take its place.

    Examples
    --------
    >>> with beside(Path("out.json")) as fresh:  # doctest: +SKIP
    ...     fresh.write_text("{}")
    """
    if path.exists() and not path.is_file():
        yield path
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield fresh
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
