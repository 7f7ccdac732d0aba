"""The picture of a machine: its parts are those of the description, and nothing lies over anything else."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servsim.machines import machine_path, resolve
from servsim.report.picture import MOST_DRAWN, WIDTH, is_complete, picture

SERVSIM = Path(sys.executable).with_name("servsim")
MACHINES = sorted(path.stem for path in machine_path("foglia-2004-4p").parent.glob("*.toml"))
SVG = "{http://www.w3.org/2000/svg}"
POOL = """
processors = 8
[interconnect]
kind = "network"
[node]
count = 3
processors = "4, 4, 0"
memory = "1 GiB, 2 GiB, unlimited"
memory_latency = "0 cycles, 0 cycles, 300 cycles"
links = "1-2 1-3"
"""


def of(name: str) -> dict[str, Any]:
    return resolve(machine_path(name).read_text(encoding="utf-8"), name, [])


def drawn(svg: str, tag: str) -> Iterator[tuple[ET.Element, float, float]]:
    """Yield every element of a kind, with what it is moved by."""

    def walk(element: ET.Element, x: float, y: float) -> Iterator[tuple[ET.Element, float, float]]:
        moved = element.get("transform")
        if moved:
            dx, dy = moved.removeprefix("translate(").removesuffix(")").split(",")
            x, y = x + float(dx), y + float(dy)
        if element.tag == f"{SVG}{tag}":
            yield element, x, y
        for child in element:
            yield from walk(child, x, y)

    yield from walk(ET.fromstring(svg), 0.0, 0.0)


def boxes(svg: str) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield kind, left, top, right and bottom of every box, where it is drawn."""
    for element, x, y in drawn(svg, "rect"):
        left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        width, height = float(element.get("width", 0)), float(element.get("height", 0))
        yield element.get("class", ""), left, top, left + width, top + height


def said(svg: str) -> str:
    return " ".join(ET.fromstring(svg).itertext())


@pytest.mark.parametrize("name", MACHINES)
def test_every_shipped_machine_is_drawn_with_all_its_cores_and_nothing_overlaps(name: str) -> None:
    machine = of(name)
    svg = picture(machine)
    found = list(boxes(svg))
    nodes = int(machine["node"]["count"])
    cores = sum(kind == "core" for kind, *_ in found)
    assert cores == int(machine["processors"]) or nodes > MOST_DRAWN
    assert name in said(svg) and str(machine["cache"]["size"]) in said(svg)
    for kind, left, top, right, bottom in found:
        assert 0 <= left < right <= WIDTH + 0.01 and bottom > top, kind
    for at, (_, left, top, right, bottom) in enumerate(found):
        for _, a, b, c, d in found[at + 1 :]:
            apart = a >= right - 0.01 or c <= left + 0.01 or b >= bottom - 0.01 or d <= top + 0.01
            inside = a >= left and b >= top and c <= right and d <= bottom
            assert apart or inside, (name, at)


def test_nodes_links_and_a_node_of_memory_alone_are_drawn() -> None:
    svg = picture(resolve(POOL, "pool.toml", []))
    kinds = [kind for kind, *_ in boxes(svg)]
    assert (kinds.count("node"), kinds.count("core"), kinds.count("memory")) == (3, 8, 3)
    assert svg.count('class="link"') == 2
    assert "node 3: memory alone" in said(svg) and "300 cycles more here" in said(svg) and "2 GiB" in said(svg)


@pytest.mark.parametrize("name", ["epyc-9124-cxl", "graviton4-192c"])
def test_links_end_in_nodes_however_high_these_are(name: str) -> None:
    svg = picture(of(name))
    nodes = [box[1:] for box in boxes(svg) if box[0] == "node"]
    (line, dx, dy), *others = drawn(svg, "line")
    assert not others and len(nodes) == 2
    for end in "12":
        x, y = dx + float(line.get(f"x{end}", 0)), dy + float(line.get(f"y{end}", 0))
        assert any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in nodes)


def test_the_time_of_another_cache_is_the_whole() -> None:
    assert "from another cache in 94 cycles" in said(picture(of("epyc-9124-16c")))


def test_a_way_between_core_groups_is_told_where_it_costs_anything() -> None:
    assert "between core groups" not in said(picture(of("graviton4-192c")))
    machine = of("epyc-9124-16c")
    assert f"between core groups {machine['group']['crossing']} more" in said(picture(machine))


def test_what_the_description_does_not_have_is_not_drawn() -> None:
    machine = of("foglia-2004-4p")
    assert "L2" not in said(picture(machine)) and "node 1" not in said(picture(machine))
    machine["l2"] |= {"size": "8 MiB", "sharing": "shared"}
    assert "L2 8 MiB" in said(picture(machine)) and "shared by all cores" in said(picture(machine))
    assert is_complete(machine) and not is_complete({"name": "old"})


def test_its_style_reaches_nothing_else_of_a_page() -> None:
    rules = picture(of("du-2001")).split("<style>")[1].split("</style>")[0].split("}")
    assert len(rules) > 5 and all(rule.startswith(".picture ") for rule in rules if rule)


def test_a_name_that_markup_would_break_is_escaped() -> None:
    assert "a <b> & c" in said(picture({**of("du-2001"), "name": "a <b> & c"}))


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "explain", *words], capture_output=True, text=True, check=False)


def test_explain_draws_a_machine_and_refuses_to_draw_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.svg"
    assert explain("brock-2001-4x4", "--picture", str(out)).returncode == 0
    assert out.read_text().startswith("<svg") and "node 4: 4 cores" in said(out.read_text())
    for words, fault in [((), "--picture draws a machine"), (("brok-2001-4x4",), "did you mean 'brock-2001-4x4'")]:
        done = explain(*words, "--picture", str(out))
        assert done.returncode == 2 and fault in done.stderr.replace("\n", " ")
