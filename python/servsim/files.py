"""Files that are whole or not there: written beside their final name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a fresh name next to ``path`` to write to; it takes the place of ``path`` when all went well.

    Examples
    --------
    >>> with beside(Path("out.json")) as fresh:  # doctest: +SKIP
    ...     fresh.write_text("{}")
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield fresh
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise
