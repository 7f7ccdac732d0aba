"""Block events as lines of text, in the form in which the kernel writes its trace events.

The ``tracefs`` importer reads them; times are to the nanosecond, where the kernel writes microseconds.
"""

#: Process and processor, time, event, device, operation, bytes, command, place, and who asked or how it ended.
_LINE = b"<...>-%d [%03d] %d.%09d: %s: %d,%d %s%s (%s) %d + %d [%s]\n"


def line(
    name: bytes,
    processor: int,
    time_ns: int,
    pid: int,
    device: int,
    rwbs: bytes,
    size: int | None,
    command: bytes,
    sector: int,
    sectors: int,
    last: bytes,
) -> bytes:
    """Return an event as a line.

    Parameters
    ----------
    name
        Of the trace event.
    processor, time_ns, pid
        Where, when and under which thread it happened.
    device
        As the kernel's ``dev_t``: 20 bits of minor number below the major number.
    rwbs
        The operation in letters (``blk_fill_rwbs`` in the kernel).
    size
        Bytes, which completions do not tell.
    command
        Of a request that neither reads nor writes; empty in kernels of today.
    sector, sectors
        Place on the device, in units of 512 bytes.
    last
        Name of the process that asks, or of a completion the error number.
    """
    return _LINE % (
        pid,
        processor,
        *divmod(time_ns, 1_000_000_000),
        name,
        device >> 20,
        device & 0xFFFFF,
        rwbs,
        b"" if size is None else b" %d" % size,
        command,
        sector,
        sectors,
        last,
    )
