"""The advisor: placements against exact optima, rules against every choice, and advice from histogram to gain."""

import importlib
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from servsim.placement.greedy import Costs, assign, swap_threads
from servsim.placement.learn import learn
from servsim.placement.predict import plan
from servsim.placement.rules import Page, rules
from servsim.simulation import simulate
from test_placement import MACHINE

SERVSIM = Path(sys.executable).with_name("servsim")


def optimum(costs: Costs, room: list[int]) -> float:
    """The transportation problem, solved exactly: every page in one node, no node beyond its room."""
    pages, nodes = costs.shape
    each = np.kron(np.eye(pages), np.ones(nodes))
    within = np.kron(np.ones(pages), np.eye(nodes))
    found = linprog(costs.ravel(), A_ub=within, b_ub=room, A_eq=each, b_eq=np.ones(pages), bounds=(0, 1))
    assert found.status == 0
    return float(found.fun)


def fetches(stream: np.random.Generator, pages: int, nodes: int) -> Costs:
    """Cycles of pages of which most belong to one node and some to all."""
    demand = stream.pareto(1.2, (pages, nodes)) * stream.choice([1, 40], (pages, nodes), p=[0.7, 0.3])
    distances = np.where(np.eye(nodes, dtype=bool), 60, stream.integers(150, 400, (nodes, nodes)))
    return demand @ distances


@pytest.mark.parametrize("tight", [1.0, 1.05, 1.5, 100.0])
def test_pages_by_regret_cost_at_most_5_percent_more_than_the_optimum(tight: float) -> None:
    for seed in range(6):
        stream = np.random.default_rng(seed)
        costs = fetches(stream, 90, 4)
        # Rooms of unequal nodes, together just enough when tight is 1.
        parts = stream.dirichlet([3, 3, 3, 3]) * 90 * tight
        room = [int(np.ceil(part)) for part in parts]
        homes = assign(costs, room)
        assert all(np.bincount(homes, minlength=4) <= room)
        cost, least = costs[np.arange(90), homes].sum(), optimum(costs, room)
        assert least * (1 - 1e-6) <= cost <= 1.05 * least
        if tight == 100.0:
            assert cost == costs.min(axis=1).sum()


def test_pages_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="5 pages do not fit into 4"):
        assign(np.ones((5, 2)), [3, 1])


def test_threads_are_exchanged_until_no_exchange_helps() -> None:
    distances = np.array([[60.0, 300], [300, 60]])
    nodes = [0, 0, 0, 1, 1, 1]
    for seed in range(8):
        stream = np.random.default_rng(seed)
        group = stream.permutation([0, 0, 0, 1, 1, 1])
        # Threads of a group share pages; some noise.
        by_slot = np.where(group[:, None] == np.arange(20) % 2, 50, 0) + stream.integers(0, 9, (6, 20))

        def cost(taken: tuple[int, ...], by_slot: Costs = by_slot) -> float:
            demand = np.array([by_slot[list(taken[:3])].sum(axis=0), by_slot[list(taken[3:])].sum(axis=0)])
            return float((demand.T @ distances).min(axis=1).sum())

        taken = swap_threads(by_slot.astype(float), nodes, distances)
        assert sorted(taken) == list(range(6))
        least = min(cost((*one, *sorted(set(range(6)) - set(one)))) for one in itertools.combinations(range(6), 3))
        assert cost(tuple(taken)) == pytest.approx(least)


def test_rules_are_the_cheapest_that_their_price_allows() -> None:
    stream = np.random.default_rng(3)
    costs = stream.integers(0, 100, (9, 3)).astype(float)
    costs[4] = [50, 50.0001, 50]  # hardly matters
    places = [Page("structure", "grid", number * 4096) for number in range(9)]
    homes = costs.argmin(axis=1)
    found = rules(places, homes, costs)
    assert [rule.start for rule in found[1:]] == [rule.end for rule in found[:-1]], "no page without rule, none twice"
    assert (found[0].start, found[-1].end) == (0, 9 * 4096)
    for count in range(1, len(found) + 1):
        few = rules(places, homes, costs, most=count)
        assert len(few) <= count
        by_page = [rule.node for rule in few for _ in range((rule.end - rule.start) // 4096)]
        changes = sum(a != b for a, b in itertools.pairwise(by_page))
        # No sequence with so few changes costs less: every one tried.
        best = min(
            sum(costs[page, node] for page, node in enumerate(nodes))
            for nodes in itertools.product(range(3), repeat=9)
            if sum(a != b for a, b in itertools.pairwise(nodes)) <= changes
        )
        assert sum(costs[page, node] for page, node in enumerate(by_page)) == pytest.approx(best, rel=1e-4)


def test_only_named_data_are_ruled_over_pages_that_nobody_touched() -> None:
    costs = np.tile([0.0, 90], (4, 1))
    places = [Page("", "", 0), Page("", "", 2 * 4096), Page("structure", "a", 0), Page("structure", "a", 5 * 4096)]
    found = rules(places, costs.argmin(axis=1), costs)
    assert [(rule.key, rule.start, rule.end, rule.pages) for rule in found] == [
        ("", 0, 4096, 1),
        ("", 2 * 4096, 3 * 4096, 1),
        ("structure", 0, 6 * 4096, 2),
    ]


def test_pages_of_one_name_are_one_rule_at_the_node_that_suits_them_together() -> None:
    places = [Page("process", "7", 0x1000), Page("process", "7", 0x1000), Page("process", "8", 0x1000)]
    costs = np.array([[0.0, 10], [25, 0], [0, 5]])
    found = rules(places, costs.argmin(axis=1), costs)
    assert [(rule.name, rule.start, rule.end, rule.node) for rule in found] == [
        ("7", 0x1000, 0x2000, 1),
        ("8", 0x1000, 0x2000, 0),
    ]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Four tasks that read pages of their own again and again, more than their caches hold."""
    steps = [
        f"{task} L {0x10_0000 * (task + 1) + step * 64:x} 4 p"
        for _ in range(3) for step in range(8 * 64) for task in range(4)
    ]  # fmt: skip
    (tmp_path / "t.txt").write_text("\n".join(steps) + "\n")
    (tmp_path / "four.toml").write_text(MACHINE)
    return tmp_path


def servsim(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [SERVSIM, "place", "t.txt", "-m", "four.toml", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def test_advice_brings_each_page_home_and_what_it_promised(own: Path) -> None:
    done = servsim(own, "--set", "node.placement=striped", "-o", "p.toml", "--json", "--replications", 3)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    predicted, measured = found["predicted"], found["measured"]
    assert found["advised"] and found["placement"] == (own / "p.toml").read_text()
    assert predicted["remote_share"]["before"] == pytest.approx(0.75, abs=0.01)
    assert predicted["remote_share"]["after"] == 0
    assert measured["remote_share"]["after"]["mean"] == 0
    assert predicted["gain"] > 0.2
    # The prediction keeps the waits of the run that it is drawn from, and here they go as well.
    assert 0.7 * measured["gain"]["mean"] < predicted["gain"] < 1.02 * measured["gain"]["mean"]
    assert measured["seeds"] == [2, 3, 4] and found["learnt"]["seed"] == 1
    assert found["rules"] == 4, "each task's pages are one run"
    # What numactl says of all pages cannot be better, and is said beside it.
    assert found["numactl"]["loss"] > 0
    again = simulate(own / "t.txt", own / "four.toml", overrides=["node.placement=striped"], placement=own / "p.toml",
                     seed=2, replications=3)  # fmt: skip
    mean = measured["cycles_per_transaction"]["after"]["mean"]
    assert again["summary"]["cycles"]["mean"] == pytest.approx(mean), "the file gives what was measured"
    text = servsim(own, "--set", "node.placement=striped", "--no-hints")
    assert "measured on seeds 2 to 4" in text.stdout and "simulated (95 % interval)" in text.stdout


def test_with_messages_the_way_to_the_home_is_a_wait_for_memory_too(own: Path) -> None:
    # Two nodes; every line is fetched from the other one's memory, so that half the way is before its home orders it.
    messages = ["node.placement=remote", "node.coherence=messages", "protocol.name=mesi"]
    ordered = ["node.placement=remote"]
    shares = {}
    for name, overrides in {"messages": messages, "snooping": ordered}.items():
        learnt = learn(own / "t.txt", own / "four.toml", overrides=overrides)
        parts = learnt.replication["processors"]
        waits = {key: sum(part[key] for part in parts) for key in ("memory_stall", "bus_wait")}
        whole = sum(value for part in parts for key, value in part.items() if key != "idle")
        shares[name] = (learnt.stalled_share * whole - waits["memory_stall"]) / waits["bus_wait"]
        assert name == "snooping" or waits["bus_wait"] > 0.02 * whole
    assert shares == {"messages": pytest.approx(1), "snooping": pytest.approx(0, abs=1e-3)}


def test_falsely_shared_lines_are_told_on_machines_of_several_levels(own: Path) -> None:
    steps = [f"{task} {'S' if step % 2 else 'L'} {0x10_0000 + task * 8:x} 4 s" for step in range(60) for task in (0, 1)]
    (own / "t.txt").write_text("\n".join([*steps, "0 L 900000 4 p"]) + "\n")
    for more in ("", '[l2]\nsize = "64 KiB"\n'):
        (own / "four.toml").write_text(MACHINE + more)
        done = servsim(own, "--json")
        assert done.returncode == 0, done.stderr
        (hint,) = json.loads(done.stdout)["hints"]
        assert (int(hint["address"], 16), hint["pad_bytes"]) == (0x10_0000, 64)
        assert hint["false_sharing"] > 50 and len(hint["tasks"]) == 2


@pytest.mark.parametrize(
    ("homes", "nodes"),
    [([0, 0, 1, 2, 2], 'nodes = "2 3"\n'), ([0, 1, 2, 2], ""), ([0, 0, 1, 1, 1, 1, 2, 2, 2], 'nodes = "3"\n')],
)
def test_pages_without_a_rule_stay_out_of_nodes_that_others_fill(homes: list[int], nodes: str) -> None:
    module = importlib.import_module("servsim.placement.advise")
    node = {"count": "3", "placement": "striped", "stride": "4", "memory": "8 KiB, 16 KiB, unlimited"}
    left = module._left(node, np.array(homes))
    assert module._rest(node, left) == f'policy = "striped"\nstride = 4\n{nodes}'
    assert module._left({**node, "memory": "4 KiB"}, np.array([0, 1, 2])) == [], "they have to lie somewhere"


def test_of_too_many_rules_those_that_are_worth_most_are_kept() -> None:
    # Pages of a process, each alone, that hardly matter; data with a name, last in order, that do.
    lone = [Page("process", "7", 0x10000 * at) for at in range(40)]
    data = [Page("structure", "stock", 0x1000 * at) for at in range(6)]
    costs = np.array([[1.0, 2.0]] * 40 + [[100.0, 300.0]] * 3 + [[300.0, 100.0]] * 3)
    homes = costs.argmin(axis=1)
    found = rules([*lone, *data], homes, costs, most=10)
    assert [(rule.start, rule.node) for rule in found if rule.name == "stock"] == [(0, 0), (0x3000, 1)]
    assert len(found) == 10
    one = rules([*lone, *data], homes, costs, most=10, others=0)
    assert [(rule.name, rule.start, rule.node) for rule in one] == [("stock", 0x3000, 1)], "the rest is there anyway"


def test_without_a_gain_there_is_no_advice_and_no_file(own: Path) -> None:
    done = servsim(own, "-o", "p.toml")
    assert done.returncode == 0, done.stderr
    assert "No advice" in done.stdout and "5 % or less" in done.stdout
    assert not (own / "p.toml").exists()


def test_one_memory_and_missing_traces_are_refused(own: Path) -> None:
    (own / "four.toml").write_text('name = "one"\nprocessors = 4\n')
    refused = servsim(own)
    assert (refused.returncode, "one has one memory" in refused.stderr) == (2, True), refused.stderr
    assert "--monitor" not in refused.stderr, "which nobody gave"
    (own / "t.txt").unlink()
    missing = servsim(own)
    assert (missing.returncode, "there is no trace 't.txt'" in missing.stderr) == (2, True), missing.stderr


def test_what_is_measured_was_not_learnt_from(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("servsim.placement.advise")
    known = learn(own / "t.txt", own / "four.toml", overrides=["node.placement=striped"])
    learnt: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "trace_info", lambda _: {"totals": {"transactions": 203}, "tasks": []})
    monkeypatch.setattr(module, "learn", lambda *_, **options: learnt.append(options) or known)
    monkeypatch.setattr(module, "simulate", lambda *_, **options: measured.append(options) or known.result)
    told: list[tuple[int, dict[str, int]]] = []

    def stage(_: str, runs: int, window: dict[str, int]) -> Any:
        told.append((runs, window))
        return None

    assert module.advise(own / "t.txt", own / "four.toml", seed=7, replications=3, stage=stage)["advised"]
    run = [*learnt, *measured]
    assert told == [(one.get("replications", 1), {key: one[key] for key in ("warmup", "transactions")}) for one in run]
    assert [one["seed"] for one in learnt] == [7] * len(learnt)
    last = max(one["warmup"] + one["transactions"] for one in learnt)
    assert len(measured) == 2 and last == 100, "the last quarter is nobody's"
    for one in measured:
        assert one["seed"] > 7 and (one["warmup"], one["transactions"]) == (101, 50)
    assert ["placement" in one for one in measured] == [False, True]


def test_a_prediction_holds_for_fetches_that_it_was_not_drawn_from(own: Path) -> None:
    run = learn(own / "t.txt", own / "four.toml", overrides=["node.placement=striped"])
    pages = 64
    lines = int(run.fetched.sum()) // (4 * pages)

    def predicted(owners: Sequence[Sequence[int]], *, held_out: bool = True) -> tuple[float, float]:
        """Remote share and gain where each page is fetched from by one processor in each of four parts, -1: by none."""
        each = lines * pages / sum(owner >= 0 for owner in owners[0])
        fetched = np.array([[[each * (owner == cpu) for owner in part] for cpu in range(4)] for part in owners])
        whole = fetched if held_out else fetched.sum(axis=0, keepdims=True)
        found = plan(replace(run, fetched_in=whole.astype(np.uint32)), swaps=False)
        return found.remote_share, run.time / found.time - 1

    dealt = [page % 4 for page in range(pages)]
    assert predicted([dealt] * 4) == predicted([dealt] * 4, held_out=False), "what never changes is known"
    assert predicted([dealt] * 4)[0] == 0
    # Every part has pages of its own: a placement drawn from others says nothing of them.
    apart = [[owner if page // 16 == part else -1 for page, owner in enumerate(dealt)] for part in range(4)]
    assert predicted(apart) == (pytest.approx(0.75, abs=0.01), pytest.approx(0, abs=0.01))
    assert predicted(apart, held_out=False)[0] == 0, "though it fits them"
    # Pages go round: whoever fetched from one in three parts does not in the fourth.
    round_ = [[(page + part) % 4 for page in range(pages)] for part in range(4)]
    remote, gain = predicted(round_)
    assert remote == 1 and gain < -0.05
    assert predicted(round_, held_out=False)[0] == 0.75


def test_threads_of_a_core_group_are_exchanged_together(own: Path) -> None:
    two = ["node.placement=striped", "processors=8", "node.count=2"]
    run = learn(own / "t.txt", own / "four.toml", overrides=two)
    assert run.nodes == [0, 0, 0, 0, 1, 1, 1, 1]
    # Processors 0, 1, 4 and 5 fetch the same pages, and 2, 3, 6 and 7 others.
    fetched = np.array([[[9, 9, 0, 0] if cpu % 4 < 2 else [0, 0, 9, 9] for cpu in range(8)]], dtype=np.uint32)

    def taken(groups: int) -> list[int]:
        machine = {**run.result["machine"], "group": {"count": str(groups)}}
        return plan(replace(run, fetched_in=fetched, result={**run.result, "machine": machine}), swaps=True).taken

    assert sorted(taken(1)[:4]) in ([0, 1, 4, 5], [2, 3, 6, 7])
    assert sorted(taken(4)[:4]) in ([0, 1, 4, 5], [2, 3, 6, 7]), "pairs that belong together"
    assert taken(4)[::2] == [one - 1 for one in taken(4)[1::2]]
    assert taken(2) == list(range(8)), "neither node is better for either group"


def test_what_a_node_serves_itself_is_no_loss_by_messages(tmp_path: Path) -> None:
    # All processors read and at times write the same lines again and again: what one node is spared another fetches.
    stream = np.random.default_rng(1)
    lines = stream.integers(0, 256, 16000)
    (tmp_path / "t.txt").write_text(
        "".join(f"{at % 16} {'LLLS'[at // 16 % 4]} {0x100000 + 32 * line:x} 4 s\n" for at, line in enumerate(lines))
    )
    small = ["node.placement=striped", "node.threads=pinned", "l2.size=16 KiB", "cache.size=4 KiB"]
    learnt = learn(tmp_path / "t.txt", "brock-2001-4x4", overrides=small)
    assert learnt.reads("cache").trace() > 0.05 * learnt.reads("memory").sum(), "caches of the own node serve some"
    assert learnt.fetched.sum() == learnt.reads("memory").sum(), "of which the pages know nothing"
    assert plan(learnt, swaps=False).time < 1.02 * learnt.time
