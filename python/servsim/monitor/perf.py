"""Samples of real hardware, from the text that perf prints, as the histogram of a monitor.

Read are the lines of ``perf script`` (of data that ``perf mem record``, ``perf c2c record`` or ``perf record -d`` made)
and those of ``perf mem report -D``. The first name the processor, the second only the thread. Other fields
are skipped; lines without a data address (``perf record`` without ``-d``) are counted, and refused when all are such.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from servsim.errors import UsageError

#: A line of perf script: command, process or thread, processor, time, event, data address, data source.
_SCRIPT = re.compile(
    r"^\s*(?P<comm>\S.*?)\s+(?:(?P<pid>\d+)/\s*)?(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+[\d.]+:\s+(?:\d+\s+)?"
    r"(?P<event>\S+):\s+(?:(?P<addr>[0-9a-f]+)\s+)?(?P<src>[0-9a-f]+)\s+\|OP (?P<op>[^|]*)\|LVL (?P<level>[^|]*)\|"
)
#: A line of perf script without a data source.
_OTHER = re.compile(r"^\s*\S.*?\s+(?:\d+/\s*)?\d+\s+\[\d+\]\s+[\d.]+:")
#: Opens the table of perf mem report -D.
_HEADER = re.compile(r"^#\s*PID, TID, IP, ADDR,")
#: Levels that are not left for memory or another node, by their beginning (perf prints "L3 hit" or "L3 or L3 hit").
_CACHES = re.compile(r"^(?:L[123]|LFB)\b(?!.*\bmiss\b)")
#: Bits 5 to 18 of a data source: the level (``PERF_MEM_LVL_*``, perf_event_open(2)): L1, LFB, L2 and L3, and "hit".
_LEVEL_SHIFT, _LEVEL_HIT, _LEVEL_CACHES = 5, 0x02, 0x08 | 0x10 | 0x20 | 0x40


def histogram(
    text: str, file: str, nodes: Sequence[Iterable[int]] = (), granularity: int = 4096, cached: bool = False
) -> dict[str, Any]:
    """Count samples by granule, processor and thread.

    Parameters
    ----------
    text, file
        What perf printed, and its name for messages.
    nodes
        Processors of each node of the machine that perf ran on, the first node first; without, no node is named.
    granularity
        Bytes of a granule.
    cached
        Whether to count what the processor's own caches served as well; the traffic between nodes does not show that.

    Returns
    -------
    dict
        Schema ``servsim.rset.sample/1``.

    Raises
    ------
    UsageError
        When it is no such text, with the remedy.
    """
    node_of = {processor: at for at, processors in enumerate(nodes, 1) for processor in processors}
    counts: Counter[tuple[int, int | None, int]] = Counter()
    without = in_caches = read = 0
    columns: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if _HEADER.match(line):
            columns = [name.strip() for name in line.lstrip("# ").split(",")]
            continue
        if not line.strip() or line.startswith("#"):
            continue
        read += 1
        if columns is not None:
            found = _raw(line, columns, f"{file}, line {number}")
        else:
            found = _script(line, f"{file}, line {number}")
        if found is None:
            without += 1
            continue
        address, processor, thread, is_cached = found
        if is_cached and not cached:
            in_caches += 1
            continue
        counts[address // granularity * granularity, processor, thread] += 1
    if read == without:
        raise UsageError(
            f"{file}: no sample with a data address and its source: record with `perf mem record`, and print with "
            "`perf script` or `perf mem report -D`"
        )
    keys = sorted(counts, key=lambda key: (key[0], -1 if key[1] is None else key[1], key[2]))
    return {
        "schema": "servsim.rset.sample/1",
        "program": file,
        "capabilities": {
            "exact": False,
            "counts": "samples of the processor's own unit",
            "granularity_bytes": granularity,
            "addresses": "virtual",
            "who": ["thread"] if columns is not None else ["node", "processor", "thread"],
            "sees_kernel": True,
        },
        "samples": sum(counts.values()),
        "lost": 0,
        "in_caches": in_caches,
        "without_address": without,
        "histogram": {
            "address": [f"{address:#x}" for address, _, _ in keys],
            "data": [None for _ in keys],
            "offset": [None for _ in keys],
            "node": [None if processor is None else node_of.get(processor) for _, processor, _ in keys],
            "processor": [processor for _, processor, _ in keys],
            "thread": [thread for _, _, thread in keys],
            "count": [counts[key] for key in keys],
        },
    }


def _script(line: str, where: str) -> tuple[int, int | None, int, bool] | None:
    """Return address, processor, thread and whether a cache served it, of a line of perf script."""
    found = _SCRIPT.match(line)
    if found is None:
        if _OTHER.match(line):
            return None
        raise UsageError(f"{where}: no line of `perf script` or `perf mem report -D`: {line.strip()[:60]!r}")
    if found["addr"] is None or int(found["addr"], 16) == 0:
        return None
    return int(found["addr"], 16), int(found["cpu"]), int(found["tid"]), bool(_CACHES.match(found["level"].strip()))


def _raw(line: str, columns: Sequence[str], where: str) -> tuple[int, int | None, int, bool] | None:
    """Return the same of a line of perf mem report -D, which names no processor."""
    words = re.split(r"[\s,;]+", line.strip(), maxsplit=len(columns) - 1)
    try:
        fields = dict(zip(columns, words, strict=True))
        address, source = int(fields["ADDR"], 16), int(fields["DSRC"], 16)
        thread = int(fields["TID"])
    except (ValueError, KeyError) as error:
        raise UsageError(f"{where}: not the columns that the table's head names: {line.strip()[:60]!r}") from error
    level = source >> _LEVEL_SHIFT
    return None if address == 0 else (address, None, thread, bool(level & _LEVEL_HIT and level & _LEVEL_CACHES))
