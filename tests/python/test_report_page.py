"""The report's content: order, honesty about missing parts and intervals, refusal to rank, bad input."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from servsim.capture.folder import find, names
from servsim.errors import UsageError
from servsim.report import check, load, render, write
from servsim.report.format import grouped, mean
from servsim.report.sections import sections
from servsim.report.summary import summary
from servsim.report.warnings import warnings
from servsim.report.wording import headline, ranking
from servsim.result import Result
from servsim.statistics.intervals import estimate


def _render(*documents: dict[str, Any]) -> str:
    return render([check(document, f"result {index}") for index, document in enumerate(documents)])


def _text(page: str) -> str:
    """Return a page's visible text with ordinary spaces."""
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)
    return re.sub(r"[\s\u00a0\u202f]+", " ", body)


def _bare(replications: int = 3) -> dict[str, Any]:
    runs = [{"cycles": 1_000_000 + 1000 * i, "transactions": 10} for i in range(replications)]
    return {"schema": "servsim.simulate/1", "replications": runs}


def test_sections_come_in_the_order_of_a_careful_reader() -> None:
    anchors = [section.anchor for section in sections([check(layout_result(), "r"), check(layout_result(seed=9), "s")])]
    assert anchors == [
        *("machine", "workload", "method", "warnings", "throughput", "time", "misses", "bus", "transactions"),
        *("counters", "timeline", "comparison", "provenance"),
    ]


def test_a_page_says_of_a_workload_after_a_benchmark_that_it_is_not_the_benchmark() -> None:
    after = 0
    for name in names():
        told = find(name).summary
        benchmarks = [word for word in ("TPC-C", "TPC-W", "SPECjbb", "Slashcode") if word in told]
        after += len(benchmarks)
        assert all(f"not {word}" in told for word in benchmarks), told
        assert told in _text(_render({**_bare(), "workload": {"name": told}})), "as captures carry it"
    assert after >= 5


def test_what_works_beside_the_caches_is_listed_only_where_a_result_has_it() -> None:
    document = layout_result()
    for index, replication in enumerate(document["replications"]):
        replication["transactions"] = 10
        replication["tlb"] = {"walks": {"user": 30 + index, "kernel": 10}, "cycles": 7000}
        replication["prefetch"] = {"issued": 50, "useful": 20, "useless": 10}
        replication["write_buffer"] = {"entered": 80, "supplied": 3, "cancelled": 1, "most_used": 4}
    made = {section.anchor: section for section in sections([check(document, "r"), check(layout_result(), "s")])}
    assert {"translation", "prefetches", "write-buffers"} < set(made)
    text = _text(str(made["translation"].body))
    assert "Page walks 4.45" in text and "Cycles of all processors spent on address translation 700" in text
    assert "on their way" not in str(made["prefetches"].body)
    assert "evicted or invalidated without a use 1" in _text(str(made["prefetches"].body))
    buffers = _text(str(made["write-buffers"].body))
    assert "because the line was written again 0.1" in buffers and "Most entries" not in buffers


def test_the_same_results_give_the_same_bytes() -> None:
    assert _render(layout_result()) == _render(json.loads(json.dumps(layout_result())))


def test_nothing_in_the_page_can_be_fetched() -> None:
    page = _render(layout_result(), layout_result("other", 8))
    assert not re.findall(r"\b(?:src|href)=\"(?!#)", page)
    assert "url(" not in page and "@import" not in page and "<script" not in page
    assert "default-src 'none'" in page


def test_throughput_is_transactions_times_clock_over_cycles() -> None:
    document = _bare()
    document["clock"] = "2 GHz"
    for replication in document["replications"]:
        replication["cycles"] = 1_000_000
    assert "20 000 transactions per second" in _text(_render(document))


def test_every_mean_stands_with_its_interval_and_n() -> None:
    text = _text(_render(layout_result()))
    assert re.search(r"transactions per second \(95 % interval [\d ]+ to [\d ]+, n = 10\)", text)
    assert re.search(r"cycles per transaction \(95 % interval [\d ]+ to [\d ]+, n = 10\)", text)
    assert text.count("Means of 10 replications") == 5


def test_one_replication_is_told_wherever_an_interval_would_stand() -> None:
    text = _text(_render(layout_result(replications=1)))
    assert "One replication only, so no figure has an interval" in text
    assert "±" not in text
    assert text.count("n = 1") > 10 and text.count("One replication only") == 6


def test_two_replications_have_no_interval_on_a_page_as_in_a_summary() -> None:
    text = _text(_render(layout_result(replications=2)))
    assert "±" not in text and "95 % interval" not in text
    assert "2 replications only, so no figure has an interval; use --replications 10 or more." in text
    assert "±" in _text(_render(layout_result(replications=3)))


def test_a_design_of_runs_of_one_seed_each_is_to_have_more_seeds() -> None:
    runs = [layout_result(replications=1, seed=seed) for seed in (1, 2, 3)]
    for document in runs:
        document["options"] = {**document["options"], "seed": document["replications"][0]["seed"], "replications": 1}
    text = _text(_render(*runs))
    assert "Only 3 seeds; intervals narrow with seeds = { count = 10 } in the study." in text


def test_few_replications_and_wide_intervals_are_warned_of() -> None:
    found = warnings([check(layout_result(replications=3), "r")])
    assert any("Only 3 replications" in w.text for w in found)
    document = _bare(10)
    for index, replication in enumerate(document["replications"]):
        replication["cycles"] *= 1 + index % 3
    assert any("of the mean" in w.text for w in warnings([check(document, "r")]))


def test_whether_a_window_is_settled_the_simulator_says_alone() -> None:
    document = layout_result()
    for replication in document["replications"]:
        replication["timeline"] = [{"start": i, "bus_busy": 0, "transactions": 2 + 2 * (i // 10)} for i in range(30)]
    assert warnings([check(document, "r")]) == []
    text = "throughput changes by +200 % from the first to the last third of the measured window"
    document["warnings"] = [{"rank": "weak", "code": "unsettled", "text": text}]
    assert [w.text for w in warnings([check(document, "r")])] == [text]


def test_of_many_replications_those_that_keep_windows_are_drawn_and_counted() -> None:
    document = layout_result(replications=5)
    for index, replication in enumerate(document["replications"]):
        replication["timeline"] = [{"start": i, "bus_busy": 0, "transactions": 2 + 2 * (i // 10)} for i in range(30)]
        if index >= 3:
            for key in ("timeline", "windows", "activity"):
                replication.pop(key, None)
    text = _text(_render(document))
    assert "windows of the first are kept, and drawn here: 3 of 5" in text
    assert "drawn here" not in _text(_render(layout_result(replications=5)))


def test_spinning_is_shown_only_where_a_processor_spins() -> None:
    document = layout_result()
    assert "lock spin" not in _text(_render(document)).lower()
    for replication in document["replications"]:
        for processor in replication["processors"]:
            processor["lock_spin"] = processor["busy_user"] // 4
    assert "lock spin" in _text(_render(document)).lower()
    assert "spinning for locks" in headline([check(document, "r")])


def test_the_scale_of_the_database_stands_in_the_report() -> None:
    document = layout_result()
    document["workload"] = {"name": "oltp", "warehouses": 200, "districts": 3, "customers": 30, "items": 100}
    scale = "200 warehouses of 3 districts of 30 customers, 100 items"
    assert f"scale of the database {scale} " in _text(_render(document))
    document["workload"] |= {"scale": f"{scale} (TPC-C: larger)", "users": 24}
    text = _text(_render(document))
    assert f"scale of the database {scale} (TPC-C: larger)" in text and "warehouses 200" not in text
    assert "users 24" in text


def test_settings_stand_once_and_without_those_that_have_no_value() -> None:
    document = layout_result()
    settings = {"workload": "oltp", "users": "8", "warm_up": "", "think_scale": "0"}
    document["workload"] = {"name": "oltp", "users": 24, "warm_up": "settled", "settings": settings}
    text = _text(_render(document))
    assert "users 24" in text and "users 8" not in text and "settled" in text
    assert "think scale 0" in text and "settings" not in text[text.index("users 24") : text.index("think scale 0")]
    assert text.count("workload oltp") == 1


def test_recorded_warnings_are_shown() -> None:
    document = layout_result()
    document["warnings"] = ["processors outnumber ready tasks"]
    assert "processors outnumber ready tasks" in _text(_render(document))


def test_warnings_stand_in_the_order_of_their_ranks_with_plain_ones_as_notes() -> None:
    document = layout_result()
    document["warnings"] = [
        "an old sentence",
        {"rank": "note", "code": "a", "text": "good to know"},
        {"rank": "weak", "code": "b", "text": "may be off"},
    ]
    text = _text(_render(document))
    assert "Weak may be off Note an old sentence Note good to know" in text and "Invalid" not in text
    assert "the worst (weak): may be off" in summary(check(document, "r"))[-1]
    single = layout_result(replications=1)
    single["warnings"] = ["an old sentence"]
    assert [w.rank for w in warnings([check(single, "r")])] == ["weak", "note"]


def test_an_invalid_result_says_so_above_every_figure() -> None:
    document = layout_result()
    document["warnings"] = [
        {"rank": "invalid", "code": "tail", "text": "half of the window lies after the last commit"}
    ]
    page = _render(document)
    head = page[page.index("<header>") : page.index("<nav")]
    assert head.index("half of the window lies after the last commit") < head.index("<h1>")
    (answer,) = re.findall(r"<h1>(.*)</h1>", head)
    assert "invalid" in answer and not re.search(r"\d", answer)
    assert "the worst (invalid): half of" in summary(check(document, "r"))[-1]
    assert 'class="alarm"' not in _render(layout_result())


def test_missing_parts_are_said_to_be_missing() -> None:
    text = _text(_render(_bare()))
    assert text.count("Not recorded in this result.") == 5
    assert "throughput in seconds is not known" in text


@pytest.mark.parametrize(
    "part", ["misses", "bus", "bus_utilization", "processors", "transactions_by_kind", "timeline", "seed"]
)
def test_a_part_missing_from_one_replication_makes_no_mean_of_the_others(part: str) -> None:
    document = layout_result()
    del document["replications"][4][part]
    assert _render(document)


def test_a_faster_machine_is_ranked_only_when_intervals_part() -> None:
    slow, fast = check(layout_result("slow", 4), "a"), check(layout_result("fast", 8), "b")
    assert headline([slow, fast]).startswith("fast needs the fewest cycles")
    assert [place.rank for place in ranking([slow, fast]).designs] == ["1", "2"]


def test_overlapping_intervals_are_not_ranked() -> None:
    one, two = check(layout_result("one", seed=1), "a"), check(layout_result("two", seed=2), "b")
    assert "cannot be ranked" in headline([one, two])
    assert [place.rank for place in ranking([one, two]).designs] == ["1 to 2", "1 to 2"]
    assert "1 to 2" in _text(render([one, two]))


def test_results_of_different_traces_are_warned_of() -> None:
    other = layout_result("other")
    other["trace"]["hash"] = "0" * 64
    found = warnings([check(layout_result(), "a"), check(other, "b")])
    assert any("differ in their trace" in w.text for w in found)


def test_text_from_a_result_is_escaped() -> None:
    page = _render(layout_result("<script>alert(1)</script>"))
    assert "<script" not in page and "&lt;script&gt;" in page


def test_misses_add_user_and_kernel_and_divide_by_transactions() -> None:
    document = _bare(3)
    for replication in document["replications"]:
        replication["misses"] = {"cold": {"user": 30, "kernel": 20}, "total": {"user": 30, "kernel": 20}}
    assert "All causes together: 5 ± 0 misses per transaction" in _text(_render(document))


def test_the_command_that_repeats_a_result_follows_from_its_options() -> None:
    document = layout_result("smp4", seed=7)
    command = "servsim simulate oltp.svt --machine smp4 --transactions 200 --warm-up 50"
    assert f"{command} --replications 10 --seed 7" in _text(_render(document))


def test_the_summary_has_eight_lines_whatever_is_missing() -> None:
    assert len(summary(check(layout_result(), "r"))) == 8
    lines = summary(check(_bare(), "r"))
    assert len(lines) == 8 and sum("not recorded" in line for line in lines) >= 4


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1_474_000.0, 1_516_292.0, 1_558_000.0], "1 520 000 ± 100 000"),
        ([0.91, 0.92, 0.93], "0.920 ± 0.025"),
        ([8.0, 8.0], "8 ± 0"),
        ([0.0054640437] * 3, "0.005464 ± 0.000000"),
        ([8.0], "8.000 (n = 1)"),
    ],
)
def test_a_mean_has_no_digit_that_its_interval_does_not_justify(values: list[float], text: str) -> None:
    assert re.sub(r"[\u00a0\u202f]", " ", mean(estimate(values))) == text


def test_negative_numbers_have_a_minus_sign() -> None:
    assert grouped(-1234.5, 1) == "\u22121\u202f234.5"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "states no schema"),
        ({"schema": "servsim.simulate/1", "engine": "functional", "replications": [{}]}, "--engine timing"),
        ({"schema": "servsim.disk.fit/1"}, "servsim.disk.fit/1"),
        ({"schema": "servsim.simulate/1"}, "replications: Field required"),
        ({"schema": "servsim.simulate/1", "replications": []}, "replications: List should have at least 1"),
        (
            {"schema": "servsim.simulate/1", "replications": [{"cycles": 5}, 3]},
            "replications.1: Input should be",
        ),
        (
            {"schema": "servsim.simulate/1", "replications": [{"cycles": True, "transactions": 1}]},
            "replications.0.cycles",
        ),
    ],
)
def test_what_is_not_a_result_is_refused_with_the_remedy(document: object, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as error:
        check(document, "x.json")
    assert "servsim simulate" in str(error.value) and str(error.value).startswith("x.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(UsageError, match="is not JSON"):
        load(tmp_path / "x.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "none.json")


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder is wanted")
    with pytest.raises(UsageError, match="a file has that name"):
        write([layout_result()], tmp_path / "taken" / "report.html")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UsageError, match="is a directory"):
        write([layout_result()], tmp_path / "report.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "taken"]


def test_hostile_numbers_do_not_break_the_page() -> None:
    document = deepcopy(layout_result(replications=2))
    document["clock"] = "fast"
    document["machine"]["clock"] = -1
    document["replications"][0]["bus_utilization"] = "high"
    document["replications"][0]["window_cycles"] = 0
    document["replications"][0]["processors"] = [{}]
    document["replications"][0]["processor_utilization"] = {}
    document["replications"][0]["transactions_by_kind"] = [{"kind": "new_order", "count": None}, 7]
    assert "Not recorded" in render([Result("x", document, "")])
    for path, junk in ((("processor_utilization", 0), {}), (("windows", "idle", 3), []), (("processors",), 4.0)):
        document = deepcopy(layout_result(replications=2))
        for replication in document["replications"]:
            replication["windows"] = {"idle": [1] * len(replication["timeline"])}
        part: Any = document["replications"][0]
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = junk
        document["replications"][1]["seed"] = "two"
        halves = [{**document, "replications": [replication]} for replication in document["replications"]]
        assert render([Result("x", document, "")])
        assert render([Result(f"{number}", half, "") for number, half in enumerate(halves)])
