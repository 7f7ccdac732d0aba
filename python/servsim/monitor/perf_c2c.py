"""Lines that caches hand to one another, from the text of ``perf c2c report --stdio``, as the histogram of a monitor.

Read is the last table (Shared Cache Line Distribution Pareto): a line of memory with how often it was found modified
in another cache and how often it was written, then its places with the shares of these and the nodes that did it.
Which node has which share is printed with ``-N`` alone; without it a place that several nodes use is refused.
"""

import re
from collections import Counter
from typing import Any

from servsim.errors import UsageError

#: Opens the table.
TITLE = "Shared Cache Line Distribution Pareto"
#: A line of memory: its number in the table, counts of the columns, its address.
_LINE = re.compile(r"^\s*\d+(?P<counts>(?:\s+\d+){2,8})\s+0x(?P<address>[0-9a-f]+)\s*$")
#: The head of the table: the columns of lines found in other caches, those of writes, and what tells places apart.
_HEAD = re.compile(r"^#\s+Num\s+(?P<found>.*?)\s+L1 ?Hit\b(?P<rest>.*)$")
#: A place in it: shares of the columns, the offset, and with ``--coalesce pid`` or ``tid`` who.
_PLACE = re.compile(r"^\s*(?P<shares>(?:\d+\.\d+%\s+){2,8})0x(?P<offset>[0-9a-f]+)\s+(?P<rest>.*\S)\s*$")
#: A node at the end of a place; with ``-N`` how many processors, and its shares of lines found and of writes.
_NODE = re.compile(r"(?<!\S)(?P<node>\d+)(?:\{(?P<of>[^{}]*)\})?")
#: All nodes at the end of a place; those that a column leaves out are blank.
_NODES = re.compile(r"(?:\s+\d+(?:\{[^{}]*\})?)+$")
#: What a share is where there is nothing to share.
_NOTHING = "n/a"


def is_report(text: str) -> bool:
    """Whether a text is of ``perf c2c report``."""
    return TITLE in text


def histogram(text: str, file: str, granularity: int = 4096) -> dict[str, Any]:
    """Count accesses by granule, node and process.

    Parameters
    ----------
    text, file
        What perf printed, and its name for messages.
    granularity
        Bytes of a granule.

    Returns
    -------
    dict
        Schema ``servsim.rset.sample/1``; nodes count from 1. Counts are rounded: perf prints tenths or hundredths
        of a percent.

    Raises
    ------
    UsageError
        When it is no such table, or does not say which node did what.
    """
    before, _, table = text.partition(TITLE)
    first = before.count("\n") + 1
    counts: Counter[tuple[int, int, int]] = Counter()
    address, totals, columns, who = 0, list[int](), 0, None
    for number, line in enumerate(table.splitlines(), first):
        where = f"{file}, line {number}"
        if found := _HEAD.match(line):
            # Of another node, of the own one, and since perf 6.1 clean ones of neighbours, if asked for.
            columns = len(re.split(r"\s{2,}", found["found"]))
            who = re.search(r"\b[PT]id\b", found["rest"])
        elif found := _LINE.match(line):
            address, totals = int(found["address"], 16), [int(word) for word in found["counts"].split()]
        elif found := _PLACE.match(line):
            if not (totals and columns):
                raise UsageError(f"{where}: a place before any line of memory, or before the head of the table")
            shares = [float(word.rstrip("%")) / 100 for word in found["shares"].split()]
            if len(shares) != len(totals):
                raise UsageError(f"{where}: {len(shares)} shares of {len(totals)} counts")
            of = [share * total for share, total in zip(shares, totals, strict=True)]
            granule = (address + int(found["offset"], 16)) // granularity * granularity
            process = _process(found["rest"]) if who else 0
            for node, count in _by_node(found["rest"], sum(of[:columns]), sum(of[columns:]), where).items():
                counts[granule, node, process] += round(count)
    counts = +counts
    if not counts:
        raise UsageError(f"{file}: the table of shared lines is empty: record longer with `perf c2c record`")
    keys = sorted(counts)
    return {
        "schema": "servsim.rset.sample/1",
        "program": file,
        "capabilities": {
            "exact": False,
            "counts": "samples of writes, and of lines found modified in another cache",
            "granularity_bytes": granularity,
            "addresses": "virtual",
            "who": ["node", "thread"],
            "sees_kernel": True,
        },
        "samples": counts.total(),
        "lost": 0,
        "histogram": {
            "address": [f"{granule:#x}" for granule, _, _ in keys],
            "data": [None for _ in keys],
            "offset": [None for _ in keys],
            "node": [node for _, node, _ in keys],
            "processor": [None for _ in keys],
            "thread": [process for _, _, process in keys],
            "count": [counts[key] for key in keys],
        },
    }


def _process(rest: str) -> int:
    """Return the number of a place's process or thread, which stands before the address of the code."""
    before = rest.partition("0x")[0]
    # A thread has its name behind a colon.
    named = re.search(r"(\d+):", before) or re.search(r"(\d+)\s*$", before)
    return int(named[1]) if named else 0


def _by_node(rest: str, found: float, written: float, where: str) -> dict[int, float]:
    """Return the accesses of a place by node, from 1."""
    nodes = _NODES.search(f" {rest}")
    if nodes is None:
        raise UsageError(f"{where}: no node at the end: print with `perf c2c report --stdio -N`")
    of = list(_NODE.finditer(nodes[0]))
    if len(of) == 1:
        return {int(of[0]["node"]) + 1: found + written}
    told = {}
    for one in of:
        # A number of processors, and two shares.
        words = (one["of"] or "").replace("%", " ").split()
        if len(words) != 3:
            raise UsageError(
                f"{where}: {len(of)} nodes without their shares: print with `perf c2c report --stdio -N` (once)"
            )
        share_found, share_written = (0.0 if word == _NOTHING else float(word) / 100 for word in words[1:])
        told[int(one["node"]) + 1] = share_found * found + share_written * written
    return told
