"""The studies rerun by simulation: their verdicts follow from the figures, whatever these are.

The runs here are made up, by formulas in which the paper is right; each test then bends one figure and
sees its row, and no other claim, turn. Nothing here says that real runs are favourable.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import made_up
from servsim.critical_point import critical_point, crossing
from servsim.environment import shipped_trace
from servsim.errors import UsageError
from servsim.reproduce import alameldeen_2003, broadcasts, foglia_2004
from servsim.reproduce import runs as kept_runs
from servsim.reproduce.broadcasts import Sweep
from servsim.reproduce.report import Report
from servsim.reproduce.rows import ordered, within
from servsim.reproduce.runs import Configuration, Runs, measured

SERVSIM = Path(sys.executable).with_name("servsim")
Bend = Callable[[Configuration, dict[str, Any]], None]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """Return a function that runs a study on made-up runs, bent if wished."""

    def make(module: Any, bend: Bend = lambda *_: None, **more: Any) -> Report:
        def call(self: Runs, configuration: Configuration, count: int | None = None) -> list[dict[str, Any]]:
            found = [made_up(configuration, self.seed + i) for i in range(count or self.count)]
            for run in found:
                if self.transactions == 1:
                    run["cycles_per_transaction"] *= 1 + 0.2 * (run["seed"] % 3)
                bend(configuration, run)
            return found

        def of_policy(self: Sweep, policy: str, bandwidth: str) -> list[dict[str, Any]]:
            cost = {"snooping": 100 + 100 / float(bandwidth), "directory": 200 + 50 / float(bandwidth)}
            cycles = cost.get(policy, 0.98 * min(cost.values()))
            return [{"cycles": cycles, "nodes": {"broadcasts": 1, "unicasts": 0}}] * 3

        monkeypatch.setattr(Runs, "__call__", call)
        monkeypatch.setattr(Sweep, "runs", of_policy)
        report: Report = module.run(quick=True, **more)
        return report

    return make


def row(report: Report, name: str) -> Any:
    return next(row for row in report.rows if row.name == name)


def test_protocols_that_behave_as_printed_pass_the_hard_rows(study: Callable[..., Report]) -> None:
    report = study(foglia_2004)
    assert row(report, "F14").verdict == row(report, "F17").verdict == row(report, "F5").verdict == "reproduced"
    assert report.passed
    assert row(report, "F18").verdict == "waiting" and "servsim capture" in row(report, "F18").explanation


def test_amsd_behind_mesi_misses_f14_and_fails_the_study(study: Callable[..., Report]) -> None:
    def bend(c: Configuration, run: dict[str, Any]) -> None:
        if c.protocol == "amsd" and c.processors == 12:
            run["gsp"] *= 0.5

    report = study(foglia_2004, bend)
    assert row(report, "F14").verdict == "missed" and not report.passed
    assert "the reverse is proven" in " ".join(part.ours for part in row(report, "F14").parts)
    told = row(report, "F14").explanation
    # The reasons are computed: 4 ready tasks, 3 of 13 cycles idle, and what PSCR pays and saves.
    assert "only 4.0 tasks are ready" in told and "idle 23 %" in told and "PSCR makes" in told


def test_an_explanation_names_only_what_the_counters_show(study: Callable[..., Report]) -> None:
    def busy(c: Configuration, run: dict[str, Any]) -> None:
        run["mean_ready_tasks"], run["gsp"] = 26.0, 1.0
        run["references_by_kind"]["store"]["user"] = 1_500_000

    told = row(study(foglia_2004, busy), "F1").explanation
    assert "tasks are ready" not in told and "stores are 17.0 %" in told


def test_protocols_too_close_to_tell_apart_do_not_pass_a_hard_row(study: Callable[..., Report]) -> None:
    def bend(c: Configuration, run: dict[str, Any]) -> None:
        if c.protocol in ("mesi", "amsd"):
            run["gsp"] = 10 + (run["seed"] * (3 if c.protocol == "mesi" else 7)) % 5

    found = row(study(foglia_2004, bend), "F14")
    assert found.verdict == "missed"
    assert "(not proven)" in " ".join(part.ours for part in found.parts)


@pytest.mark.parametrize(
    ("name", "bend"),
    [
        ("F5", lambda c, run: run["bus"].update(write_back=5_000)),
        ("F17", lambda c, run: run["misses"]["true_sharing"].update(user=1) if c.protocol == "pscr" else None),
    ],
)
def test_one_figure_turns_its_hard_row(name: str, bend: Bend, study: Callable[..., Report]) -> None:
    report = study(foglia_2004, bend)
    assert row(report, name).verdict == "missed"
    assert [check.name.split(":")[0] for check in report.checks if not check.passed] == [name]


@pytest.mark.parametrize(("gsp", "verdict"), [((2.6, 3.0, 3.3), "reproduced"), ((3.3, 3.0, 2.6), "missed")])
def test_f1_follows_the_figures(gsp: tuple[float, ...], verdict: str, study: Callable[..., Report]) -> None:
    sizes = dict(zip(foglia_2004.QUICK_SIZES, gsp, strict=True))

    def bend(c: Configuration, run: dict[str, Any]) -> None:
        if c.processors == 4 and c.line == 32:
            run["gsp"] = sizes[c.size]

    assert row(study(foglia_2004, bend), "F1").verdict == verdict


@pytest.mark.parametrize(("gap", "verdict"), [(2.0, "reproduced"), (500.0, "missed"), (-60.0, "missed")])
def test_a5_needs_a_proven_mean_and_a_plausible_share_of_wrong_runs(
    gap: float, verdict: str, study: Callable[..., Report]
) -> None:
    def bend(c: Configuration, run: dict[str, Any]) -> None:
        run["cycles_per_transaction"] = 1000 + 3 * ((run["seed"] * 7) % 5) - gap * (c.ways == 4)

    a5 = row(study(alameldeen_2003, bend), "A5")
    assert a5.verdict == verdict
    # A missed row is explained by what was measured, not by another paper's workload.
    assert ("The means are" in a5.explanation) == (verdict == "missed")
    assert "the paper" not in a5.explanation


def test_a6_is_missed_when_variation_does_not_shrink(study: Callable[..., Report]) -> None:
    assert row(study(alameldeen_2003), "A6").verdict == "reproduced"

    def bend(c: Configuration, run: dict[str, Any]) -> None:
        # Work that changes only every 32 windows varies as much over 16 windows as over one.
        run["timeline"] = [{"instructions": 100 if i < 32 else 140 + run["seed"]} for i in range(64)]

    a6 = row(study(alameldeen_2003, bend), "A6")
    assert a6.verdict == "missed"
    assert "tasks are ready for 16 processors" in a6.explanation


def test_f19_says_how_many_processors_affinity_leaves_unused(study: Callable[..., Report]) -> None:
    def bend(c: Configuration, run: dict[str, Any]) -> None:
        if c.processors == 28 and c.scheduler == "affinity":
            run["gsp"] *= 0.5
            working = run["processors"][0]
            idle = {part: sum(working.values()) * (part == "idle") for part in working}
            run["processors"] = [working] * 20 + [idle] * 8

    f19 = row(study(foglia_2004, bend), "F19")
    assert f19.verdict == "missed"
    assert "With affinity 20 of 28 processors" in f19.explanation


def test_the_waiting_row_of_2003_says_what_it_waits_for(study: Callable[..., Report]) -> None:
    report = study(alameldeen_2003)
    assert [r.name for r in report.rows] == [f"A{number}" for number in range(1, 8)]
    assert [r.name for r in report.rows if r.verdict == "waiting"] == ["A3"]
    assert "Barnes-Hut" in row(report, "A3").explanation


def test_workloads_beside_the_first_have_rows_of_their_own(study: Callable[..., Report]) -> None:
    trace = shipped_trace()
    assert trace is not None
    name = alameldeen_2003.workload_of(trace)
    assert name == "oltp"

    def bend(c: Configuration, run: dict[str, Any]) -> None:
        run["timeline"] = [{"instructions": 100 if i < 32 else 140 + run["seed"]} for i in range(64)]

    report = study(alameldeen_2003, bend, traces=[trace, trace])
    names = [r.name for r in report.rows]
    assert {f"A5, {name}", f"A6, {name}"} <= set(names) and names[-1] == "A7"
    assert row(report, f"A6, {name}").verdict == "missed" and name in row(report, "A5").claim


def test_a_row_that_only_multiplies_printed_figures_is_not_called_reproduced(
    study: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = study(alameldeen_2003)
    assert row(report, "A7").verdict == "not measured" and row(report, "A7").explanation
    assert "not measured" in report.render() and "from its own figures 12.02" in report.render()
    assert report.to_dict()["rows"][-1]["measured"] is False
    monkeypatch.setattr(alameldeen_2003, "TUNED", 13)
    assert row(study(alameldeen_2003), "A7").verdict == "contradicted"


def test_the_json_carries_a_verdict_for_every_row(study: Callable[..., Report]) -> None:
    document = json.loads(json.dumps(study(foglia_2004).to_dict()))
    assert [r["name"] for r in document["rows"]] == [f"F{i}" for i in range(1, 20)]
    assert {r["verdict"] for r in document["rows"]} <= {"reproduced", "missed", "waiting"}
    assert "F14" in study(foglia_2004).render()


def test_parts_hold_within_their_tolerance_only() -> None:
    assert within("x", 10, [10.9, 11.0], share=0.1).holds
    assert not within("x", 10, [11.1, 11.2], share=0.1).holds
    assert within("x", 5, [11.0, 12.0], absolute=7).holds
    assert ordered("x", [1.0, 2.0, 3.0], [1.5, 2.6, 3.4], ("a", "b")).holds
    assert not ordered("x", [1.0, 2.0, 3.0], [1.5, 1.9, 3.4], ("a", "b")).holds


def test_the_critical_point_is_the_smallest_number_whose_successor_gains_too_little() -> None:
    assert crossing({1: 1.0, 2: 1.9, 3: 2.6, 4: 3.0, 5: 3.9}) == 3.0
    assert crossing({1: 1.0, 2: 1.9, 3: 2.6}) is None
    assert crossing({4: 3.0, 5: 3.1, 6: 3.9}) == 4.0


def test_wide_steps_find_the_point_that_single_steps_find_on_a_smooth_curve() -> None:
    curve = {n: 20 * (1 - 0.95**n) for n in range(1, 33)}
    exact, wide = crossing(curve), crossing({n: curve[n] for n in range(4, 33, 4)})
    assert exact is not None and wide == pytest.approx(exact, abs=1.0)


def test_a_critical_point_over_seeds_has_its_interval_and_says_whether_it_is_settled() -> None:
    curves = {n: [20 * (1 - 0.9**n) + 0.001 * s * n for s in range(5)] for n in range(1, 20)}
    found = critical_point(curves)
    assert found.low == found.point == found.high and found.settled
    noisy = {n: [value + (s * n * 37 % 11) / 10 for s, value in enumerate(values)] for n, values in curves.items()}
    unsure = critical_point(noisy)
    assert not unsure.settled and unsure.low is not None and unsure.point is not None and unsure.low <= unsure.point
    alone = critical_point({n: values[:1] for n, values in curves.items()})
    assert alone.low is None and alone.high is None and not alone.settled
    with pytest.raises(UsageError):
        critical_point({1: [1.0], 2: [1.0, 2.0]})


def test_an_unknown_study_a_missing_trace_and_a_needless_one_are_refused() -> None:
    for arguments, words in (
        (("nobody-1999",), "foglia-2004"),
        (("foglia-2004", "--trace", "no.svt"), "no trace"),
        (("du-2001", "--trace", __file__), "runs no trace"),
        (("thornock-1997", "--trace", __file__, "--trace", __file__), "--trace once"),
        (("foglia-2004", "--trace", str(shipped_trace()), "--trace", str(shipped_trace())), "no web server"),
        (("du-2001", "--runs", "5"), "leave --runs and --references out"),
        (("brock-2001", "--references", "5"), "leave --runs and --references out"),
        (("foglia-2004", "--runs", "1"), "--runs"),
    ):
        done = subprocess.run([SERVSIM, "reproduce", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stderr, done.stderr


def test_runs_that_were_made_are_not_made_again_unless_something_decides_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []

    def simulate(trace: Path, machine: str, **options: Any) -> dict[str, Any]:
        made.append((machine, options["seed"]))
        return {"replications": [{"seed": options["seed"], "gsp": len(made)}]}

    monkeypatch.setattr(kept_runs, "simulate", simulate)
    monkeypatch.setattr(kept_runs, "expected_references", lambda *_, **__: None)
    trace = tmp_path / "trace.svt"
    trace.write_bytes(b"one")

    def again(processors: int = 4, **different: Any) -> float:
        runs = Runs(trace, **{"warmup": 1, "transactions": 5, "count": 1, "folder": tmp_path, **different})
        return float(runs(Configuration(processors))[0]["gsp"])

    first = again()
    assert again() == first and len(made) == 1, "as after a kill"
    others: list[dict[str, Any]] = [{"transactions": 6}, {"warmup": 2}, {"seed": 2}, {"machine": "foglia-2004-4p"}]
    assert [again(**other) for other in others] == [2, 3, 4, 5]
    assert again(8) == 6
    trace.write_bytes(b"two")
    assert again() == 7 and again(folder=None) == 8
    monkeypatch.setattr(kept_runs, "versions", lambda: {"servsim": "another", "build": "another"})
    assert again() == 9 and again() == 9


def test_runs_and_their_length_are_as_many_as_asked_for(study: Callable[..., Report]) -> None:
    usual, asked = (study(foglia_2004, **more).notes[0] for more in ({}, {"count": 7, "references": 2_000_000}))
    assert "5 runs per configuration" in usual and "transactions after" in usual
    assert "7 runs per configuration" in asked and " 2 M references after as many of warm-up" in asked
    report = study(alameldeen_2003, count=6, references=6_000_000)
    assert "6 runs per configuration" in report.notes[0] and " 2 transactions after 2 of warm-up" in report.notes[0]
    assert "6 runs each" in row(report, "A5").parts[0].what


def test_runs_of_references_measure_these_behind_as_many_and_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path))
    told: list[str] = []

    def made(references: int) -> list[Any]:
        prepared = kept_runs.runs(None, 2, lambda what, *_: told.append(what), references=references, cut=True)
        prepared.expected = 9
        return list(prepared(Configuration(4)))

    first = made(50_000)
    assert all(50_000 <= run["references"] < 100_000 for run in first)
    assert first[0]["cycles"] != first[1]["cycles"], "the seeds differ"
    assert "configuration 1 of about 9" in told[0]
    with monkeypatch.context() as killed:
        killed.setattr(kept_runs, "simulate", lambda *_, **__: pytest.fail("it was made before"))
        assert made(50_000) == first
    with pytest.raises(UsageError, match=r"too few to measure 100000000 .* give --references \d+ or fewer"):
        made(100_000_000)
    monkeypatch.setattr(kept_runs, "simulate", lambda *_, **__: {"replications": [{"trace_exhausted": 1}]})
    with pytest.raises(UsageError, match=r"ends before 60000 references were measured.*fewer --references"):
        made(60_000)


def test_a_study_says_of_how_many_configurations_it_has_made_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[Configuration] = set()

    def call(self: Runs, configuration: Configuration, count: int | None = None) -> list[dict[str, Any]]:
        asked.add(configuration)
        return [made_up(configuration, self.seed + i) for i in range(2)]

    monkeypatch.setattr(Runs, "__call__", call)
    for quick, number in foglia_2004.CONFIGURATIONS.items():
        asked.clear()
        foglia_2004.run(quick)
        assert len(asked) == number


def test_one_transaction_is_too_short_to_show_that_longer_runs_vary_less(study: Callable[..., Report]) -> None:
    with pytest.raises(UsageError, match=r"measures 1 transaction.*more --references"):
        study(alameldeen_2003, references=1)


def test_a_study_of_2003_that_was_ended_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    made: list[tuple[Any, ...]] = []

    def simulate(trace: Any, machine: str, **options: Any) -> dict[str, Any]:
        made.append((machine, *options["overrides"], options["transactions"]))
        if len(made) == 5:
            raise KeyboardInterrupt
        runs = [made_up(Configuration(16), 1 + i) for i in range(options["replications"])]
        return {"replications": [{**run, "cycles": 5, "nodes": {"broadcasts": 1, "unicasts": 0}} for run in runs]}

    monkeypatch.setattr(kept_runs, "simulate", simulate)
    monkeypatch.setattr(broadcasts, "simulate", simulate)
    ended = alameldeen_2003.run(quick=True, count=2)
    assert ended.interrupted and [r.name for r in ended.rows] == ["A5", "A6", "A7"]
    whole = alameldeen_2003.run(quick=True, count=2)
    assert not whole.interrupted and len(whole.rows) == 7
    # What was interrupted is made again, and nothing else.
    assert len(made) - 1 == len(set(made))


@pytest.mark.parametrize("count", [1, 3, 10, 199])
def test_warm_up_and_measurement_fit_into_the_trace(count: int) -> None:
    warmup, transactions = measured(count, 24)
    assert warmup >= 0 and transactions >= 1 and warmup + transactions <= count


def test_each_user_has_work_left_when_the_measurement_ends() -> None:
    assert measured(120, 24) == (24, 72)
    assert 9 - sum(measured(9, 24)) == 3, "a small trace keeps a third"
