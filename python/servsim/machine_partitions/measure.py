"""What partitions serve by their size, and what it takes to move a node's pages: from simulation."""

import csv
import io
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from servsim.documents import text_of
from servsim.errors import UsageError
from servsim.machine_partitions.cut import cut
from servsim.machines import machine_text, resolve
from servsim.manager import Goals
from servsim.result import hertz
from servsim.run_options import RunOptions
from servsim.simulation import simulate
from servsim.statistics.intervals import LEAST, Estimate, reported
from servsim.units import bytes_of

#: Bytes of a page that moves.
PAGE = 4096

#: What a machine is taken for where its directory cannot leave its home (docs/adr/0342), with the same links.
_ORDERED = ("node.coherence=directory", "protocol.name=mosi")


def sizes(goals: Goals) -> dict[str, range]:
    """Return how many nodes each partition may come to hold."""
    least = {name: goal.least for name, goal in goals.partitions.items()}
    held = sum(len(goal.nodes) for goal in goals.partitions.values())
    return {name: range(few, held - sum(least.values()) + few + 1) for name, few in least.items()}


def rates(
    goals: Goals,
    machine: str,
    traces: Mapping[str, Path],
    overrides: list[str],
    options: RunOptions,
    began: Callable[[str], None],
) -> dict[str, dict[int, Estimate]]:
    """Simulate each partition at each size that it may come to; transactions per second of each, over its replications.

    Raises
    ------
    UsageError
        For a partition without a trace, a trace without transactions, or what `cut` refuses.
    """
    whole = resolve(machine_text(machine), machine, overrides)
    cut(machine, {name: goal.nodes for name, goal in goals.partitions.items()}, overrides)
    if traces.keys() != goals.partitions.keys():
        raise UsageError(f"give a trace for each of the partitions {', '.join(goals.partitions)}: NAME=TRACE")
    clock = hertz(whole["clock"])
    order = sorted(node for goal in goals.partitions.values() for node in goal.nodes)
    found: dict[str, dict[int, Estimate]] = {}
    for name, wanted in sizes(goals).items():
        first = list(goals.partitions[name].nodes)
        nodes = first + [node for node in order if node not in first]
        for size in wanted:
            began(f"{name} on {size} node{'s' if size > 1 else ''}")
            settings = cut(machine, {name: nodes[:size]}, overrides)[name]
            result = simulate(traces[name], machine, overrides=settings, **options)
            cycles = [one["cycles_per_transaction"] for one in result["replications"]]
            if not all(cycles):
                raise UsageError(
                    f"{str(traces[name])!r} has no transactions, so what partition {name} serves is not known"
                )
            found.setdefault(name, {})[size] = reported([clock / one for one in cycles])
    return found


def doubts(found: Mapping[str, Mapping[int, Estimate]]) -> list[str]:
    """Return a sentence for each two sizes that runs do not tell apart, or of which the larger one served less.

    Examples
    --------
    >>> one, two = reported([299.0, 300.0, 301.0]), reported([279.0, 280.0, 281.0])
    >>> doubts({"web": {1: one, 2: two}})
    ['web served 280/s with 2 nodes and 300/s with 1: more nodes do harm']
    >>> doubts({"web": {1: one, 2: reported([250.0, 380.0, 300.0])}})
    ['web: 1 and 2 nodes are not told apart, the intervals of 300/s and 310/s overlap: more --transactions or --replications']
    """  # noqa: E501
    said = []
    if any(one.n < LEAST for by_size in found.values() for one in by_size.values()):
        said.append(f"rates of fewer than {LEAST} runs have no interval: use --replications {LEAST} or more")
    for name, by_size in found.items():
        for fewer, size in itertools.pairwise(sorted(by_size)):
            less, more = by_size[fewer], by_size[size]
            known = less.low is not None and more.low is not None
            if known and less.overlaps(more):
                said.append(
                    f"{name}: {fewer} and {size} nodes are not told apart, the intervals of {less.mean:,.0f}/s and "
                    f"{more.mean:,.0f}/s overlap: more --transactions or --replications"
                )
            elif more.mean < less.mean:
                why = "more nodes do harm" if known else "measure more transactions, or more nodes do harm"
                said.append(
                    f"{name} served {more.mean:,.0f}/s with {size} nodes and {less.mean:,.0f}/s with {fewer}: {why}"
                )
    return said


def move_seconds(machine: str, trace: Path, overrides: list[str], options: RunOptions) -> tuple[float, float]:
    """Return seconds that moving the memory of a whole node takes, and cycles of one page.

    The last node is drained page by page while a trace, with its pages striped, runs on the whole machine, for the
    second time; its memory is taken to be full.

    Raises
    ------
    UsageError
        When no page lay in that node.
    """
    whole = resolve(machine_text(machine), machine, overrides)
    node = whole["node"]
    ordered = _ORDERED if node["coherence"] == "messages" else ()
    settings = [*overrides, *ordered, "node.placement=striped"]
    # Node and pages meet first: it gets no new ones from the end of the first interval on.
    cycles = simulate(trace, machine, overrides=settings, **options)["replications"][0]["cycles"]
    settings += [
        "node.migration=drain",
        f"node.drained={node['count']}",
        f"node.migration_interval={max(1, cycles // 8)} cycles",
        "node.migration_pages=1",
    ]
    result = simulate(trace, machine, overrides=settings, **options)
    moved = [one["nodes"]["migration"] for one in result["replications"]]
    pages, cycles = (sum(one[key] for one in moved) for key in ("pages", "cycles"))
    if pages == 0:
        raise UsageError(f"no page of {str(trace)!r} lay in node {node['count']}, so what a move costs is not known")
    memory = node["memory"].split(",")[-1].strip()
    if memory == "unlimited":
        raise UsageError(f"node {node['count']} of {machine} has memory without a bound: say how much in node.memory")
    return bytes_of(memory) / PAGE * cycles / pages / hertz(whole["clock"]), cycles / pages


def loads(path: Path) -> dict[str, list[float]]:
    """Read a day's load: a column for each partition, a row of transactions per second for each look of the manager.

    Raises
    ------
    UsageError
        Naming the line that is none.
    """
    rows = list(csv.reader(io.StringIO(text_of(path, missing=f"there is no load {str(path)!r}"))))
    if len(rows) < 2:
        raise UsageError(f"{path}: give a line with the partitions' names, then one of numbers for each look")
    columns: dict[str, list[float]] = {name.strip(): [] for name in rows[0]}
    for number, row in enumerate(rows[1:], 2):
        try:
            values = [float(word) for word in row]
        except ValueError:
            values = []
        if len(values) != len(columns) or not all(0 <= value < 1e12 for value in values):
            raise UsageError(f"{path}, line {number}: give {len(columns)} numbers from 0, separated by commas")
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns
