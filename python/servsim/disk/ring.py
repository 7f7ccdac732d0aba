"""The kernel's ring buffer of trace events as it lies in memory, and its block events as text.

To have the kernel write events as text costs several times what the events cost. So a capture copies whole
pages, and this module makes text of them afterwards, with times to the nanosecond. A page is a time, a length
and events, each with a heading of 5 bits of type and 27 bits of time since the event before it; see
``events/header_page`` and ``events/header_event`` of tracefs and the kernel's ``ring_buffer.c``.
"""

import re
import struct
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from typing import IO, NamedTuple

from servsim.disk import lines

#: Types of entries that are no events: up to 28 is the length of one in words, 0 puts the length behind it.
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
#: Time and length that begin a page, and bits of the length that are one; the rest are flags.
PAGE_HEADING, LENGTH_BITS = 16, 27
#: Bits of the time in an entry, and the bits that an absolute time leaves to that of its page.
DELTA_BITS, UPPER_BITS = 27, 0x1F << 59

_FIELD = re.compile(r"field:(?P<type>[^;]*?)(?P<name>\w+)(?:\[\w*\])?;\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);")
_WANTED = ("common_pid", "dev", "sector", "nr_sector", "bytes", "error", "rwbs", "comm", "cmd")


class Layout(NamedTuple):
    """Where the fields of one kind of event are."""

    name: bytes
    fields: struct.Struct
    order: tuple[str, ...]


def page_bytes(events: Path) -> int:
    """Return the bytes of a page by tracefs' folder ``events``."""
    found = {match["name"]: match for match in _FIELD.finditer((events / "header_page").read_text())}
    return int(found["data"]["offset"]) + int(found["data"]["size"])


def layout_of(text: str) -> tuple[int, Layout]:
    """Return the number of an event and its layout from the text of its file ``format``."""
    codes, at = "=", 0
    order: list[str] = []
    fields = sorted(_FIELD.finditer(text), key=lambda match: int(match["offset"]))
    for match in fields:
        offset, size, name = int(match["offset"]), int(match["size"]), match["name"]
        if name not in _WANTED:
            continue
        code = f"{size}s" if name in ("rwbs", "comm") else {2: "h", 4: "i", 8: "q"}[size]
        codes += f"{offset - at}x" + (code if name == "error" or code.endswith("s") else code.upper())
        order.append(name)
        at = offset + size
    name = re.search(r"name: (\w+)", text)
    number = re.search(r"ID: (\d+)", text)
    if name is None or number is None:
        raise ValueError("not the format of a trace event")
    return int(number[1]), Layout(name[1].encode(), struct.Struct(codes), tuple(order))


def entries(page: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield time, first byte and end of the events of a page."""
    first, length = struct.unpack_from("=QQ", page)
    now, at, end = first, PAGE_HEADING, PAGE_HEADING + (length & (1 << LENGTH_BITS) - 1)
    while at < end:
        heading, word = struct.unpack_from("=II", page, at)
        kind, delta = heading & 0x1F, heading >> 5
        if kind == PADDING:
            if delta == 0:
                return
            at += 4 + word
        elif kind == TIME_EXTEND:
            now, at = now + (word << DELTA_BITS) + delta, at + 8
        elif kind == TIME_STAMP:
            now, at = (first & UPPER_BITS) | (word << DELTA_BITS) + delta, at + 8
        else:
            now += delta
            begin, at = (at + 4, at + 4 + 4 * kind) if kind else (at + 8, at + 4 + word)
            yield now, begin, at


def _line(layout: Layout, processor: int, time_ns: int, page: bytes, at: int) -> bytes:
    """Return an event as a line of text that the ``tracefs`` importer reads."""
    values = dict(zip(layout.order, layout.fields.unpack_from(page, at), strict=True))
    start, length = at + (values["cmd"] & 0xFFFF), values["cmd"] >> 16
    text = {name: values[name].partition(b"\0")[0] for name in ("rwbs", "comm") if name in values}
    return lines.line(
        layout.name,
        processor,
        time_ns,
        values["common_pid"],
        values["dev"],
        text["rwbs"],
        values.get("bytes"),
        page[start : start + length].partition(b"\0")[0],
        values["sector"],
        values["nr_sector"],
        text["comm"] if "comm" in text else b"%d" % values["error"],
    )


def _timed(spool: IO[bytes], processor: int, size: int, layouts: dict[int, Layout]) -> Iterator[tuple[int, bytes]]:
    while len(page := spool.read(size)) == size:
        for time_ns, begin, _ in entries(page):
            layout = layouts.get(struct.unpack_from("=H", page, begin)[0])
            if layout is not None:
                yield time_ns, _line(layout, processor, time_ns, page, begin)


def text_of(spools: dict[int, IO[bytes]], size: int, layouts: dict[int, Layout]) -> Iterator[bytes]:
    """Yield the events of all processors as lines, in order of time.

    Parameters
    ----------
    spools
        Pages by processor, from the first.
    size
        Bytes a page.
    layouts
        By number of the event; others are left out.
    """
    streams = [_timed(spool, processor, size, layouts) for processor, spool in spools.items()]
    return (text for _, text in merge(*streams, key=lambda entry: entry[0]))
