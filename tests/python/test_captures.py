"""Several captures as one design: pieces of the shipped trace stand for captures, and statistics have their oracles."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layout_result import layout_result
from scipy import stats
from servsim import _core, captures, report
from servsim.captures import simulate_captures
from servsim.comparison import Design, judge
from servsim.comparison.grouping import designs
from servsim.comparison.metrics import metric
from servsim.environment import shipped_trace
from servsim.errors import Interrupted, UsageError
from servsim.report import check
from servsim.report.summary import summary
from servsim.simulation import simulate
from servsim.statistics.intervals import estimate
from servsim.statistics.nested import unit_means

SERVSIM = Path(sys.executable).with_name("servsim")
MACHINE = "foglia-2004-4p"
CPT = metric("cycles_per_transaction")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    shipped = shipped_trace()
    assert shipped is not None
    folder = tmp_path_factory.mktemp("captures")
    made = []
    for number, first in enumerate((2, 5, 7), start=1):
        made.append(folder / f"piece.{number}.svt")
        _core.trace_cut(shipped, made[-1], (first, first + 2), None, None)
    return made


@pytest.fixture(scope="module")
def joined(pieces: list[Path]) -> dict[str, Any]:
    return simulate_captures(pieces, MACHINE, transactions=1, warmup=1, replications=2)


def test_each_capture_is_run_as_alone_and_the_interval_is_over_captures(
    pieces: list[Path], joined: dict[str, Any]
) -> None:
    alone = [simulate(piece, MACHINE, transactions=1, warmup=1, replications=2) for piece in pieces]
    of_each = [replication for document in alone for replication in document["replications"]]
    assert [{**r, "capture": None} for r in joined["replications"]] == [{**r, "capture": None} for r in of_each]
    assert [r["capture"] for r in joined["replications"]] == [0, 0, 1, 1, 2, 2]
    assert [c["name"] for c in joined["captures"]] == [piece.name for piece in pieces]
    assert [c["hash"] for c in joined["captures"]] == [document["trace"]["hash"] for document in alone]
    # Student's interval over the three means, written out.
    means = np.array([np.mean([r["cycles"] for r in document["replications"]]) for document in alone])
    half = stats.t.ppf(0.975, 2) * means.std(ddof=1) / np.sqrt(3)
    known = joined["summary"]["cycles"]
    assert known["n"] == 3 and known["mean"] == pytest.approx(means.mean())
    assert known["interval_95"] == pytest.approx([means.mean() - half, means.mean() + half])
    told = check(joined, "joined").estimate("cycles")
    assert (told.n, [told.low, told.high]) == (3, pytest.approx(known["interval_95"]))
    assert joined["options"]["replications"] == 2
    assert "few-captures" in {w["code"] for w in joined["warnings"]}


def test_the_order_on_the_command_line_says_nothing(pieces: list[Path], joined: dict[str, Any]) -> None:
    again = simulate_captures(pieces[::-1], MACHINE, transactions=1, warmup=1, replications=2)
    assert again["trace"] == joined["trace"] and again["summary"] == joined["summary"]


def test_what_people_read_says_what_the_intervals_are_over(tmp_path: Path) -> None:
    result = over("several", [[1e6, 2e6], [3e6, 4e6], [5e6, 6e6]]).result
    lines = summary(result)
    assert "3 captures, 2 replications each" in lines[0] and "3 captures" in lines[1]
    page = report.write([result], tmp_path / "page.html").read_text()
    assert "over captures: they hold for another capture" in page
    single = report.write([check(layout_result("one", replications=4), "one")], tmp_path / "one.html").read_text()
    assert "another capture of the same workload may differ by more" in single


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)


def test_simulate_and_compare_take_several_captures(pieces: list[Path], tmp_path: Path) -> None:
    window = ("--transactions", 1, "--warm-up", 1, "--replications", 2)
    done = servsim("simulate", *pieces, "-m", MACHINE, *window)
    assert done.returncode == 0, done.stderr
    assert "intervals: over 3 captures, 2 runs of each" in done.stdout and "n = 3 captures" in done.stdout
    kept = tmp_path / "kept"
    machines = ("-m", MACHINE, "-m", f"{MACHINE}:cache.size=16 KiB")
    compared = servsim("compare", *pieces, *machines, *window, "--keep", kept, "--json")
    # Pieces this small leave users without work, for which nothing is ranked; the intervals stand.
    assert compared.returncode == 1, compared.stderr
    found = json.loads(compared.stdout)
    assert found["paired"] and [design["n"] for design in found["designs"]] == [3, 3]
    assert found["designs"][0]["captures"] == [piece.name for piece in pieces]
    text = servsim("compare", *kept.iterdir())
    assert "Captures are paired by capture" in text.stdout and "over captures" in text.stdout


def over(name: str, values: list[list[float]], hashes: str = "abcdefgh") -> Design:
    """Return a design of several captures whose runs took these cycles per transaction."""
    document = layout_result(name, replications=sum(map(len, values)))
    numbered = [(number, value) for number, group in enumerate(values) for value in group]
    for replication, (number, value) in zip(document["replications"], numbered, strict=True):
        replication |= {"capture": number, "cycles_per_transaction": value}
        replication["coherence"] = {"total": {"user": 0, "kernel": 0}}
    document["captures"] = [{"name": f"{h}.svt", "hash": h} for h, _ in zip(hashes, values, strict=False)]
    return Design(name, check(document, name))


def test_seeds_alone_do_not_rank_what_captures_leave_open() -> None:
    # Within a capture seeds differ by .1; between captures designs differ by more than their means.
    slow = over("slow", [[100.0, 100.1, 99.9], [104.0, 104.1, 103.9], [108.0, 108.1, 107.9]])
    fast = over("fast", [[103.0, 103.1, 102.9], [100.0, 100.1, 99.9], [108.5, 108.6, 108.4]])
    found = judge([slow, fast], CPT)
    assert not found.ranked and found.unit == "capture"
    # Means of captures 100, 104, 108 and 103, 100, 108.5: differences -3, 4, -.5.
    gap = found.pairs[0].difference
    t = stats.ttest_rel([100, 104, 108], [103, 100, 108.5])
    assert (gap.mean, gap.p) == (pytest.approx(1 / 6), pytest.approx(t.pvalue))
    flat = judge([over("slow", [[v] for g in (1.0, 2.0) for v in (g, g)]), over("fast", [[9.0]] * 4)], CPT)
    assert [known.t.n for known in flat.known] == [4, 4]


def test_designs_on_other_captures_are_not_paired() -> None:
    groups = [[100.0, 101.0], [102.0, 103.0], [104.0, 105.0]]
    found = judge([over("a", groups), over("b", groups, "xyz")], CPT)
    assert not found.method.paired and found.method.unpaired_because == "the designs were run on different captures"


def test_results_of_the_same_captures_and_other_seeds_are_one_design() -> None:
    first, more = over("a", [[1.0], [2.0]]).result, over("a", [[3.0], [4.0]]).result
    for replication in more.document["replications"]:
        replication["seed"] += 100
    (whole,) = designs([first, more])
    assert whole.independent([float(r["cycles_per_transaction"]) for r in whole.replications]) == [2.0, 3.0]
    assert whole.document["options"]["replications"] == 2


def test_an_interval_over_captures_covers_where_one_over_seeds_does_not() -> None:
    chance = np.random.default_rng(11)
    covered = {"captures": 0, "seeds": 0}
    for _ in range(400):
        means = 100 + chance.normal(0, 3, 4)
        values = [float(mean + error) for mean in means for error in chance.normal(0, 1.5, 5)]
        units = [number for number in range(4) for _ in range(5)]
        for what, known in (("captures", estimate(unit_means(values, units))), ("seeds", estimate(values))):
            assert known.low is not None and known.high is not None
            covered[what] += known.low <= 100 <= known.high
    # 95 % of 400 is 380, give or take 13 (three standard deviations).
    assert 367 <= covered["captures"] <= 393
    assert covered["seeds"] < 320, "twenty values that are no independent samples claim too much"


def test_a_value_that_is_missing_leaves_the_others_of_its_unit() -> None:
    assert unit_means([1.0, None, 4.0, None], [0, 0, 1, 2]) == [1.0, 4.0]


def test_what_is_no_set_of_captures_is_refused(
    pieces: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.svt"
    copy.write_bytes(pieces[0].read_bytes())
    with pytest.raises(UsageError, match="are the same capture"):
        simulate_captures([pieces[0], copy], MACHINE)
    text = tmp_path / "t.txt"
    text.write_text("0 L 1000\n")
    with pytest.raises(UsageError, match="was not captured by servsim"):
        simulate_captures([pieces[0], text], MACHINE)
    with pytest.raises(UsageError, match="--save-checkpoint belong"):
        simulate_captures(pieces, MACHINE, save_checkpoint=tmp_path / "c")
    longer = tmp_path / "longer.svt"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, longer, (2, 6), None, None)
    with pytest.raises(UsageError, match="they differ in transactions"):
        simulate_captures([pieces[0], longer], MACHINE)
    infos = iter(
        [
            {"users": 24, "seed": 1},
            {"users": 96, "seed": 2},
            {"settings": {"mix": "deck"}},
            {"settings": {"mix": "weighted"}},
        ]
    )

    def info(_: Path) -> dict[str, Any]:
        return {"meta": {"workload": "w", "provenance": next(infos)}, "totals": {"transactions": 5}}

    monkeypatch.setattr(captures, "trace_info", info)
    with pytest.raises(UsageError, match="they differ in users"):
        simulate_captures(pieces[:2], MACHINE)
    with pytest.raises(UsageError, match="they differ in setting mix"):
        simulate_captures(pieces[:2], MACHINE)


def test_captures_may_differ_in_the_seed_of_their_data(pieces: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    infos = iter(
        [
            {"seed": 1, "settings": {"data_seed": "1", "users": "8"}},
            {"seed": 2, "settings": {"data_seed": "2", "users": "8"}},
        ]
    )

    def info(_: Path) -> dict[str, Any]:
        return {"meta": {"workload": "w", "provenance": next(infos)}, "totals": {"transactions": 5}}

    monkeypatch.setattr(captures, "trace_info", info)
    result = simulate_captures(pieces[:2], MACHINE, transactions=1, warmup=1, replications=1)
    assert len(result["captures"]) == 2


def test_a_result_must_say_which_capture_each_replication_is_of() -> None:
    document = dict(over("a", [[1.0], [2.0]]).result.document)
    for wrong in (2, None):
        replications = [dict(r) for r in document["replications"]]
        replications[1].pop("capture")
        replications[1] |= {} if wrong is None else {"capture": wrong}
        with pytest.raises(UsageError, match="does not say which of the 2 captures"):
            check({**document, "replications": replications}, "wrong")
    with pytest.raises(UsageError, match="no captures are listed"):
        check({key: value for key, value in document.items() if key != "captures"}, "wrong")


def test_an_interruption_keeps_the_captures_that_were_run(pieces: list[Path]) -> None:
    def interrupted_second(trace: Path, *rest: Any, **options: Any) -> dict[str, Any]:
        if trace != pieces[0]:
            raise KeyboardInterrupt
        return simulate(trace, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captures, "simulate", interrupted_second)
        with pytest.raises(Interrupted) as stop:
            simulate_captures(pieces, MACHINE, transactions=1, warmup=1)
    kept = stop.value.result
    assert kept["interrupted"] is True and len(kept["replications"]) == 1 and "captures" not in kept
    assert any("1 of 3 captures had been run" in w["text"] for w in kept["warnings"])
