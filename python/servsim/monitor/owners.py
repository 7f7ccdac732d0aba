"""Who uses which page, from a sampled histogram: the owner of each granule, and a placement file that follows it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.documents import text_of
from servsim.errors import UsageError
from servsim.monitor import perf_c2c
from servsim.monitor.perf import histogram as of_perf
from servsim.text import toml_string

SCHEMA = "servsim.rset.sample/1"


@dataclass(frozen=True)
class Owner:
    """A granule and who uses it most: its node (from 1) and thread, how many samples, and the share of that node."""

    data: str
    offset: int | None
    address: int
    node: int | None
    thread: int
    samples: int
    share: float


def read(
    path: Path, nodes: Sequence[Iterable[int]] = (), granularity: int = 4096, cached: bool = False
) -> dict[str, Any]:
    """Read what was sampled: a file of ``servsim rset run --sample``, or text of perf.

    Raises
    ------
    UsageError
        When it is neither.
    """
    text = text_of(path)
    if perf_c2c.is_report(text):
        if nodes:
            raise UsageError(f"{path}: `perf c2c report` names nodes itself: leave out --node")
        return perf_c2c.histogram(text, str(path), granularity)
    if not text.lstrip().startswith("{"):
        return of_perf(text, str(path), nodes, granularity, cached)
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    if found.get("schema") != SCHEMA:
        raise UsageError(f"{path}: its schema is {found.get('schema')!r}; `servsim rset run --sample` writes {SCHEMA}")
    return found


def owners(found: Mapping[str, Any], least: int = 1) -> list[Owner]:
    """Return the owner of every granule with at least so many samples.

    The node with most samples owns it, where nodes are known, else the thread; of equals the lowest.
    """
    columns = found["histogram"]
    names = ("address", "data", "offset", "node", "thread", "count")
    granules: dict[tuple[str, int | None, int], tuple[Counter[int | None], Counter[int]]] = {}
    for address, data, offset, node, thread, count in zip(*(columns[name] for name in names), strict=True):
        # What is named may lie elsewhere in another run; its offset is the same.
        place = (data or "(unknown)", None if offset is None else int(offset, 16), int(address, 16))
        if place[1] is not None:
            place = (place[0], place[1], 0)
        by_node, by_thread = granules.setdefault(place, (Counter(), Counter()))
        by_node[node] += count
        by_thread[thread] += count
    told = []
    for (data, offset, address), (by_node, by_thread) in sorted(granules.items(), key=lambda item: repr(item[0])):
        whole = sum(by_node.values())
        if whole < least:
            continue
        node = max(by_node, key=lambda node: (by_node[node], -(node or 0)))
        thread = max(by_thread, key=lambda thread: (by_thread[thread], -thread))
        share = (by_node[node] if node is not None else by_thread[thread]) / whole
        told.append(Owner(data, offset, address, node, thread, whole, share))
    return sorted(told, key=lambda one: (one.data, one.offset or 0, one.address))


def placement(told: Sequence[Owner], granularity: int) -> str:
    """Write a placement file that puts every named granule where its owner is; neighbours of one node are one rule.

    Raises
    ------
    UsageError
        When no granule has a name and a node.
    """
    named = [one for one in told if one.offset is not None and one.node is not None and one.data != "(unknown)"]
    if not named:
        raise UsageError(
            "no sample has a name and a node: a placement file follows samples of `rset run --sample` only"
        )
    lines = ["# Who uses which page most, by samples; docs/placement.md says what the lines mean.", ""]
    at = 0
    while at < len(named):
        first = named[at]
        while at + 1 < len(named) and (named[at + 1].data, named[at + 1].node) == (first.data, first.node):
            at += 1
        at += 1
        assert first.offset is not None
        last = named[at] if at < len(named) and named[at].data == first.data else None
        end = (last.offset if last is not None else named[at - 1].offset) or 0
        end += 0 if last is not None else granularity
        # A site is MODULE+0xOFFSET; everything else is a name.
        key = "site" if "+0x" in first.data else "structure"
        lines += ["[[page]]", f"{key} = {toml_string(first.data)}", f'offset = "{first.offset:#x}..{end:#x}"']
        lines += [f"node = {first.node}", ""]
    return "\n".join(lines)
