"""Several designs on one page: replications joined, names, common scales, and rates over time."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result, text_of
from servsim.comparison import Design, judge, metric
from servsim.comparison.grouping import designs, names
from servsim.comparison.page import write
from servsim.errors import UsageError
from servsim.report import check, files, load, render
from servsim.report.charts.lines import Series, line_charts
from servsim.report.charts.svg import scale
from servsim.report.over_time import over_time
from servsim.report.provenance import provenance
from servsim.report.sections import sections
from servsim.report.warnings import warnings
from servsim.report.wording import headline, ranking
from servsim.result import Result
from servsim.statistics.intervals import estimate


def _runs(name: str = "smp", pace: float = 6_000_000, seeds: int = 4) -> list[dict[str, Any]]:
    """Return one document per replication, as a sweep keeps them."""
    whole = layout_result(name, pace=pace, replications=seeds)
    return [
        {
            **whole,
            "replications": [replication],
            "options": {**whole["options"], "seed": replication["seed"], "replications": 1},
            "warnings": ["only 1 replication: too few for an interval"],
        }
        for replication in whole["replications"]
    ]


def _results(*documents: dict[str, Any]) -> list[Result]:
    return [check(document, f"{number}.json") for number, document in enumerate(documents)]


def test_the_replications_of_a_sweep_are_one_design_with_that_n() -> None:
    (found,) = designs(_results(*_runs(seeds=4)))
    whole = check(layout_result("smp", replications=4), "whole")
    assert found.replications == whole.replications
    assert "n = 4" in text_of(render(_results(*_runs(seeds=4)))) and "n = 1" not in text_of(render(_results(*_runs())))
    assert "too few for an interval" not in " ".join(w.text for w in warnings([found]))


def test_designs_of_a_sweep_are_told_apart_by_what_differs() -> None:
    documents = _runs("smp") + _runs("smp", pace=9_000_000)
    for document in documents[4:]:
        document["machine"] = {**document["machine"], "cache": {**document["machine"]["cache"], "size": "4 MiB"}}
    found = designs(_results(*documents))
    assert list(names(found).values()) == ["smp, cache.size=2 MiB", "smp, cache.size=4 MiB"]
    assert headline(found).startswith("smp, cache.size=2 MiB needs the fewest cycles")


@pytest.mark.parametrize("key", ["transactions", "warmup"])
def test_results_of_another_window_are_another_design(key: str) -> None:
    first, second = _runs(seeds=2)
    second["options"] = {**second["options"], key: 77}
    assert len(designs(_results(first, second))) == 2


def test_a_seed_that_comes_twice_is_one_replication_unless_its_figures_differ() -> None:
    runs = _runs(seeds=3)
    (found,) = designs(_results(*runs, runs[0]))
    assert len(found.replications) == 3
    other = deepcopy(runs[0])
    other["replications"][0]["cycles"] += 1
    assert len(designs(_results(*runs, other))) == 4


def test_a_joined_design_names_its_parts_and_one_command() -> None:
    (found,) = designs(_results(*_runs(seeds=3)))
    text = text_of(provenance(found))
    assert all(f"{number}.json" in text for number in range(3))
    assert text.count("servsim simulate ") == 1 and "--replications 3 --seed 1" in text


def test_single_runs_are_said_to_have_no_interval_instead_of_one_that_overlaps() -> None:
    one, two = _results(layout_result("one", replications=1), layout_result("two", replications=1, pace=9e6))
    said = headline([one, two])
    assert "one replication only, so no interval" in said and "overlap" not in said
    text = text_of(render([one, two]))
    assert "intervals overlap" not in text and "±" not in text
    assert [place.rank for place in ranking([one, two]).designs] == ["1 to 2", "1 to 2"]


def _bars(section: str, results: list[Result]) -> list[tuple[float, float]]:
    """Return each bar's mean, as its text alternative says it, and the width of its parts in percent."""
    body = str(next(part for part in sections(results) if part.anchor == section).body)
    found = []
    for said, inner in re.findall(r'<svg[^>]*aria-label="([^"]*)"[^>]*>(.*?)</svg>', body):
        value = re.search(r": ([\d\u202f.]+)", said)
        assert value
        width = sum(float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)%"', inner))
        found.append((float(value[1].replace("\u202f", "")), width))
    return found


@pytest.mark.parametrize("section", ["misses", "bus"])
def test_designs_side_by_side_share_one_scale(section: str) -> None:
    large = layout_result("large")
    for replication in large["replications"]:
        for part in (*replication["misses"].values(), replication["bus"]):
            part.update({key: 7 * value for key, value in part.items()})
    results = _results(layout_result("small"), large)
    body = str(next(part for part in sections(results) if part.anchor == section).body)
    assert body.count('class="axis"') == 1
    shown = [(value, width) for value, width in _bars(section, results) if value > 1000]
    assert len(shown) > 6
    ratios = [width / value for value, width in shown]
    assert max(ratios) == pytest.approx(min(ratios), rel=2e-3)


def _heights(markup: str, kind: str) -> list[float]:
    (points,) = re.findall(rf'<poly\w+ points="([^"]*)" class="{kind}"', markup)
    return [float(pair.split(",")[1]) for pair in points.split()]


def test_a_band_is_drawn_whole() -> None:
    lines = [[10.0, 10.0], [90.0, 10.0], [20.0, 10.0]]
    known = estimate([10.0, 90.0, 20.0])
    assert known.high is not None and known.high > 130
    markup = line_charts([Series("one", lines, 1.0)], "figure", "ms")
    band = _heights(markup, "band")
    up = scale(0, known.high * 1.05, ticks=3)
    assert band[0] == pytest.approx(100 - up(known.high), abs=0.01)
    capped = line_charts([Series("one", lines, 1.0)], "share", "ms", ceiling=100.0)
    assert _heights(capped, "band")[0] == pytest.approx(0.0, abs=0.01)


def test_charts_over_time_share_their_axes() -> None:
    short = Series("short", [[1.0, 1.0]], 2.0)
    long = Series("long", [[4.0, 4.0, 4.0, 4.0]], 2.0)
    markup = line_charts([short, long], "figure", "ms")
    ends = [points.split()[-1] for points in re.findall(r'points="([^"]*)" class="mean-line"', markup)]
    across = [float(point.split(",")[0]) for point in ends]
    height = [100 - float(point.split(",")[1]) for point in ends]
    assert across[0] == pytest.approx(100 * 3 / 8, abs=0.01) and across[1] == pytest.approx(100 * 7 / 8, abs=0.01)
    assert height[1] == pytest.approx(4 * height[0], abs=0.05)


def _over_time(*documents: dict[str, Any]) -> str:
    results = [Result(f"{number}.json", document, "") for number, document in enumerate(documents)]
    return str(over_time(results, names(results)) or "")


def _document(windows: int, every: int, cycles: int = 1_000_000) -> dict[str, Any]:
    """Return two replications of which one transaction ends in every so-many-th window."""
    replication = {
        "cycles": windows * cycles,
        "transactions": windows // every,
        "window_cycles": cycles,
        "timeline": [{"transactions": int(i % every == 0), "bus_busy": cycles // 4} for i in range(windows)],
        "windows": {"idle": [cycles] * windows, "disk.reads": [3] * windows, "disk.writes": [1] * windows},
        "processors": [{}, {}],
    }
    runs = [{**replication, "seed": seed} for seed in (1, 2)]
    return {"schema": "servsim.simulate/1", "machine": {"name": "m", "clock": "1 GHz"}, "replications": runs}


def test_throughput_over_time_is_a_rate_over_a_stated_step() -> None:
    markup = _over_time(_document(240, 3))
    text = text_of(markup)
    # 80 transactions in 240 ms: ten steps of eight transactions each, no spikes.
    assert "transactions ended, per second, over steps of 24.0 ms" in text
    (points, *_) = re.findall(r'points="([^"]*)" class="mean-line"', markup)
    heights = {point.split(",")[1] for point in points.split()}
    assert len(points.split()) == 10 and len(heights) == 1
    up = scale(0, 1000 / 3 * 1.05, ticks=3)
    assert float(heights.pop()) == pytest.approx(100 - up(1000 / 3), abs=0.01)


def test_idle_processors_bus_and_disk_are_shares_and_rates_over_steps_too() -> None:
    text = text_of(_over_time(_document(240, 3)))
    assert "processors idle, %, over steps of 10.0 ms" in text
    assert "bus busy, %, over steps of 10.0 ms" in text
    assert "disk requests, per second, over steps of 10.0 ms" in text
    markup = _over_time(_document(240, 3))
    means = re.findall(r'points="([^"]*)" class="mean-line"', markup)
    idle, busy, disk = (float(points.split()[0].split(",")[1]) for points in means[1:])
    levels = re.findall(r'text-anchor="end">(\d+)<', markup.split("axis-title")[2])
    assert levels == ["0", "20", "40"]  # both processors together idle half of their time
    assert idle == pytest.approx(100 - scale(0, 52.5, ticks=3)(50), abs=0.01)
    assert busy == pytest.approx(100 - scale(0, 26.25, ticks=3)(25), abs=0.01)
    assert disk == pytest.approx(100 - scale(0, 4200, ticks=3)(4000), abs=0.01)


def test_few_transactions_make_no_rate_and_the_page_says_so() -> None:
    text = text_of(_over_time(_document(240, 12)))
    assert "Throughput over time is not shown: 20 transactions make no rate" in text
    assert "bus busy, %" in text


def test_windows_of_unlike_length_give_the_same_rates() -> None:
    document = _document(240, 1)
    fine = _document(343, 1, cycles=700_000)["replications"][1]
    for window in fine["timeline"]:
        window["transactions"] = 0.7
    document["replications"][1] = fine
    markup = _over_time(document)
    lines = re.findall(r'points="([^"]*)" class="single"', markup)
    assert lines[0] == lines[1]


def test_unlike_designs_are_called_invalid_above_every_figure_on_both_pages(tmp_path: Path) -> None:
    other = layout_result("other")
    other["trace"] = {**other["trace"], "hash": "0" * 64}
    results = _results(layout_result("one"), other)
    comparison = judge([Design(r.machine, r) for r in results], metric("cycles_per_transaction"))
    for page in (render(results), write(comparison, tmp_path / "c.html").read_text()):
        head = page[page.index("<header>") : page.index("<h1>")]
        assert 'class="alarm"' in head and "differ in their trace" in head
    assert "cannot be ranked" in headline(results)


def test_the_folder_of_a_sweep_is_a_page_of_its_designs(tmp_path: Path) -> None:
    for number, document in enumerate([*_runs("slow", pace=9e6), *_runs("fast")]):
        folder = tmp_path / "study" / "runs" / f"{number:x}"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="not of a sweep"):
        files([tmp_path / "study"])
    (tmp_path / "study" / "sweep.json").write_text("{}")
    found = files([tmp_path / "study", tmp_path / "more.json"])
    assert len(found) == 9 and found[-1] == tmp_path / "more.json"
    page = text_of(render([load(path) for path in found[:-1]]))
    assert "2 designs compared" in page and page.count("n = 4") >= 4
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "sweep.json").write_text("{}")
    with pytest.raises(UsageError, match="has finished"):
        files([tmp_path / "empty"])
