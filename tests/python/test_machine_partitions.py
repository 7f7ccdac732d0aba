"""Partitions of a described machine: their machines against those written by hand, and days that are recounted."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from servsim.cli.partitions import app
from servsim.errors import UsageError
from servsim.machine_partitions import cut, live, measure, shapes
from servsim.machines import machine_text, resolve
from servsim.manager import Goal, Goals, Look, Manager
from servsim.simulation import simulate_text
from servsim.statistics.intervals import Estimate, reported
from typer.testing import CliRunner

FOUR = """processors = 8
[cache]
size = "4 KiB"
line = "64 B"
[protocol]
name = "mosi"
[interconnect]
kind = "network"
[node]
count = 4
processors = "2, 2, 3, 1"
memory = "1 MiB, 2 MiB, 3 MiB, 4 MiB"
memory_bytes_per_cycle = "8 B"
memory_latency = "1 cycles, 2 cycles, 3 cycles, 4 cycles"
links = "1-2 2-3 3-4"
coherence = "directory"
"""


@pytest.fixture
def four(tmp_path: Path) -> str:
    (tmp_path / "four.toml").write_text(FOUR)
    return str(tmp_path / "four.toml")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two tasks that share some lines and keep others to themselves."""
    lines = []
    for step, task in itertools.product(range(900), range(2)):
        area = 1 + task * (step % 3 > 0)
        kind = "S" if step % 5 == task else "L"
        lines.append(f"{task} {kind} {0x10000 * area + step * 0x1040 % 0x8000:x} 4 s")
    (tmp_path / "two.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "two.txt"


def test_four_nodes_have_the_five_shapes_of_the_paper() -> None:
    assert set(shapes(4)) == {(4,), (1, 1, 1, 1), (2, 2), (3, 1), (2, 1, 1)}
    for nodes in range(1, 9):
        every = {
            tuple(sorted(parts, reverse=True))
            for count in range(1, nodes + 1)
            for parts in itertools.product(range(1, nodes + 1), repeat=count)
            if sum(parts) == nodes
        }
        assert set(shapes(nodes)) == every
        assert len(shapes(nodes)) == len(every)


def _run(trace: Path, text: str, settings: list[str]) -> Any:
    return simulate_text(trace, text, "m.toml", overrides=settings)["replications"]


def test_a_partition_is_the_machine_that_one_would_write_for_it(four: str, trace: Path) -> None:
    made = cut(four, {"a": [1], "b": [3, 4, 2]})
    by_hand = (
        FOUR.replace("processors = 8", "processors = 6")
        .replace("count = 4", "count = 3")
        .replace('"2, 2, 3, 1"', '"2, 3, 1"')
        .replace('"1 MiB, 2 MiB, 3 MiB, 4 MiB"', '"2 MiB, 3 MiB, 4 MiB"')
        .replace('"1 cycles, 2', '"2')
        .replace("1-2 2-3 3-4", "1-2 2-3")
    )
    assert _run(trace, FOUR, made["b"]) == _run(trace, by_hand, [])
    alone = FOUR[: FOUR.index("[node]")].replace("processors = 8", "processors = 2")
    memory = int(resolve("", "x", [])["bus"]["memory_read"].split()[0]) + 1
    by_hand = alone + f'[bus]\nmemory_read = "{memory} cycles"\n[memory]\nbanks = 1\nbank_time = "8 cycles"\n'
    assert _run(trace, FOUR, made["a"]) == _run(trace, by_hand, [])


@pytest.mark.parametrize("machine", ["brock-2001-4x4", "epyc-9554-128c"])
def test_every_shape_of_a_shipped_machine_is_one(machine: str) -> None:
    text = machine_text(machine)
    nodes = int(resolve(text, machine, [])["node"]["count"])
    for shape in shapes(nodes):
        ends = list(itertools.accumulate(shape))
        parts = {f"p{end}": range(end - size + 1, end + 1) for size, end in zip(shape, ends, strict=True)}
        processors = [int(resolve(text, machine, made)["processors"]) for made in cut(machine, parts).values()]
        each = int(resolve(text, machine, [])["processors"]) // nodes
        assert processors == [size * each for size in shape]


@pytest.mark.parametrize(
    ("words", "machine", "why"),
    [
        (["web=1", "database=1-2"], "brock-2001-4x4", "partition database: node 1 is in partition web"),
        (["web=5"], "brock-2001-4x4", "brock-2001-4x4 has no node 5: its nodes are 1 to 4"),
        (["web=0"], "brock-2001-4x4", "brock-2001-4x4 has no node 0"),
        (["web=1", "web=2"], "brock-2001-4x4", "a partition is named twice"),
        (["web=x"], "brock-2001-4x4", '"x" is no list of nodes'),
        (["web"], "brock-2001-4x4", "a partition is NAME=NODES, not 'web'"),
        (["web=1"], "foglia-2004-4p", "has one node: only machines with node.count above 1"),
        (["web=1", "pool=2"], "epyc-9124-cxl", "partition pool has no processors: add a node that has some"),
        (["web=1,3"], "FOUR", "nodes 1 and 3 reach one another only through others"),
    ],
)
def test_an_impossible_partition_is_one_sentence(four: str, words: list[str], machine: str, why: str) -> None:
    found = CliRunner().invoke(app, ["cut", *words, "-m", four if machine == "FOUR" else machine])
    assert isinstance(found.exception, UsageError)
    assert why in str(found.exception)
    assert "\n" not in str(found.exception)


TWO = Goals({"web": Goal((1,)), "database": Goal((2, 3, 4))}, every_s=100, patience=2, pause_s=200)
RATES = {name: {1: 10.0, 2: 18.0, 3: 24.0} for name in ("web", "database")}
LOAD = {"web": [4.0] * 10 + [16.0] * 20 + [4.0] * 20, "database": [15.0] * 8 + [6.0] * 22 + [22.0] * 20}


@pytest.mark.parametrize("move_s", [0.0, 40.0, 250.0])
def test_a_day_is_conserved_and_the_first_node_stays(move_s: float) -> None:
    day = live(TWO, RATES, LOAD, move_s)
    assert [step.move for step in day if step.move]
    for step in day:
        held = [node for one in step.partitions.values() for node in one.nodes]
        assert sorted(held) == [1, 2, 3, 4]
        assert step.move is None or step.move.node != 1
    assert all(1 in step.partitions["web"].nodes for step in day)
    for name in LOAD:
        each = [step.partitions[name] for step in day]
        assert sum(one.offered for one in each) == pytest.approx(sum(one.served for one in each) + each[-1].waiting)
        assert all(one.served <= RATES[name][len(one.nodes)] * 100 + 1e-9 for one in each)
    kept = live(TWO, RATES, LOAD, move_s, managed=False)
    waiting = [sum(one.waiting for step in steps for one in step.partitions.values()) for steps in (kept, day)]
    assert waiting[1] < 0.8 * waiting[0], "and that is worth something"


def test_a_node_that_moves_serves_nobody_until_its_pages_are_there() -> None:
    load = {"web": [100.0] * 8, "database": [1.0] * 8}
    for move_s in (0.0, 30.0, 130.0):
        day = live(TWO, RATES, load, move_s)
        moved = next(number for number, step in enumerate(day) if step.move)
        assert moved == 1, "after two looks"
        lost = [1800 - step.partitions["web"].served for step in day[moved + 1 : moved + 3]]
        assert lost == pytest.approx([8 * min(move_s, 100), 8 * max(0, move_s - 100)])


def test_a_first_node_alone_is_never_given_away() -> None:
    goals = Goals({"web": Goal((1,)), "database": Goal((2,), rank=1)}, every_s=100, patience=1, pause_s=0)
    day = live(goals, RATES, {"web": [0.0] * 6, "database": [100.0] * 6}, 0.0)
    assert not [step.move for step in day if step.move]
    shared = Look(0, {"web": 0.1, "database": 1.0}, {"web": (1, 2), "database": (3,)})
    both = Goals({"web": Goal((1, 2)), "database": Goal((3,))}, every_s=100, patience=1, pause_s=0)
    day = live(both, RATES, {"web": [0.0] * 6, "database": [100.0] * 6}, 0.0)
    assert [step.move.node for step in day if step.move] == [2]
    # Though it were the nearest.
    near = {(1, 3): 1, (2, 3): 9}
    for fixed, node in ((frozenset({1}), 2), (frozenset[int](), 1)):
        move = Manager(both, near, fixed).look(shared).move
        assert move is not None
        assert move.node == node
    assert Manager(both, near, frozenset({1, 2})).look(shared).move is None


def test_rates_and_moves_come_from_runs_of_the_partitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs: list[tuple[str, list[str]]] = []

    def run(trace: Path, machine: str, *, overrides: list[str], **_: Any) -> dict[str, Any]:
        runs.append((trace.name, overrides))
        moved = {"cycles": 80_000, "nodes": {"migration": {"pages": 4, "cycles": 14_000}}}
        return {"replications": [{**moved, "cycles_per_transaction": 3.5e6 / len(runs)}]}

    monkeypatch.setattr(measure, "simulate", run)
    traces = {"web": tmp_path / "w.svt", "database": tmp_path / "d.svt"}
    found = measure.rates(TWO, "brock-2001-4x4", traces, [], {}, lambda _: None)
    means = {name: {size: one.mean for size, one in by_size.items()} for name, by_size in found.items()}
    expected = {name: {1: at, 2: at + 100, 3: at + 200} for name, at in (("web", 100), ("database", 400))}
    assert means == {name: pytest.approx(by_size) for name, by_size in expected.items()}
    processors = [next(one for one in settings if one.startswith("processors=")) for _, settings in runs]
    assert processors == [f"processors={count}" for count in (4, 8, 12)] * 2
    seconds, cycles = measure.move_seconds("brock-2001-4x4", traces["web"], [], {})
    # A node of 1 GiB has 262,144 pages; a cycle is 1 / 350 MHz.
    assert (seconds, cycles) == (pytest.approx(262_144 * 3500 / 350e6), 3500)
    drained = {"node.migration=drain", "node.drained=4", "node.migration_interval=10000 cycles"}
    assert {*drained, "node.coherence=directory"} <= set(runs[-1][1])


def test_more_nodes_that_serve_less_are_doubted() -> None:
    def known(*rates: float) -> dict[int, Estimate]:
        return {size: reported([rate - 1, rate, rate + 1]) for size, rate in enumerate(rates, 1)}

    assert measure.doubts({"web": known(100, 180, 240)}) == []
    doubts = measure.doubts({"web": known(300, 200, 100), "database": known(100, 102)})
    assert ["more nodes do harm" in one for one in doubts] == [True, True, False]
    assert "database: 1 and 2 nodes are not told apart" in doubts[2]
    once = measure.doubts({"web": {1: reported([300.0]), 2: reported([200.0])}})
    assert "no interval: use --replications 3" in once[0]
    assert once[1].endswith("measure more transactions, or more nodes do harm")


def test_a_day_is_told_with_its_doubts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(trace: Path, *_: Any, overrides: list[str], replications: int = 1, **__: Any) -> dict[str, Any]:
        processors = next((int(one.partition("=")[2]) for one in overrides if one.startswith("processors=")), 16)
        # The database serves as much as it has processors, the web less the more it has.
        mean = 3.5e6 / processors if trace.name == "d.svt" else 3.5e5 * processors
        moved = {"cycles": 80_000, "nodes": {"migration": {"pages": 4, "cycles": 14_000}}}
        seeds = [1 + 0.01 * number for number in range(replications)]
        return {"replications": [{**moved, "cycles_per_transaction": mean * by} for by in seeds]}

    monkeypatch.setattr(measure, "simulate", run)
    monkeypatch.chdir(tmp_path)
    Path("goals.toml").write_text("[partition.web]\nnodes = [1, 2]\n[partition.database]\nnodes = [3, 4]\n")
    Path("day.csv").write_text("web,database\n" + "1,900\n" * 30)
    words = ["day", "goals.toml", "web=w.svt", "database=d.svt", "-m", "brock-2001-4x4", "--load", "day.csv"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0
    assert "node 2 comes from web" in told.stdout
    assert "transactions/s (95 % interval, n = 3)" in told.stdout
    assert "database serves 396 (386 to 406) with 1, 792 (773 to 812) with 2, 1,188 (1,159 to 1,217) with 3 nodes" in (
        told.stdout
    )
    assert "warning: web served 124/s with 2 nodes and 248/s with 1: more nodes do harm" in told.stderr
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert document["managed"]["database"]["served_share"] > document["static"]["database"]["served_share"]
    assert len(document["log"]) == 30
    assert len(document["warnings"]) == 2
    assert document["rates"]["database"]["1"]["n"] == 3
    once = CliRunner().invoke(app, [*words, "--replications", "1"])
    assert "database serves 400 (no interval) with 1" in once.stdout
    assert "rates of fewer than 3 runs have no interval" in once.stderr


def test_a_drained_node_gives_up_pages_on_a_shipped_machine(trace: Path) -> None:
    seconds, cycles = measure.move_seconds("brock-2001-4x4", trace, [], {})
    # 128 lines of 32 B take the 16 B a cycle of two links, one after the other, and interrupts come before.
    assert 128 * 16 < cycles < 20_000
    assert seconds == pytest.approx(262_144 * cycles / 350e6)


@pytest.mark.parametrize(
    ("load", "words", "why"),
    [
        ("web\n1", ["web=t.svt", "database=t.svt"], "must have the columns web, database"),
        ("web,database\n1", ["web=t.svt", "database=t.svt"], "line 2: give 2 numbers from 0"),
        ("web,database\n1,-1", ["web=t.svt", "database=t.svt"], "line 2: give 2 numbers from 0"),
        ("web,database\n", ["web=t.svt", "database=t.svt"], "then one of numbers for each look"),
        ("web,database\n1,2", ["web=t.svt"], "give a trace for each of the partitions web, database"),
        ("web,database\n1,2", ["web=two.txt", "database=two.txt"], "has no transactions"),
    ],
)
def test_a_wrong_day_is_one_sentence(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, load: str, words: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.csv").write_text(load)
    Path("goals.toml").write_text("[partition.web]\nnodes = [1]\n[partition.database]\nnodes = [2, 3, 4]\n")
    found = CliRunner().invoke(app, ["day", "goals.toml", *words, "-m", "brock-2001-4x4", "--load", "day.csv"])
    assert isinstance(found.exception, UsageError)
    assert why in str(found.exception)
    assert trace.exists()


def test_shapes_and_settings_are_json_too() -> None:
    runner = CliRunner()
    printed = runner.invoke(app, ["shapes", "-m", "brock-2001-4x4", "--json"])
    assert json.loads(printed.stdout)["shapes"] == [list(shape) for shape in shapes(4)]
    printed = runner.invoke(app, ["cut", "web=1", "-m", "brock-2001-4x4", "--json"])
    assert json.loads(printed.stdout)["partitions"] == cut("brock-2001-4x4", {"web": [1]})
