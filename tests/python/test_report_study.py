"""Studies of many designs: what each setting changes, which designs may be the best, and the page of all."""

import json
import math
import re
from collections.abc import Callable
from copy import deepcopy
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layout_result import layout_result, text_of
from servsim.comparison.best import places
from servsim.comparison.factors import Factor, changes, factors, of_machine
from servsim.errors import UsageError
from servsim.report import check, files, render
from servsim.result import Result
from servsim.simulation import simulate
from servsim.units import amount

SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
SIZES, WAYS, PROTOCOLS = ("1 MiB", "512 KiB", "2 MiB"), (1, 2, 4, 8), ("mesi", "pscr")


def design(size: str, ways: int, protocol: str, pace: float, seeds: int = 4) -> dict[str, Any]:
    document = layout_result("smp", pace=pace, replications=seeds)
    machine = deepcopy(document["machine"])
    machine["cache"] |= {"size": size, "associativity": ways}
    machine["protocol"] = {**machine.get("protocol", {}), "name": protocol}
    return {**document, "machine": machine}


def study(pace: Callable[[str, int, str], float], seeds: int = 4) -> list[dict[str, Any]]:
    return [design(*levels, pace(*levels), seeds) for levels in product(SIZES, WAYS, PROTOCOLS)]


def read(documents: list[dict[str, Any]]) -> list[Result]:
    return [check(document, f"{number}.json") for number, document in enumerate(documents)]


def factor(key: str, *levels: str) -> Factor:
    return Factor(key, (), levels)


def slow_ratios(key: str, base: str, level: str, rows: list[tuple[dict[str, str], float]]) -> list[float]:
    """Return the ratios of all pairs of designs that differ in one setting alone, looked for pair by pair."""
    found = []
    for (a, x), (b, y) in combinations(rows, 2):
        if all(a[other] == b[other] for other in a if other != key) and {a[key], b[key]} == {base, level}:
            found.append(y / x if a[key] == base else x / y)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_changes_are_those_of_pairs_that_differ_in_one_setting_alone(seed: int) -> None:
    draw = np.random.default_rng(seed)
    every = [dict(zip("abc", map(str, levels), strict=True)) for levels in product(range(3), range(4), range(2))]
    kept = [row for row in every if draw.random() < 0.7]
    rows = [(row, float(draw.lognormal())) for row in kept]
    every_factor = [factor(key, *(row[key] for row in kept)) for key in "abc"]
    for one in every_factor:
        base = one.distinct[0]
        made = {change.level: change for change in changes(one, every_factor, [[x] for _, x in rows], paired=True)}
        for level in one.distinct[1:]:
            ratios = slow_ratios(one.key, base, level, rows)
            assert (level in made) == bool(ratios)
            if ratios:
                change = made[level]
                assert change.base == base and change.pairs == len(ratios) and change.low is None
                assert change.ratio == pytest.approx(math.exp(sum(map(math.log, ratios)) / len(ratios)))
                assert (change.least, change.most) == (pytest.approx(min(ratios)), pytest.approx(max(ratios)))


def test_a_setting_that_follows_from_another_is_not_held_and_changes_nothing_itself() -> None:
    """Machines A and B have one protocol, C another: C is told against A all the same, the protocol of no pair."""
    name, protocol, size = (factor("name", *"AABBCC"), factor("protocol", *"mmmmpp"), factor("size", *"121212"))
    values = [[10.0], [8.0], [20.0], [16.0], [30.0], [24.0]]
    every = [name, protocol, size]
    assert [(c.level, c.ratio, c.pairs) for c in changes(name, every, values, paired=False)] == [
        ("B", pytest.approx(2), 2),
        ("C", pytest.approx(3), 2),
    ]
    assert changes(protocol, every, values, paired=False) == []
    assert [(c.ratio, c.pairs) for c in changes(size, every, values, paired=False)] == [(pytest.approx(0.8), 3)]


def test_the_interval_of_a_change_holds_what_is_true_of_it() -> None:
    """Runs of one seed have luck in common over all designs, which a change does not hold against anybody."""
    draw = np.random.default_rng(7)
    levels = list(product("ab", "pqr"))
    every = [factor("one", *(a for a, _ in levels)), factor("two", *(b for _, b in levels))]
    held = 0
    for _ in range(1000):
        luck = draw.normal(0, 0.2, 6)
        values = [
            (np.exp(luck + draw.normal(0, 0.03, 6)) * (1.25 if a == "b" else 1.0) * "xpqr".index(b)).tolist()
            for a, b in levels
        ]
        (change,) = changes(every[0], every, values, paired=True)
        assert change.low is not None and change.high is not None
        held += change.low <= 1.25 <= change.high
    assert 0.93 <= held / 1000 <= 0.97


@pytest.mark.parametrize("paired", [True, False])
def test_the_best_is_excluded_in_no_more_studies_than_promised_and_the_worst_are(paired: bool) -> None:
    draw = np.random.default_rng(11)
    lost = excluded = 0
    for _ in range(1000):
        means = [100.0, 100.0, 100.1, *[100.2] * 5, 130.0]
        values = [(mean + draw.normal(0, 1.0, 5)).tolist() for mean in means]
        found = {place.number: place.may_be_best for place in places(values, paired=paired)}
        lost += not found[0]
        excluded += not found[8]
    assert lost <= 60 and excluded >= 950


def test_runs_that_say_nothing_of_their_spread_exclude_nobody() -> None:
    assert all(place.may_be_best for place in places([[1.0], [5.0]], paired=True))
    assert all(place.may_be_best for place in places([[1.0, 1.0, 1.0], [5.0, 5.1, 5.2]], paired=True))
    (first, _) = places([[1.0, 1.1, 1.2], [5.0, 5.1, 5.2]], sign=-1, paired=False)
    assert first.number == 1


def test_levels_are_in_the_order_of_their_amounts() -> None:
    assert factor("size", "1 MiB", "512 KiB", "2 MiB").distinct == ["512 KiB", "1 MiB", "2 MiB"]
    assert factor("p", "8", "16", "4").distinct == ["4", "8", "16"]
    assert factor("protocol", "pscr", "mesi").distinct == ["pscr", "mesi"]
    assert amount("1 fortnight") is None and amount("90 ns") == pytest.approx(90e-9)


def test_a_page_of_few_designs_tells_what_settings_change() -> None:
    text = text_of(render(read(study(lambda size, ways, _: 5e6 / ways**0.1 + (size == "512 KiB") * 1e6))))
    assert "24 designs compared" in text and "What each setting changes" in text
    assert re.search(r"512 KiB what the others are held against", text)
    assert re.search(r"2 MiB -18\.20 % \(95 % interval -18\.20 to -18\.20 %; pairs .* n = 8\)", text)
    alone = text_of(render(read(study(lambda *_: 5e6)[:2])))
    assert "What each setting changes" not in alone, "one pair is told by the comparison"


def many(count: int = 60) -> list[dict[str, Any]]:
    sizes = [f"{1 << power} KiB" for power in range(4, 4 + count // 12)]
    return [
        design(size, ways, protocol, 9e6 - 1e6 * at / ways**0.5 + (protocol == "mesi") * 2e5)
        for (at, size), ways, protocol in product(enumerate(sizes), (1, 2, 4), ("mesi", "pscr", "mosi", "mesif"))
    ]


def test_many_designs_are_rows_of_one_table_with_what_may_be_the_best() -> None:
    documents = many()
    page = render(read(documents))
    text = text_of(page)
    assert (
        "a study of 60 designs" in text
        and "Of 60 designs the fewest cycles per transaction has cache.size=256 KiB" in text
    )
    (table,) = re.findall(r'<section id="designs">.*?</section>', page, flags=re.S)
    assert table.count("<tr>") == 61
    means = [sum(r["cycles"] / r["transactions"] for r in d["replications"]) / 4 for d in documents]
    best = documents[means.index(min(means))]["machine"]
    first = text_of(re.findall(r"<tr>.*?</tr>", table, flags=re.S)[1]).split()
    assert first[:5] == ["1", "256", "KiB", str(best["cache"]["associativity"]), best["protocol"]["name"]]
    assert "excluded" in table and "may be" in table


def test_a_study_of_two_workloads_ranks_each_for_itself() -> None:
    documents = many()
    for document in documents[::2]:
        document["trace"] = {**document["trace"], "hash": "0" * 64, "name": "other.svt"}
    page = render(read(documents))
    assert "60 designs in 2 groups that differ in their trace, each ranked for itself" in text_of(page)
    (tables,) = re.findall(r'<section id="designs">.*?</section>', page, flags=re.S)
    assert tables.count("<table") == 2 and tables.count("<tr>") == 62


def test_what_is_invalid_gives_no_answer() -> None:
    documents = many()
    documents[3]["warnings"] = [{"rank": "invalid", "code": "x", "text": "nothing of this is true"}]
    text = text_of(render(read(documents)))
    assert "Figures of these 60 designs are invalid." in text and "Invalid. nothing of this is true" in text


def test_many_functional_runs_have_a_page_too() -> None:
    one = simulate(SHIPPED, "foglia-2004-4p", engine="functional", replications=1)
    documents = []
    for number in range(41):
        machine = {**one["machine"], "cache": {**one["machine"]["cache"], "size": f"{number + 1} KiB"}}
        documents.append({**one, "machine": machine})
    text = text_of(render(read_functional(documents)))
    assert "Of 41 designs the fewest misses per 1,000 references has cache.size=1 KiB" in text
    assert "too few runs to exclude another" in text


def read_functional(documents: list[dict[str, Any]]) -> list[Result]:
    return [check(document, f"{number}.json", ("references",)) for number, document in enumerate(documents)]


def test_more_designs_than_a_page_holds_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servsim.report.MOST_DESIGNS", 50)
    with pytest.raises(UsageError, match=r"at most 50 designs, and these are 60.*results\.parquet"):
        render(read(many()))


def test_runs_of_a_sweep_come_in_the_order_of_its_study(tmp_path: Path) -> None:
    runs = ["c", "a", "b", "d"]
    for run in runs[:3]:
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "result.json").write_text("{}")
    (tmp_path / "sweep.json").write_text("{}")
    lines = [json.dumps({"event": "planned", "run": run}) for run in runs]
    (tmp_path / "journal.jsonl").write_text("\n".join([*lines, '{"event": "fini']) + "\n")
    assert [path.parent.name for path in files([tmp_path])] == ["c", "a", "b"]


def test_settings_of_a_machine_are_told_from_those_of_a_run() -> None:
    found = factors([{"machine": {"processors": p}, "options": {"warmup": p}, "trace": {"name": "t"}} for p in (1, 2)])
    assert [(one.key, one.also, of_machine(one)) for one in found] == [("processors", ("warmup",), False)]


def test_without_common_seeds_changes_have_no_interval_and_the_page_says_why() -> None:
    documents = study(lambda size, *_: 5e6 + (size == "512 KiB") * 1e6)
    for replication in documents[5]["replications"]:
        replication["seed"] += 100
    text = text_of(render(read(documents)))
    assert "without interval because the designs were run with different seeds" in text
    assert "; pairs" not in text and "(pairs " in text
