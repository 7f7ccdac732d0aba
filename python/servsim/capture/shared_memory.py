"""What lies where in a captured program's memory, as lines of a trace's description.

The driver in the guest reports structures and buffers by their distance from the beginning of the
shared memory; where that begins is in the server's memory map, the same in all its processes.
"""

from typing import Any

from servsim.errors import EnvironmentProblem

#: Program (Linux ``comm``) whose shared memory it is.
PROGRAM = "postgres"
#: Name of the structure that holds the buffers (PostgreSQL, ``storage/buffer/buf_init.c``).
BUFFERS = "Buffer Blocks"
#: Buffers begin at a multiple of this many bytes since PostgreSQL 16 (``PG_IO_ALIGN_SIZE``).
ALIGNMENT = 4096


def begin_of_shared_memory(maps: str) -> int:
    """Return where the server's shared memory begins: the anonymous shared mapping, the largest of several.

    Parameters
    ----------
    maps
        The server's ``/proc/PID/maps``.

    Raises
    ------
    EnvironmentProblem
        When the server has no such mapping.
    """
    found = []
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1].endswith("s") and fields[5] == "/dev/zero (deleted)":
            start, end = (int(word, 16) for word in fields[0].split("-"))
            found.append((end - start, start))
    if not found:
        raise EnvironmentProblem(
            "the guest's PostgreSQL shows no shared memory in its memory map; rebuild the checkpoint"
        )
    return max(found)[1]


def lines(document: dict[str, Any], begin: int) -> str:
    r"""Return the trace's ``shared_data``: a line ``program NAME``, then ``ADDRESS SIZE NAME`` in hexadecimal.

    Parameters
    ----------
    document
        The driver's report: ``structures`` as ``[name, offset, size]`` in bytes, ``relations`` by
        name, ``buffers`` as runs ``[relation or None, count]`` of ``block_bytes`` each.
    begin
        Virtual address where the shared memory begins.

    Examples
    --------
    >>> report = {"block_bytes": 8192, "structures": [["LOCK hash", 128, 64]], "relations": [], "buffers": []}
    >>> lines(report, 0x1000)
    'program postgres\n1080 40 LOCK hash\n'
    """
    ranges = []
    for name, offset, size in document["structures"]:
        if name == BUFFERS:
            ranges += _buffers(document, begin + offset, size)
        else:
            ranges.append((begin + offset, size, name))
    ranges = _with_gaps(sorted(ranges))
    return f"program {PROGRAM}\n" + "".join(f"{start:x} {size:x} {name}\n" for start, size, name in ranges)


def of_program(document: dict[str, Any]) -> str:
    r"""Return the trace's ``shared_data`` for a program that tells where its structures lie in its own memory.

    Parameters
    ----------
    document
        ``program``, its name, and ``ranges`` as ``[name, address, bytes]`` in any order.

    Examples
    --------
    >>> of_program({"program": "servsim-kernel", "ranges": [["fft.b", 8192, 4096], ["fft.a", 4096, 256]]})
    'program servsim-kernel\n1000 100 fft.a\n2000 1000 fft.b\n'
    """
    ranges = sorted((start, size, name) for name, start, size in document["ranges"] if size)
    return f"program {document['program']}\n" + "".join(f"{start:x} {size:x} {name}\n" for start, size, name in ranges)


def _with_gaps(ranges: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Name the gaps by what lies before them.

    The server takes shared memory from its beginning to its end, and gives a name to some of what it
    takes: the elements of a hash table lie behind its named header, the processes' structures behind
    ``Proc Header`` (PostgreSQL, ``storage/ipc/shmem.c``).
    """
    filled = []
    for (start, size, name), following in zip(ranges, [*ranges[1:], None], strict=True):
        filled.append((start, size, name))
        gap = following[0] - (start + size) if following else 0
        if gap > 0:
            filled.append((start + size, gap, f"(after {name})"))
    return filled


def _buffers(document: dict[str, Any], start: int, size: int) -> list[tuple[int, int, str]]:
    """Return a range for each run of buffers that hold one relation, and one for the rest."""
    block = document["block_bytes"]
    end = start + size
    start += -start % ALIGNMENT if size % block >= ALIGNMENT else 0
    ranges = []
    for relation, count in document["buffers"]:
        name = "(buffers of no known relation)" if relation is None else document["relations"][relation]
        ranges.append((start, count * block, name))
        start += count * block
    return [*ranges, (start, end - start, "(unused buffers)")] if end > start else ranges
