"""The monitor's passes: regions chosen, counts that agree with the trace, names, exports, plot and refusals."""

import csv
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from servsim.monitor import Region, by_data, program, regions
from test_placement import MACHINE

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
MIB = 1 << 20


def cheapest(chosen: list[int], granule: int, filters: int) -> int:
    """The fewest granules that so many regions need to take all of ``chosen``: every way of cutting, tried."""
    ordered = sorted(chosen)
    cuts = range(1, len(ordered))
    best = ordered[-1] - ordered[0] + granule
    for count in range(min(filters, len(ordered))):
        for places in itertools.combinations(cuts, count):
            ends = [0, *places, len(ordered)]
            parts = [ordered[a:b] for a, b in itertools.pairwise(ends)]
            best = min(best, sum(part[-1] - part[0] + granule for part in parts))
    return best // granule


def test_regions_take_the_hottest_granules_that_filters_and_counters_hold() -> None:
    stream = random.Random(5)
    for filters, counters in itertools.product((1, 2, 3), (8, 16, 40, 1000)):
        counts = {place * 64: stream.randrange(1, 50) for place in stream.sample(range(40), 9)}
        found = regions(counts, 64, 16, filters, counters)
        assert len(found) <= filters
        assert sum(region.size for region in found) // 16 <= counters
        hottest = sorted(counts, key=lambda address: (-counts[address], address))
        fits = [n for n in range(1, 10) if cheapest(hottest[:n], 64, filters) * 4 <= counters]
        taken = {a for a in counts if any(r.start <= a < r.start + r.size for r in found)}
        assert taken >= set(hottest[: max(fits, default=0)])
        assert sum(region.size for region in found) == (cheapest(hottest[: fits[-1]], 64, filters) * 64 if fits else 0)


def test_a_program_says_what_the_simulator_reads() -> None:
    text = program([Region(0, 4096), Region(8192, 8192)], 32, "card", ['types = "read"'])
    assert text.count("[[filter]]") == text.count('types = "read"') == 2
    assert 'start = "0x2000"\nsize = "8192 B"\ngranularity = "32 B"' in text


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SERVSIM, "monitor", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture
def hot(tmp_path: Path) -> Path:
    """Four tasks, pinned to nodes 1 to 4, that read all of node 1's pages in turn, one line of them far more often."""
    lines, step = [], 0
    for page in range(6):
        for line in range(64):
            step += 1
            first = [0, 1, 2, 3] if page < 5 or line else [0, 1, 2, 3] * 5
            lines += [f"{task} L {4 * MIB + page * 4096 + line * 64:x} 4 s" for task in first]
            # What shares its set drives the line out again.
            lines += [f"{task} L {(64 + task) * MIB + (step % 8) * 65536 + line * 64:x} 4 p" for task in first]
    (tmp_path / "t.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "four.toml").write_text(MACHINE)
    return tmp_path


def test_each_pass_counts_what_the_one_before_found(hot: Path) -> None:
    files = ["--csv", hot / "h.csv", "--arrow", hot / "h.arrow", "--plot", hot / "h.svg", "-o", hot / "h.json"]
    done = servsim(hot / "t.txt", "-m", hot / "four.toml", "--json", *files)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((hot / "h.json").read_text())
    passes = found["passes"]
    assert [one["granularity_bytes"] for one in passes] == [2 * MIB, 4096, 64], "not finer than the machine's lines"
    for one in passes:
        histogram = one["histogram"]
        assert one["counted"] == one["seen"] == sum(histogram["count"]) > 1000
        granule = one["granularity_bytes"]
        assert all(int(address, 16) % granule == 0 for address in histogram["address"])
    # All passes are the same run: finer counters add up to the coarser ones.
    for coarse, fine in itertools.pairwise(passes):
        sums: dict[tuple[int, int], int] = {}
        rows = zip(*(fine["histogram"][name] for name in ("node", "address", "count")), strict=True)
        for node, address, count in rows:
            key = (node, int(address, 16) // coarse["granularity_bytes"] * coarse["granularity_bytes"])
            sums[key] = sums.get(key, 0) + count
        rows = zip(*(coarse["histogram"][name] for name in ("node", "address", "count")), strict=True)
        assert sums == {(node, int(address, 16)): count for node, address, count in rows}

    with (hot / "h.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    columns = pa.ipc.open_file(hot / "h.arrow").read_all().to_pydict()
    assert len(table) == len(columns["count"]) == sum(len(one["histogram"]["count"]) for one in passes)
    assert [int(row["count"]) for row in table] == columns["count"]
    assert [int(row["address"], 16) for row in table] == columns["address"]
    assert set(columns["granularity_bytes"]) == {2 * MIB, 4096, 64}

    picture = ElementTree.fromstring((hot / "h.svg").read_text())
    bars = [shape for shape in picture.iter("{http://www.w3.org/2000/svg}rect") if shape.get("fill") == "#d55e00"]
    assert len(bars) > 3 * 64, "node 2's accesses are drawn"
    lowest = 40 + 200
    assert all(float(bar.get("y", 0)) + float(bar.get("height", 0)) <= lowest + 0.01 for bar in bars)


def test_data_add_up_by_name_and_node() -> None:
    histogram = {"data": ["stock", "item", "stock", None], "node": [1, 1, 2, 2], "count": [5, 9, 6, 1]}
    assert by_data(histogram) == [
        {"data": "stock", "count": 11, "by_node": {"1": 5, "2": 6}},
        {"data": "item", "count": 9, "by_node": {"1": 9}},
        {"data": "(unknown)", "count": 1, "by_node": {"2": 1}},
    ]


def test_a_captured_trace_names_data_and_processes(tmp_path: Path) -> None:
    options: list[Any] = ["--transactions", 1, "--warm-up", 0, "--mode", "simulator"]
    done = servsim(SHIPPED, "-m", "brock-2001-4x4", *options, "--plot", tmp_path / "b.html", "-o", tmp_path / "b.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "b.json").read_text())
    names = [row["data"] for row in found["data"]]
    assert any(name.startswith("(user stack, postgres ") for name in names), names[:40]
    assert names[0] in done.stdout
    pages = found["passes"][1]["histogram"]
    assert len(set(pages["processor"])) > 4
    known = [row for row in zip(pages["data"], pages["virtual_address"], strict=True) if row[1]]
    assert len(known) > 0.9 * len(pages["data"])
    assert "<svg" in (tmp_path / "b.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "foglia-2004-4p"], "has one memory"),
        (["-m", "brock-2001-4x4", "--mode", "spy"], "accepted are card, simulator"),
        (["-m", "brock-2001-4x4", "--plot", "x.png"], "write it as .svg or .html"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments: list[str], words: str) -> None:
    refused = servsim(SHIPPED, *arguments)
    assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert "Traceback" not in refused.stderr
