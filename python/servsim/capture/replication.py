"""Several captures from one checkpoint: what differs between them differs by chance alone.

The interval over replications of one trace says how far its simulation is by chance; captures differ
by more than that, because each holds other requests in another order, from another moment of the guest.
Several captures are therefore a level of replication of their own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def names(output: Path, captures: int) -> list[Path]:
    """Return the files of so many captures: one keeps the name, several are numbered before its ending.

    Examples
    --------
    >>> [path.name for path in names(Path("oltp.svt"), 2)]
    ['oltp.1.svt', 'oltp.2.svt']
    """
    if captures == 1:
        return [output]
    return [output.with_name(f"{output.stem}.{number}{output.suffix}") for number in range(1, captures + 1)]


def each(capture: Callable[[Path, int, int], T], output: Path, captures: int, seed: int) -> Iterator[T]:
    """Capture into each file, the first with ``seed``, the next with the one after it, and so on.

    Parameters
    ----------
    capture
        Captures into a file with a seed; its number among the captures, from 0, says at which moment it begins.
    output, captures
        See `names`.
    seed
        Seed of the first capture's requests.
    """
    for number, path in enumerate(names(output, captures)):
        yield capture(path, seed + number, number)
