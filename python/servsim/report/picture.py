"""A picture of a machine, drawn from its resolved description.

Nodes, core groups, cores, caches, links, memories and disks are drawn, each with its size, bandwidth or latency. A pure
function of the description: what it does not say is not drawn. Everything is one column of boxes as wide as the
picture, so that it can be read on a narrow screen; nodes stand side by side, at most two in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from markupsafe import Markup

from servsim.machines import words
from servsim.report.charts.svg import tag

WIDTH, GAP, LINE, PAD = 440, 10, 18, 10
#: Cores in a row of a group, groups in a row of a node, and nodes in a row, at most.
CORES_ACROSS, GROUPS_ACROSS, NODES_ACROSS = 8, 4, 2
CORE = 12
#: From so many nodes on their links are said and not drawn.
MOST_DRAWN = 8

#: Within the picture alone, which may lie in a page with other charts.
STYLE = "".join(
    f".picture {rule}"
    for rule in (
        "text{font:13px system-ui,sans-serif;fill:#1a1a1a}",
        "text.h{font-weight:600}",
        # Outside the boxes, on whatever the picture lies on.
        "text.t{font-size:16px;font-weight:600;fill:currentColor}",
        "text.about{fill:currentColor}",
        "rect{stroke:#5b6770;stroke-width:1;rx:4;fill:#fff}",
        "rect.node{fill:#f4f6f8}",
        "rect.core{fill:#4a7fb5;rx:2}",
        "rect.cache{fill:#dbe8f4}",
        "rect.memory{fill:#e3efdc}",
        "rect.net{fill:#f3e7d3}",
        "rect.disk{fill:#ececec}",
        "line{stroke:#b07d2b;stroke-width:2}",
    )
)

Settings = Mapping[str, Any]


@dataclass
class Part:
    """A piece of the picture, placed by whoever holds it.

    Attributes
    ----------
    marks : list of Markup
        Elements, from the left upper corner.
    height : float
        What it needs.
    """

    marks: list[Markup]
    height: float

    def at(self, x: float, y: float) -> Markup:
        """Return it moved."""
        return tag("g", *self.marks, transform=f"translate({x:g},{y:g})")


def _box(kind: str, width: float, lines: Sequence[str], inner: Sequence[Part] = ()) -> Part:
    """Return a box with lines of text, the first one strong, and parts below them."""
    marks, y = [], PAD + LINE - 5.0
    for number, line in enumerate(lines):
        for piece in _wrapped(line, width - 2 * PAD):
            marks.append(tag("text", piece, x=PAD, y=y, class_="h" if number == 0 else ""))
            y += LINE
    y += PAD - LINE + 5
    for part in inner:
        marks.append(part.at(PAD, y))
        y += part.height + PAD
    return Part([tag("rect", width=width, height=y, class_=kind), *marks], y)


def _wrapped(text: str, width: float) -> list[str]:
    """Break a line at spaces into pieces that fit, by the mean width of a letter."""
    most, pieces = max(8, int(width / 6.7)), [""]
    for word in text.split():
        if pieces[-1] and len(pieces[-1]) + 1 + len(word) > most:
            pieces.append("")
        pieces[-1] = f"{pieces[-1]} {word}".strip()
    return pieces


def _beside(parts: Sequence[Part], width: float, across: int) -> Part:
    """Return parts in rows of at most ``across``."""
    marks, y = [], 0.0
    for first in range(0, len(parts), across):
        row = parts[first : first + across]
        marks += [part.at(place * (width + GAP), y) for place, part in enumerate(row)]
        y += max(part.height for part in row) + GAP
    return Part(marks, max(0.0, y - GAP))


def _cores(count: int, width: float) -> Part:
    """Return a grid of cores."""
    across = max(1, min(CORES_ACROSS * 2, int((width + 3) / (CORE + 3)), count))
    marks = [
        tag(
            "rect",
            x=(core % across) * (CORE + 3),
            y=(core // across) * (CORE + 3),
            width=CORE,
            height=CORE,
            class_="core",
        )
        for core in range(count)
    ]
    return Part(marks, ceil(count / across) * (CORE + 3) - 3)


def _processors(machine: Settings, count: int, width: float) -> list[Part]:
    """Draw processors, in their groups if there are any."""
    if count == 0:
        return []
    groups = int(machine.get("group", {}).get("count", 1))
    if groups == 1:
        return [_cores(count, width)]
    per_group = int(machine["processors"]) // groups
    number = count // per_group
    across = min(GROUPS_ACROSS, number, max(1, int(width / 88)))
    inner = (width - GAP * (across - 1)) / across
    level = words.levels(machine, "group")[0].split(",")[0]
    group = _box(
        "group",
        inner,
        [words.counted(per_group, "core")],
        [_cores(per_group, inner - 2 * PAD), _box("cache", inner - 2 * PAD, [level])],
    )
    return [_beside([group] * number, inner, across)]


def _memory(machine: Settings, width: float, node: int | None) -> Part | None:
    lines = words.memory(machine, node)
    return _box("memory", width, lines) if lines else None


def _node(machine: Settings, node: int, count: int, nodes: int, width: float) -> Part:
    inner = width - 2 * PAD
    memory = _memory(machine, inner, node)
    name = f"node {node + 1}: " + (words.counted(count, "core") if count else "memory alone")
    return _box("node", width, [name], [*_processors(machine, count, inner), *([memory] if memory else [])])


def _network(machine: Settings, width: float) -> Part:
    return _box("net", width, words.network(machine))


def _pairs(links: str, nodes: int) -> list[tuple[int, int]]:
    """Return the joined pairs of nodes; none where a switch joins them."""
    if links == "switch":
        return []
    if links == "direct":
        return [(a, b) for a in range(nodes) for b in range(a + 1, nodes)]
    pairs = (word.split("-") for word in str(links).split())
    return [(int(a) - 1, int(b) - 1) for a, b in pairs]


def _nodes(machine: Settings, nodes: int) -> list[Part]:
    counts = words.processors_of_nodes(machine, nodes)
    across = min(NODES_ACROSS, nodes)
    width = (WIDTH - GAP * 3 * (across - 1)) / across
    drawn = [_node(machine, node, counts[node], nodes, width) for node in range(nodes)]
    if nodes > MOST_DRAWN:
        alike = f"and {nodes - MOST_DRAWN} nodes more"
        drawn = [*drawn[:MOST_DRAWN], _box("node", width, [alike])]
    places, marks, y = [], [], 0.0
    for first in range(0, len(drawn), across):
        row = drawn[first : first + across]
        height, least = (find(part.height for part in row) for find in (max, min))
        for place, part in enumerate(row):
            x = place * (width + 3 * GAP)
            places.append((x + width / 2, y + least / 2))
            marks.append(part.at(x, y))
        y += height + 3 * GAP
    lines = [
        tag("line", x1=places[a][0], y1=places[a][1], x2=places[b][0], y2=places[b][1], class_="link")
        for a, b in _pairs(machine["node"]["links"], nodes)
        if max(a, b) < min(len(places), MOST_DRAWN)
    ]
    return [Part([*lines, *marks], y - 3 * GAP), _network(machine, WIDTH)]


def _one_memory(machine: Settings) -> list[Part]:
    count = int(machine["processors"])
    parts = [_box("node", WIDTH, [words.counted(count, "core")], _processors(machine, count, WIDTH - 2 * PAD))]
    parts.append(_box("net", WIDTH, words.interconnect(machine)))
    shared = words.levels(machine, "shared")
    if shared:
        parts.append(_box("cache", WIDTH, ["shared by all cores", *shared]))
    memory = _memory(machine, WIDTH, None)
    return [*parts, memory] if memory else parts


def _disks(machine: Settings) -> Part:
    return _box("disk", WIDTH, words.disks(machine))


def is_complete(machine: Settings) -> bool:
    """Return whether a description has every section that a picture is drawn from, as those of old results have not."""
    wanted = (
        "name",
        "processors",
        "clock",
        "cache",
        "l2",
        "l3",
        "protocol",
        "bus",
        "interconnect",
        "memory",
        "node",
        "disk",
    )
    return all(key in machine for key in wanted)


def picture(machine: Settings) -> str:
    """Draw a machine.

    Parameters
    ----------
    machine : mapping
        Its resolved description, with every setting, as results hold it.

    Returns
    -------
    str
        A complete SVG document.
    """
    nodes = int(machine["node"]["count"])
    about = (words.cores(machine), words.core_caches(machine))
    lines = [piece for text in about for piece in _wrapped(text, WIDTH)]
    title = tag("text", str(machine["name"]), x=0, y=16, class_="t")
    below = [tag("text", line, x=0, y=38 + LINE * number, class_="about") for number, line in enumerate(lines)]
    head = Part([title, *below], 28 + LINE * len(lines))
    parts = [head, *(_nodes(machine, nodes) if nodes > 1 else _one_memory(machine)), _disks(machine)]
    stacked = _beside(parts, WIDTH, 1)
    edge = 8
    size = {"viewBox": f"{-edge} {-edge} {WIDTH + 2 * edge} {stacked.height + 2 * edge:g}"}
    return str(
        tag(
            "svg",
            tag("title", f"{machine['name']}: {words.counted(machine['processors'], 'core')}"),
            tag("style", STYLE),
            *stacked.marks,
            class_="picture",
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            width=WIDTH + 2 * edge,
            style="max-width:100%;height:auto",
            **size,
        )
    )


def drawn(machine: object) -> Markup:
    """Draw the machine of a result, if it says enough of it."""
    if not isinstance(machine, Mapping) or not is_complete(machine):
        return Markup("")
    return Markup(picture(machine))
