"""Sampled simulation: the estimate and its interval, which windows are timed, what is refused, what is shown."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from servsim.errors import UsageError
from servsim.sampling import precision_of, refuse_unsuitable, summary, unknown_of
from servsim.sampling.coarse import CHANGE, coarse_runs, groups_of, order_of
from servsim.sampling.estimates import estimate as estimate_of
from servsim.sampling.estimates import level_of, model_of, out_of_work, price_of_read, priced
from servsim.sampling.runs import _Plan
from servsim.statistics.sampling import FIRST_LOOK, FIRST_STAGE, PHASES, estimate, order, windows_for


def _population(random: Random, count: int) -> list[tuple[float, float]]:
    """Cycles and misses for an instruction of windows: cycles follow misses, and drift along the trace."""
    found = []
    for window in range(count):
        misses = random.uniform(0.004, 0.012) + 0.002 * window / count
        found.append((0.5 + 60 * misses + random.gauss(0, 0.03), misses))
    return found


def _estimates(choice: str, count: int, n: int, studies: int) -> tuple[float, float]:
    """Share of studies whose interval covers the mean of all windows, and the mean half-width."""
    random, covered, widths = Random(7), 0, 0.0
    for study in range(studies):
        all_of_them = _population(random, count)
        mean = sum(cycles for cycles, _ in all_of_them) / count
        chosen = [all_of_them[window] for window in order(count, study, choice)[:n]]
        misses = sum(misses for _, misses in all_of_them) / count
        found = estimate([cycles for cycles, _ in chosen], [[one] for _, one in chosen], [misses], n / count)
        covered += abs(found.mean - mean) <= found.half_width
        widths += found.half_width / studies
    return covered / studies, widths


@pytest.mark.parametrize("choice", ["phases", "random"])
@pytest.mark.parametrize("n", [FIRST_LOOK, 24, 60])
def test_the_interval_covers_the_mean_of_all_windows_as_often_as_it_says(choice: str, n: int) -> None:
    """Of 2,000 studies with fixed seeds 95 % within three standard errors; knowing the misses narrows it."""
    covered, width = _estimates(choice, 120, n, 2000)
    assert 0.935 <= covered <= 0.965
    assert width < (0.045 if n == FIRST_LOOK else 0.02), "without the misses it is 0.06"


def test_all_windows_leave_no_error_of_choice() -> None:
    """An estimate from the whole range is its mean."""
    found = estimate([1.0, 2.0, 4.0], [[0.0]] * 3, [0.0], 1.0)
    assert (found.mean, found.half_width) == (pytest.approx(7 / 3), 0.0)


def test_columns_that_say_the_same_twice_or_nothing_are_left_out() -> None:
    """A constant column, and a multiple of another, change nothing."""
    cycles = [1.0 + 0.1 * (window % 7) + 0.01 * (window % 3) for window in range(40)]
    misses = [0.01 * (window % 7) for window in range(40)]
    plain = estimate(cycles, [[one] for one in misses], [0.03], 0.1)
    padded = estimate(cycles, [[one, 5.0, 2 * one] for one in misses], [0.03, 5.0, 0.06], 0.1)
    assert padded.mean == pytest.approx(plain.mean)
    assert padded.half_width == pytest.approx(plain.half_width)


def test_any_first_windows_cover_all_of_the_trace() -> None:
    """Each round of the order takes one window of every part."""
    chosen = order(80, 3)
    assert sorted(chosen) == list(range(80))
    for first in range(0, 80, PHASES):
        assert {window * PHASES // 80 for window in chosen[first : first + PHASES]} == set(range(PHASES))
    assert {window * PHASES // 80 for window in order(80, 3, "random")[:PHASES]} != set(range(PHASES))


def test_as_many_windows_as_asked_for_give_the_precision() -> None:
    """With the same spread, the number of windows that is named has the wished half-width, and one less has not."""
    first = estimate([1.0, 1.2, 0.8, 1.1, 0.9, 1.0] * 4, [[] for _ in range(24)], [], 24 * 0.002)
    wanted = windows_for(first, 0.01)

    def half(n: int) -> float:
        shares = (1 - 0.002 * n) / n
        reference = (1 - first.share) / first.n
        return first.half_width * (shares / reference) ** 0.5

    assert half(wanted) <= 0.01 * first.mean * 1.001 < half(wanted - 2)


@pytest.mark.parametrize(("text", "share"), [("2%", 0.02), ("0.05", 0.05), ("0.5%", 0.005)])
def test_a_precision_is_a_share(text: str, share: float) -> None:
    """With or without the sign."""
    assert precision_of(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0", "-2%", "two", "80%", "0.1%", "nan", ""])
def test_another_precision_is_refused_with_an_example(text: str) -> None:
    """One sentence that says what is accepted."""
    with pytest.raises(UsageError, match="for example 2%"):
        precision_of(text)


def test_a_precision_that_no_longer_trace_gives_is_refused_with_the_best_one() -> None:
    """Live-points are about a hundred: more windows there are not, so more transactions would not help."""
    known = _known()
    for place, window in enumerate(known["windows"]):
        window["groups"]["server"][2] += 30 * (place % 7)
    known["points"] = known["points"][:1] * 100
    known["range"] |= {
        "instructions": 10_000_000,
        "transactions": 100,
        "spacing": 100_000,
        "window": {"warmup": 500, "measured": 1000},
    }
    with pytest.raises(UsageError, match=r"±0\.6 % takes \d+ windows.*about 100, however long.*ask for 1\.5% at best"):
        _planned(known, 0.006)
    known["range"]["spacing"] = 3000
    with pytest.raises(UsageError, match=r"±0\.6 % takes \d+ windows, and the 100 transactions.*more are missing"):
        _planned(known, 0.006)
    assert not _planned(known, 0.05), "the first stage was enough"


def test_a_look_at_few_windows_is_enough_where_they_hardly_differ() -> None:
    """Else the first stage is filled up, also where nothing is left for the choice of windows."""
    known = _known(spread=0.001, precision=0.02)
    for place, window in enumerate(known["windows"]):
        window["groups"]["server"][2] += 12 * (place % 7)
    known["windows"] = known["windows"][:FIRST_LOOK]
    half = estimate_of(known).half_width / estimate_of(known).mean
    assert 0.015 < half < 0.025
    rest = order(24, 1)[FIRST_LOOK:FIRST_STAGE]
    assert _planned(known, 2.1 * half + 0.003) == []
    assert _planned(known, 1.9 * half) == rest
    known["coarse"] = _known(spread=0.001, precision=0.003)["coarse"]
    assert _planned(known, 0.003) == rest


def _planned(known: dict[str, Any], precision: float) -> list[int]:
    windows, coarse = _Plan(precision, 1, "phases", None, False).choose(json.dumps(known))
    assert not coarse
    return windows


def _known(spread: float = 0.0, precision: float = 0.0, **changes: int) -> dict[str, Any]:
    """24 equal windows that had the misses which the pass had counted, with changes to all; coarse runs beside them.

    Tasks called ``server`` make four fifths of the instructions, and all that the machine waits for; one named
    ``cron`` makes a hundredth, too little for a group of its own.
    """
    parts = ("busy_user", "busy_kernel", "memory_stall", "bus_wait", "lock_spin", "branch", "idle")
    window = {**dict.fromkeys(parts, 0), "busy_user": 980, "memory_stall": 15, "bus_wait": 5}
    window |= {"cycles": 1000, "instructions": 500, "misses": 10}
    window |= {"transactions_take": 0, "memory_reads": 0, "memory_reads_take": 0} | changes
    groups = {"server": [400, 600, 900], "client": [95, 150, 190], "cron": [5, 8, 10]}
    counted: dict[str, Any] = {
        "instructions": 500,
        "counts": {"misses": 10, "memory_reads": 5},
        "groups": {
            "server": {"instructions": 400, "misses": 6, "memory_reads": 2},
            "client": {"instructions": 95, "misses": 4, "memory_reads": 3},
            "cron": {"instructions": 5, "misses": 0, "memory_reads": 0},
        },
    }
    groups_of_range = {
        name: {what: 100 * count for what, count in counts.items()} for name, counts in counted["groups"].items()
    }
    known: dict[str, Any] = {
        "windows": [{**window, "point": point, "groups": json.loads(json.dumps(groups))} for point in range(24)],
        "points": [json.loads(json.dumps(counted)) for _ in range(24)],
        "range": {
            "instructions": 50_000,
            "transactions": 100,
            "counts": {"misses": 1000, "memory_reads": 500},
            "groups": groups_of_range,
            "users": 4,
            "processors": 2,
            "cycles_per_reference": 1,
        },
    }
    return _run_coarsely(known, spread, precision)


def _run_coarsely(known: dict[str, Any], spread: float = 0.0, precision: float = 0.0) -> dict[str, Any]:
    """Make coarse runs at the paces of the windows."""
    known["coarse"] = []
    while wanted := coarse_runs(known, 1, precision):
        known["coarse"] += [_coarse_run(*run, spread) for run in wanted]
    return known


#: Not quite half of the time of a window spent on misses.
HALF_ON_MISSES = {"busy_user": 600, "memory_stall": 300, "bus_wait": 100}


def _coarse_run(seed: int, _: float, paces: dict[str, list[float]], spread: float) -> dict[str, Any]:
    each, beyond = paces["server"]
    cycles = 50_000 * (1.5 * each + beyond) * (1 + spread * (-1) ** seed)
    run = {"cycles": cycles, "instructions": 50_000, "transactions": 100, "idle": 0.4 * cycles, "without_work": 0.0}
    return run | {"seed": seed, "paces": paces}


def test_groups_have_the_pace_of_their_tasks_and_small_ones_are_taken_together() -> None:
    """Cycles for an instruction beyond one for each reference."""
    groups = groups_of(_known())
    assert list(groups) == ["client", "server", ""]
    assert groups["server"].pace == pytest.approx((900 - 600) / 400) and groups["server"].known == pytest.approx(1.5)
    assert groups[""].pace == pytest.approx((10 - 8) / 5)
    paces = coarse_runs(_known() | {"coarse": []}, 7, 0.02)
    assert paces[0] == (7, paces[0][1], {"client": [1, 40 / 95], "server": [1, 0.75], "": [1, 0.4]})
    assert [run[2]["server"][0] for run in paces] == [1, 1, 1, 1, 1, pytest.approx(1 + CHANGE)]
    assert [run[2]["client"][0] for run in paces] == [1, 1, 1, 1, pytest.approx(1 + CHANGE), 1]


def test_more_coarse_runs_are_made_where_their_spread_is_a_good_part_of_the_precision() -> None:
    """A spread of a thousandth is known well enough from four for 2 %; one of a hundredth is not."""
    assert len(_known(spread=0.001, precision=0.02)["coarse"]) == 4 + 2
    known = _known(spread=0.01, precision=0.02)
    assert len(known["coarse"]) == 12 + 2 * 2
    assert (
        sorted(run["seed"] for run in known["coarse"])[-1] == 12
        and len({run["cycles"] for run in known["coarse"]}) == 4
    )


def test_what_the_machine_waits_for_decides_and_what_it_does_not_wait_for_does_not() -> None:
    """Windows at another pace than the coarse runs': the server's share of it is followed, the client's is not."""
    known = _known()
    assert level_of(known)[0] == pytest.approx(2.25)
    for window in known["windows"]:
        window["groups"]["client"][2] += 50
    level, left = level_of(known)
    assert level == pytest.approx(2.25) and max(map(abs, left)) < 1e-9
    for window in known["windows"][::2]:
        window["groups"]["server"][2] += 40
    level, left = level_of(known)
    assert level == pytest.approx(2.25 + 20 / 400), "half of the windows take a tenth of a cycle more"
    assert left[0] == pytest.approx(20 / 400 / 2.25) and left[1] == pytest.approx(-left[0])


def test_a_group_that_took_no_cycles_of_its_own_changes_nothing() -> None:
    """A few interrupts on a core that overlaps all of their references: a tenth more of nothing is nothing."""
    known = _known()
    known["range"]["cycles_per_reference"] = 0
    small = next(name for name in known["windows"][0]["groups"] if name not in ("server", "client"))
    for window in known["windows"]:
        window["groups"][small][2] = 0
    of = priced(_run_coarsely(known))
    assert groups_of(known)[""].pace == 0 and of.level == pytest.approx(900 / 400) and max(map(abs, of.left)) < 1e-9


#: Windows that tell what a read costs: processors wait for three quarters of the 200 cycles that it takes.
READS_TAKE_200 = {"memory_stall": 450, "transactions_take": 600, "memory_reads": 2, "memory_reads_take": 400}


def test_reads_that_windows_lack_cost_what_reads_take_where_the_machine_waits_for_whoever_makes_them() -> None:
    """A burst of the server in no window counts at the price of a read, however the few reads of windows differ."""
    known = _known(**READS_TAKE_200)
    assert price_of_read(known) == pytest.approx(150)
    assert estimate_of(known).mean == pytest.approx(2.25)
    known["range"]["groups"]["client"]["memory_reads"] += 300
    assert estimate_of(known).mean == pytest.approx(2.25), "nobody waits for the client"
    known["range"]["groups"]["server"]["memory_reads"] += 40
    burst = 2.25 + 150 * 40 / 40_000
    assert estimate_of(known).mean == pytest.approx(burst), "for each of the server's 40,000 instructions"
    for point in known["points"][::2]:
        point["groups"]["client"]["memory_reads"] += 50
        point["counts"]["memory_reads"] += 50
    assert estimate_of(known).mean == pytest.approx(burst)


def test_a_read_in_windows_is_no_reason_to_expect_as_many_elsewhere() -> None:
    """Where every sixth window has a burst and the range fewer, what they cost goes out of level and spread."""
    known = _known(**READS_TAKE_200)
    plain = estimate_of(known)
    for window, point in list(zip(known["windows"], known["points"], strict=True))[::6]:
        window["groups"]["server"][2] += 150 * 30
        point["groups"]["server"]["memory_reads"] += 30
    found = estimate_of(_run_coarsely(known))
    assert found.mean == pytest.approx(plain.mean) and found.half_width == pytest.approx(0, abs=1e-9)


def test_tasks_that_ran_in_the_pass_alone_have_no_pace_and_are_left_out() -> None:
    """In short traces a window may have other tasks than the pass had over the same instructions."""
    known = _known(**READS_TAKE_200)
    for window in known["windows"]:
        window["groups"]["cron"] = [0, 0, 0]
    known["range"]["groups"]["cron"]["memory_reads"] += 40
    assert estimate_of(_run_coarsely(known)).mean == pytest.approx(2.25)


def test_without_a_price_reads_are_left_to_the_regression() -> None:
    """Of interconnects that end transactions later windows tell no price; 24 windows bear the column."""
    known = _known()
    assert price_of_read(known) is None
    for place, (window, point) in enumerate(zip(known["windows"], known["points"], strict=True)):
        window["groups"]["server"][2] += 70 * (place % 3)
        point["groups"]["server"]["memory_reads"] += place % 3
    assert estimate_of(_run_coarsely(known)).mean == pytest.approx(2.25), "the range has none of what windows had more"


def test_what_single_runs_differ_by_is_in_the_interval_and_refuses_what_it_leaves_no_room_for() -> None:
    """One run more than the twelve of which the spread is known; the message says how many transactions are missing."""
    known = _known(spread=0.01)
    half = 2.2010 * 0.01 * (12 / 11) ** 0.5 * (13 / 12) ** 0.5
    assert order_of(known) == pytest.approx(half, rel=1e-3)
    low, high = summary(known)["cycles_per_transaction"]["interval_95"]
    assert (high - low) / (high + low) == pytest.approx(half, rel=1e-2)
    refuse_unsuitable(known, 0.04)
    with pytest.raises(
        UsageError,
        match=r"±2 %: single full runs of the 100 transactions.*±2\.4 %.*200 more are missing.*3\.5% at best",
    ):
        refuse_unsuitable(known, 0.02)
    with pytest.raises(UsageError, match=r"waits; a trace of any length would leave ±0\.4 % open; ask for 3\.5% at"):
        refuse_unsuitable(known, 0.004)


@pytest.mark.parametrize(("share", "ranks"), [(0.004, []), (0.02, ["weak"]), (0.147, ["invalid"])])
def test_users_without_work_are_told_as_by_a_full_run(share: float, ranks: list[str]) -> None:
    """The coarse runs know when users run out of work, and from what share on that is no workload any more."""
    known = _known()
    for run in known["coarse"]:
        run["without_work"] = share
    assert [warning.rank for warning in out_of_work(known)] == ranks


def test_windows_with_other_misses_than_the_pass_are_worth_less() -> None:
    """Half as many misses again leave half of the time open that is spent on misses, be they more or fewer."""
    assert unknown_of(_known(misses=15, **HALF_ON_MISSES)).misses == pytest.approx(0.5 * 0.4)
    assert unknown_of(_known(misses=5, **HALF_ON_MISSES)).misses == pytest.approx(1.0 * 0.4)
    refuse_unsuitable(_known(misses=15, **HALF_ON_MISSES), 0.28)
    with pytest.raises(UsageError, match=r"other misses.*20\.0 % of the time open.*ask for 27\.1% at best"):
        refuse_unsuitable(_known(misses=15, **HALF_ON_MISSES), 0.1)


def test_time_on_misses_leaves_a_share_of_it_open_however_many_windows_there_are() -> None:
    """An eighth, and .3 % where next to none is spent on misses; no longer trace would help."""
    assert model_of(_known()) == pytest.approx(0.003)
    known = _known(**HALF_ON_MISSES)
    assert model_of(known) == pytest.approx(0.4 / 8)
    low, high = summary(known)["cycles_per_transaction"]["interval_95"]
    assert (high - low) / (high + low) == pytest.approx(0.05, rel=1e-2)
    refuse_unsuitable(known, 0.08)
    with pytest.raises(
        UsageError, match=r"±2 %: 40\.0 % of the time goes to misses.*to ±5\.0 %.*7\.1% at best"
    ) as refused:
        refuse_unsuitable(known, 0.02)
    assert "missing" not in str(refused.value)


TRACE = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
MACHINE = ("-m", "foglia-2004-4p", "--set", "processors=1")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [str(Path(sys.executable).with_name("servsim")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_trace_is_sampled_as_precisely_as_asked_and_says_what_that_cost(tmp_path: Path) -> None:
    """The shipped trace is short, so single runs of it differ by much; the rest is as for any."""
    points = tmp_path / "w.live"
    asked = ("--warm-up", 0, "--transactions", 10, "--precision", "50%", "--live-points", points)
    done = servsim("simulate", TRACE, *MACHINE, *asked, "--json")
    assert done.returncode == 0, done.stderr
    assert "% of a full run" in done.stderr and str(points) in done.stderr
    result = json.loads(done.stdout)
    found, known = result["summary"]["cycles_per_transaction"], result["precision"]
    low, high = found["interval_95"]
    assert (high - low) / 2 == pytest.approx(known["half_width"] * found["mean"])
    assert known["half_width"] <= 0.5 and 0 < known["of_windows"] < known["of_order"]
    assert result["cost"]["share_of_full_run"] < 0.6
    full = json.loads(servsim("simulate", TRACE, *MACHINE, "--warm-up", 0, "--transactions", 10, "--json").stdout)
    assert low < full["replications"][0]["cycles_per_transaction"] < high
    again = servsim("simulate", TRACE, *MACHINE, "--set", "bus.memory_read=200 cycles", *asked)
    assert again.returncode == 0 and "live-points of" in again.stderr, again.stderr
    assert "cycles_per_transaction" in again.stdout and "windows" in again.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--precision", "2%"), "more are missing"),
        (("--precision", "2%", "--engine", "functional"), "leave out --engine"),
        (("--precision", "2%", "--replications", "3"), "leave out --replications"),
        (("--precision", "zwei"), "for example 2%"),
        (("--live-points", "w.live"), "--precision 2%"),
        (("--precision", "2%", "--live-points", "."), "is a folder"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_the_remedy(
    options: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence and exit code 2; of a trace too short, how many transactions are missing."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path))
    done = servsim("simulate", TRACE, *MACHINE, *options)
    assert done.returncode == 2, done.stderr
    assert words in " ".join(done.stderr.split())
