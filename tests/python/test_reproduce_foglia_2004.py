"""Section 5.3 of Foglia et al. (2004): the row of three workloads and the tables of traces, on made-up runs.

Each test bends one figure of one workload and sees the row turn.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import made_up
from servsim.reproduce.foglia_2004 import distributed, tables
from servsim.reproduce.foglia_2004.study import Study
from servsim.reproduce.foglia_2004.tiers import Workload, workload_of
from servsim.reproduce.rows import Row
from servsim.reproduce.runs import Configuration, Runs

#: Section 5.3 as made up: what each workload's runs are multiplied by.
TIERS = {"EC-server": 1.0, "DB": 0.9, "Web-server": 1.1}


def of_workload(c: Configuration, seed: int, workload: str) -> dict[str, Any]:
    """Return a run of a workload that differs from the others as the paper says."""
    run = made_up(c, seed)
    run["gsp"] *= TIERS[workload]
    for kind in ("cold", "true_sharing"):
        run["misses"][kind] = {mode: round(n / TIERS[workload]) for mode, n in run["misses"][kind].items()}
    run["misses"]["total"]["user"] = round(run["misses"]["total"]["user"] / TIERS[workload])
    if workload == "Web-server":
        for kind in ("true_sharing", "false_sharing"):
            run["misses"][kind]["user"] = 0
        run["misses"]["false_sharing"]["kernel"] *= 3
        run["coherence"]["false_sharing"]["kernel"] *= 3
    return run


def three_tiers(monkeypatch: pytest.MonkeyPatch, bend: Callable[[str, dict[str, Any]], None]) -> Any:
    """Return row F18 made of made-up runs of the three workloads."""
    made = {}
    for workload in Workload:
        runs = Runs(Path(workload.value), 1, 2, 3)

        def call(
            configuration: Configuration, count: int | None = None, of: str = workload.value
        ) -> list[dict[str, Any]]:
            found = [of_workload(configuration, seed, of) for seed in range(1, 4)]
            for run in found:
                bend(of, run)
            return found

        monkeypatch.setattr(runs, "values", lambda c, figure, call=call: [figure(run) for run in call(c)])
        made[workload] = runs
    study = Study(made[Workload.BOTH], True, made)
    monkeypatch.setattr(
        Study,
        "row",
        lambda self, name, claim, tolerance, parts, witness, **more: Row(
            name, claim, tolerance, more.get("hard", False), tuple(parts), more["more"]
        ),
    )
    return distributed.row(study)[0]


def test_three_workloads_that_differ_as_printed_reproduce_f18(monkeypatch: pytest.MonkeyPatch) -> None:
    found = three_tiers(monkeypatch, lambda *_: None)
    assert found.verdict == "reproduced" and found.hard, [part for part in found.parts if not part.holds]


def _slow(of: str, run: dict[str, Any]) -> None:
    run["gsp"] *= 0.5 if of == "Web-server" else 1


def _shares(of: str, run: dict[str, Any]) -> None:
    run["misses"]["true_sharing"]["user"] = 1


def _stays(of: str, run: dict[str, Any]) -> None:
    run["coherence"]["passive_sharing"]["user"] = 0


def _alike(of: str, run: dict[str, Any]) -> None:
    run["misses"]["false_sharing"]["kernel"] = 5_000


@pytest.mark.parametrize(
    ("bend", "what"),
    [
        (_slow, "GSP, 16p, affinity"),
        (_shares, "user misses by true and false"),
        (_stays, "user passive"),
        (_alike, "invalidation misses of the kernel"),
    ],
)
def test_one_figure_of_one_tier_turns_f18(
    bend: Callable[[str, dict[str, Any]], None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = three_tiers(monkeypatch, bend)
    assert found.verdict == "missed"
    assert any(what in part.what for part in found.parts if not part.holds)
    assert "Web-server 4.0" in found.explanation, "ready tasks of each"


@pytest.mark.parametrize(
    ("load", "workload"),
    [((), "EC-server"), (("apache2",), "DB"), (("postgres",), "Web-server"), (("oltp", "apache2"), "DB")],
)
def test_a_workload_is_known_by_the_tier_that_is_measured(load: tuple[str, ...], workload: str) -> None:
    tasks = [{"name": name, "client": name in ("shop", *load)} for name in ("shop", "apache2", "postgres", "ls")]
    found = workload_of(tasks)
    assert found is not None and found.value == workload
    assert workload_of([task for task in tasks if task["name"] != "apache2"]) is None


def test_tables_name_whose_references_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ("servsim-shop", "apache2", "apache2", "postgres", "ls", "ksoftirqd/0")
    kinds = ("user", "user", "user", "user", "user", "kernel")
    tasks = [
        {"name": name, "tgid": number, "kind": kind, "client": number == 0}
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    asked: list[list[int]] = []

    def footprints(_: Path, line: int, groups: list[list[int]], progress: Callable[[int], None]) -> str:
        assert line == 32
        progress(30_000_000)
        asked.extend(groups)
        counts = {"fetches": 75, "loads": 20, "stores": 5, "blocks": 9}
        shared = {"shared_blocks": 3, "shared_accesses": 4, "shared_stores": 1}
        return json.dumps([{**counts, **shared}] * len(groups))

    monkeypatch.setattr(tables._core, "trace_footprints", footprints)
    totals = {"instructions": 75_000_000, "data_references": 25_000_000, "transactions": 4}
    monkeypatch.setattr(tables._core, "trace_info", lambda _: json.dumps({"totals": totals, "meta": {}}))
    trace = tmp_path / "x.svt"
    trace.write_bytes(b"one")
    said: list[tuple[str, float]] = []
    made = Runs(trace, 1, 1, 1, folder=tmp_path, say=lambda *told: said.append(told))
    cells = tables.cells(made, Workload.BOTH, tasks)
    what = "Tables 1 to 3 of x.svt"
    assert said == [(what, 0.0), (f"{what}: 30 of about 100 million references", 0.3)], "of the whole trace"
    assert asked == [[4], [1, 2], [3], [1, 2, 3, 4, 5]], "ls, Apache, PostgreSQL, all but the browsers"
    assert tables.cells(made, Workload.BOTH, tasks) == cells and len(asked) == 4, "kept, as after a kill"
    ours = {(cell.row, cell.column): cell.ours["ours"] for cell in cells}
    assert ours["Apache, EC-server", "processes"] == 2 and ours["EC-server", "processes"] == 4
    assert ours["EC-server", "code"] == 75 and ours["EC-server", "data"] == 25 and ours["EC-server", "stores"] == 5
    assert ours["PostgreSQL, EC-server", "shared data"] == 4 and ours["EC-server", "shared stores"] == 1
    assert ("ls, EC-server", "shared data") not in ours, "one process shares with nobody"
