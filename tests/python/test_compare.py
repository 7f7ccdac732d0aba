"""``servsim compare``: verdicts, refusals and warnings, on small traces and on the shipped one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layout_result import layout_result
from servsim.comparison import Design, judge, metric
from servsim.comparison.designs import Stopped, parse_machine, told_apart
from servsim.report import check
from servsim.statistics.comparison import wrong_conclusion

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)


def design(name: str, cycles: list[float], **changes: Any) -> Design:
    """Return a design whose runs took these cycles per transaction; all else is layout only."""
    document = layout_result(name, replications=len(cycles))
    for replication, value in zip(document["replications"], cycles, strict=True):
        replication["cycles_per_transaction"] = value
        replication["coherence"] = {"total": {"user": 0, "kernel": 0}}
    document["options"].update(changes.pop("options", {}))
    document["trace"].update(changes.pop("trace", {}))
    document.update(changes)
    return Design(name, check(document, name))


CPT = metric("cycles_per_transaction")
CHANCE = np.random.default_rng(4)
SLOW = (100 + CHANCE.normal(0, 1, 12)).tolist()
FAST = (90 + CHANCE.normal(0, 1, 12)).tolist()
NEAR = (99.4 + CHANCE.normal(0, 1, 12)).tolist()


def test_designs_far_apart_are_ranked_with_the_better_one_named() -> None:
    found = judge([design("slow", SLOW), design("fast", FAST)], CPT)
    assert found.ranked and found.pairs[0].better == "fast"
    assert [(k.name, best, worst) for k, best, worst in found.ranks()] == [("fast", 1, 1), ("slow", 2, 2)]


def test_overlapping_designs_are_not_ranked_and_the_answer_says_what_would_tell_them_apart() -> None:
    found = judge([design("slow", SLOW), design("near", NEAR)], CPT)
    (pair,) = found.pairs
    assert pair.better is None and not found.ranked and "overlap" in pair.reason
    assert pair.runs_to_separate is not None and f"{pair.runs_to_separate} runs" in pair.reason
    assert {worst for _, _, worst in found.ranks()} == {2}


def test_intervals_that_overlap_are_not_ranked_even_when_pairing_finds_a_difference() -> None:
    shifted = [value - 0.5 + 0.01 * i for i, value in enumerate(SLOW)]
    found = judge([design("slow", SLOW), design("shifted", shifted)], CPT)
    (pair,) = found.pairs
    assert pair.difference.paired and pair.difference.p < 1e-6
    assert pair.better is None and "although the test finds a difference" in pair.reason


def test_the_probability_of_a_wrong_conclusion_is_that_of_all_pairs_of_runs() -> None:
    found = judge([design("slow", SLOW), design("near", NEAR)], CPT).to_dict()["pairs"][0]["wrong_conclusion"]
    assert found["probability"] == wrong_conclusion(SLOW, NEAR).probability
    assert 0.1 < found["probability"] < 0.5
    assert found["by_runs"]["1"] > found["by_runs"]["5"] > found["by_runs"]["20"]


def test_identical_runs_prove_nothing() -> None:
    found = judge([design("a", [5.0] * 10), design("b", [6.0] * 10)], CPT)
    assert found.pairs[0].better is None and "memory_delay" in found.pairs[0].reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"warmup": 7}}, "warm-up"),
        ({"trace": {"hash": "sha256:00"}}, "different traces"),
        ({"options": {"transactions": 5}}, "number of transactions"),
    ],
)
def test_runs_that_differ_in_more_than_the_machine_are_not_paired_and_warned_of(
    changes: dict[str, Any], words: str
) -> None:
    found = judge([design("slow", SLOW), design("fast", FAST, **changes)], CPT)
    assert not found.method.paired and words in str(found.method.unpaired_because)
    assert not found.pairs[0].difference.paired
    assert any("more than the machine differs" in text for text in map(str, found.warnings))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"options": {"warmup": 7}}, "warm-up"),
        ({"options": {"transactions": 5}}, "number of transactions"),
        ({"options": {"functional_warmup": "20 transactions"}}, "functional warm-up"),
        ({"options": {"users": 2}}, "number of users"),
        ({"trace": {"hash": "sha256:00"}}, "trace"),
    ],
)
def test_unlike_windows_are_not_ranked_however_far_apart_their_figures_are(changes: dict[str, Any], words: str) -> None:
    found = judge([design("slow", SLOW), design("fast", FAST, **changes)], CPT)
    assert not found.ranked and found.pairs[0].better is None
    assert f"differ in {words}" in found.pairs[0].reason == found.barred
    assert found.warnings[0].rank == "invalid" and found.to_dict()["warnings"][0]["code"] == "unlike-runs"


def test_invalid_figures_are_not_ranked_and_the_worst_warning_comes_first() -> None:
    doubts = [
        "a sentence of before ranks",
        {"rank": "weak", "code": "pause", "text": "a pause"},
        {"rank": "invalid", "code": "out-of-work", "text": "users had no more work"},
    ]
    found = judge([design("slow", SLOW), design("fast", FAST, warnings=doubts)], CPT)
    assert not found.ranked and "users had no more work" in found.pairs[0].reason
    assert [warning.rank for warning in found.warnings] == ["invalid", "weak", "note"]
    weak = judge([design("slow", SLOW), design("fast", FAST, warnings=doubts[:2])], CPT)
    assert weak.ranked and weak.barred is None


def test_comparing_unlike_windows_ends_with_exit_code_1_and_says_why(tmp_path: Path) -> None:
    files = []
    for name, cycles, options in (("slow", SLOW, {}), ("fast", FAST, {"warmup": 7})):
        files.append(tmp_path / f"{name}.json")
        document = design(name, cycles, options=options).result.document
        files[-1].write_text(json.dumps(document), encoding="utf-8")
    done = servsim("compare", *files)
    assert done.returncode == 1, done.stderr
    assert "is better" not in done.stdout and "differ in warm-up" in done.stderr


def test_the_runs_of_a_sweep_are_compared_as_designs_with_many_replications(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{}")
    for name, cycles in (("slow", SLOW), ("fast", FAST)):
        document = design(name, cycles).result.document
        for number, run in enumerate(document["replications"]):
            path = tmp_path / "runs" / f"{name}{number}" / "result.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({**document, "replications": [run]}), encoding="utf-8")
    done = servsim("compare", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [known["n"] for known in found["designs"]] == [len(FAST), len(SLOW)] and found["ranked"]
    of_one = servsim("compare", *tmp_path.glob("runs/slow*/result.json"))
    assert of_one.returncode == 2 and "results of one design, slow: a comparison needs two" in of_one.stderr


def test_other_seeds_are_not_paired() -> None:
    other = design("fast", FAST)
    for replication in other.result.document["replications"]:
        replication["seed"] += 1
    assert (
        judge([design("slow", SLOW), other], CPT).method.unpaired_because == "the designs were run with different seeds"
    )


def test_few_runs_outliers_and_drifting_seeds_are_warned_of() -> None:
    few = judge([design("a", SLOW[:4]), design("b", FAST[:4])], CPT).warnings
    assert any(text.startswith("only 4 replications") for text in map(str, few))
    far = judge([design("a", [*SLOW[:11], 140.0]), design("b", FAST)], CPT).warnings
    assert any(text.startswith("a: outliers") and "seeds 12" in text for text in map(str, far))
    drift = judge([design("a", sorted(SLOW + FAST)), design("b", FAST)], CPT).warnings
    assert any("resemble one another" in text for text in map(str, drift))


def test_a_spent_budget_is_a_warning_that_names_the_runs_still_needed() -> None:
    stopped = Stopped(0.001, 10, 400, 12)
    found = judge([design("slow", SLOW), design("fast", FAST)], CPT, stopped=stopped)
    assert any("--budget 400" in text for text in map(str, found.warnings))
    assert found.to_dict()["sequential"]["reached"] is False


def test_three_designs_are_judged_pair_by_pair_with_adjusted_probabilities() -> None:
    found = judge([design("slow", SLOW), design("near", NEAR), design("fast", FAST)], CPT)
    assert [pair.better for pair in found.pairs] == [None, "fast", "fast"]
    assert all(pair.p_adjusted >= pair.difference.p for pair in found.pairs)
    assert next((k.name, best, worst) for k, best, worst in found.ranks()) == ("fast", 1, 1)


def test_results_of_one_name_are_told_apart_by_the_settings_that_differ() -> None:
    wide, narrow = design("same", SLOW), design("same", FAST)
    wide.result.document["machine"]["cache"]["associativity"] = 8
    found = judge([wide, narrow], CPT)
    assert [known.name for known in found.known] == ["same, cache.associativity=8", "same, cache.associativity=2"]
    twins = judge([design("same", SLOW), design("same", FAST)], CPT)
    assert [known.name for known in twins.known] == ["same (1)", "same (2)"]


def test_machines_are_told_apart_by_what_differs() -> None:
    texts = ["foglia-2004-4p:processors=2,cache.size=64 KiB", "foglia-2004-4p:processors=4,cache.size=64 KiB"]
    assert [m.label for m in told_apart([parse_machine(t) for t in texts])] == [
        "foglia-2004-4p, processors=2",
        "foglia-2004-4p, processors=4",
    ]


def _trace(folder: Path, count: int = 60) -> Path:
    """Write a trace of two tasks that share blocks and end transactions."""
    lines = []
    for i in range(count):
        for task in (0, 1):
            lines += [f"{task} L {0x1000 + 64 * (i % 37):x}", f"{task} S {0x9000 + 64 * ((i * 7 + task) % 23):x} 4 s"]
            if i % 5 == 4:
                lines.append(f"{task} X done")
    path = folder / "small.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_compares_and_keeps_results_that_compare_alike_again(tmp_path: Path) -> None:
    trace, kept = _trace(tmp_path), tmp_path / "kept"
    pair = ("-m", "foglia-2004-4p:bus.memory_read=64 cycles", "-m", "foglia-2004-4p:bus.memory_read=200 cycles")
    page = tmp_path / "page.html"
    done = servsim("compare", trace, *pair, "--replications", 12, "--keep", kept, "--html", page, "--json")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    assert first["ranked"] and first["paired"] and "memory_read=64" in first["pairs"][0]["better"]
    assert "<code>servsim capture --captures N</code>" in page.read_text() and "`" not in page.read_text()
    assert "wrong conclusion" in page.read_text() and "<script" not in page.read_text()
    again = servsim("compare", *sorted(kept.glob("*.json"), reverse=True), "--json", "--require-ranking")
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout)
    assert sorted(d["mean"] for d in first["designs"]) == sorted(d["mean"] for d in second["designs"])
    assert servsim("compare", trace, *pair, "--keep", kept).returncode == 2
    text = servsim("compare", *kept.glob("*.json"))
    assert "is better" in text.stdout and "picks the wrong one" in text.stdout


def test_counts_of_the_functional_engine_are_compared_by_captures(tmp_path: Path) -> None:
    results = [tmp_path / f"{name}.json" for name in ("foglia-2004-4p", "foglia-2004-8p")]
    for result in results:
        run = ("-m", result.stem, "--engine", "functional", "--output", result)
        assert servsim("simulate", _trace(tmp_path), *run).returncode == 0
    done = servsim("compare", *results, "--by", "misses_per_reference")
    assert done.returncode == 2 and "results of several captures" in done.stderr, done.stderr


def test_equal_machines_are_not_ranked_and_that_fails_when_a_ranking_is_required(tmp_path: Path) -> None:
    done = servsim("compare", _trace(tmp_path), "-m", "foglia-2004-4p", "-m", "foglia-2004-4p", "--require-ranking")
    assert done.returncode == 1
    assert "cannot be ranked" in done.stdout and "cannot be ranked" in done.stderr


def test_a_sequential_comparison_stops_when_its_intervals_are_narrow_or_its_budget_is_spent(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    pair = ("-m", "foglia-2004-4p", "-m", "foglia-2004-4p:cache.size=1 KiB,cache.line=64 B")
    narrow = servsim("compare", trace, *pair, "--precision", "0.02", "--budget", 3000, "--json")
    assert narrow.returncode == 0, narrow.stderr
    found = json.loads(narrow.stdout)
    assert found["sequential"]["reached"]
    for known in found["designs"]:
        low, high = known["interval_95"]
        assert known["n"] == found["sequential"]["made"] == len(set(known["seeds"]))
        assert (high - low) / 2 <= 0.025 * known["mean"]
    spent = servsim("compare", trace, *pair, "--precision", "0.01%", "--budget", 12)
    assert "for the wished precision" not in spent.stdout and " more runs for ±0.01 %" in spent.stdout
    found = json.loads(servsim("compare", trace, *pair, "--precision", "0.01%", "--budget", 12, "--json").stdout)
    assert found["sequential"]["made"] == 12 and not found["sequential"]["reached"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("TRACE", "-m", "foglia-2004-4p"), "two designs"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--replications", 1), "no interval"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--replications", 2), "3 runs are the least"),
        (
            ("TRACE", "foglia-2004-4p", "foglia-2004-8p"),
            "is a machine: name it with --machine, so: --machine foglia-2004-4p",
        ),
        (("TRACE", "-m", "foglia-2004-4p", "mine.toml"), "'mine.toml' is a machine"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--replications", 0), "no interval"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2005"), "shipped are"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-4p:processors"), "KEY=VALUE"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--by", "speed"), "cycles_per_transaction"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--precision", "2"), "share of the mean"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--precision", "narrow"), "for example 1%"),
        (
            ("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--precision", "0.1", "--budget", 3),
            "first stage",
        ),
        (("TRACE",), "--machine"),
        (("missing.svt", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p"), "no trace or result"),
        (("TRACE", "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", "--warm-up", 5000), "leaves none to measure"),
    ],
)
def test_a_senseless_request_is_refused_with_the_remedy(
    arguments: tuple[object, ...], words: str, tmp_path: Path
) -> None:
    trace = _trace(tmp_path)
    done = servsim("compare", *(trace if part == "TRACE" else part for part in arguments))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


def test_transactions_that_never_complete_are_said_so_and_another_figure_can_be_used(tmp_path: Path) -> None:
    trace = tmp_path / "none.txt"
    trace.write_text("".join(f"{i % 2} L {0x1000 + 64 * i:x}\n" for i in range(80)))
    pair = ("-m", "foglia-2004-4p", "-m", "foglia-2004-4p:cache.line=32 B")
    done = servsim("compare", trace, *pair, "--replications", 5)
    assert done.returncode == 2 and "no transaction ended" in done.stderr and "--by gsp" in done.stderr
    assert servsim("compare", trace, *pair, "--replications", 5, "--by", "gsp").returncode == 0


def test_a_warm_up_longer_than_a_captured_trace_is_refused_before_anything_is_run() -> None:
    done = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--warm-up", 10)
    assert done.returncode == 2 and "the trace holds 10" in done.stderr and done.stdout == ""


def test_an_example_stands_in_the_help() -> None:
    assert "Example: servsim compare" in " ".join(servsim("compare", "--help").stdout.split())
