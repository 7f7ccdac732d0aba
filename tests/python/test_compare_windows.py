"""Designs on common windows: the ratio and its interval, which windows are timed, what is ranked, what is said."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from servsim.comparison import windows
from servsim.comparison.designs import parse_machine
from servsim.comparison.ratios import look_is_enough, ratio_of, windows_needed
from servsim.comparison.windows import Asked, compare_windows
from servsim.errors import Interrupted, UsageError
from servsim.sampling.estimates import estimate
from servsim.sampling.runs import Wish
from servsim.statistics.sampling import FIRST_LOOK, FIRST_STAGE, order

TRACE = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
PARTS = ("busy_user", "busy_kernel", "memory_stall", "bus_wait", "lock_spin", "branch", "idle")


def _population(random: Random, count: int) -> list[tuple[float, float, float]]:
    """Misses of windows, and cycles of two designs: what misses do not explain, both have in common."""
    found = []
    for _ in range(count):
        misses, common = random.uniform(0.004, 0.012), random.gauss(0, 0.1)
        slow, fast = (0.5 + price * misses + common + random.gauss(0, 0.01) for price in (66, 60))
        found.append((misses, slow, fast))
    return found


#: Windows that do not tell what a read of memory costs.
UNPRICED = {"memory_stall": 0, "transactions_take": 0, "memory_reads": 0, "memory_reads_take": 0}


def _place(instructions: int, counts: dict[str, float]) -> dict[str, Any]:
    """Return what the pass counted somewhere, all of it by tasks of one name."""
    groups = {"t": counts | {"instructions": instructions}}
    return {"instructions": instructions, "counts": counts, "groups": groups}


def _design(
    chosen: list[tuple[int, float, float]], cycles: list[float], whole: list[tuple[float, float]]
) -> dict[str, Any]:
    """Windows of a design that is never idle, with the misses of all, and coarse runs that know no chance."""
    count = len(whole)
    pace = sum(cycles) / len(cycles)
    points = [_place(1000, {"misses": 1e6 * misses, "memory_reads": 0}) for misses, _ in whole]
    run = {"cycles": pace * 1e6, "instructions": 1e6, "transactions": 100, "idle": 0, "without_work": 0.0}
    runs = [run | {"seed": seed, "paces": {"t": [0.0, pace]}} for seed in range(8)]
    faster = [one | {"cycles": 1.1 * one["cycles"], "paces": {"t": [0.0, 1.1 * pace]}} for one in runs[:3]]
    of_all = {"misses": sum(1e6 * misses for misses, _ in whole), "memory_reads": 0}
    return {
        "points": points,
        "range": {**_place(1000 * count, of_all), "cycles_per_reference": 0, "processors": 1},
        "windows": [
            {"point": point, "instructions": 1000, "misses": 1, "groups": {"t": [1000, 1500, 1000 * each]}} | UNPRICED
            for (point, *_), each in zip(chosen, cycles, strict=True)
        ],
        "coarse": runs + faster,
    }


@pytest.mark.parametrize("n", [24, 60])
def test_the_interval_of_a_ratio_covers_that_of_all_windows_as_often_as_it_says(n: int) -> None:
    """Of 1,000 studies with fixed seeds 95 % within three standard errors, and much narrower than either design."""
    random, covered, width, alone = Random(11), 0, 0.0, 0.0
    for study in range(1000):
        all_of_them = _population(random, 120)
        truth = sum(slow for _, slow, _ in all_of_them) / sum(fast for *_, fast in all_of_them)
        chosen = [(point, *all_of_them[point][1:]) for point in order(120, study)[:n]]
        whole = [(misses, slow) for misses, slow, _ in all_of_them]
        a = _design(chosen, [slow for _, slow, _ in chosen], whole)
        b = _design(chosen, [fast for *_, fast in chosen], whole)
        found = ratio_of(a, b)
        covered += abs(found.mean - truth) <= found.half_width
        width += found.half_width / found.mean
        of_a = estimate(a)
        alone += of_a.half_width / of_a.mean
    assert 0.929 <= covered / 1000 <= 0.971
    assert width < alone / 4


class MadeUp:
    """Stands in for the simulator: cycles of windows follow a made-up trace; keeps which windows were asked for."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, spread: float = 0.0, stop_in: tuple[str, int] = ("", 0)
    ) -> None:
        self.spread, self.stop_in = spread, stop_in
        self.timed: dict[str, list[int]] = {}
        monkeypatch.setattr(windows, "timed", self)
        monkeypatch.setattr(windows, "file_hash", lambda path, _: "sha256:0")

    def __call__(
        self, trace: Path, machine: str, choose: Callable[[str], Wish], *, overrides: list[str], **_: Any
    ) -> dict[str, Any]:
        settings = dict(one.split("=") for one in overrides)
        eight = settings.get("processors") == "8"
        count, spacing = (60, 2000) if eight else (120, 1000)
        price = 60 + int(settings.get("bus.memory_read", "60 cycles").split()[0]) / 10
        misses = [20 + 7 * point % 11 for point in range(count)]
        points = [_place(500, {"misses": one, "memory_reads": one // 2}) for one in misses]
        whole = {"misses": sum(misses) * spacing // 500, "memory_reads": sum(misses) * spacing // 1000}
        known: dict[str, Any] = {
            "range": {
                **_place(count * spacing, whole | {"references": 2 * count * spacing}),
                "transactions": 400,
                "spacing": spacing,
                "users": 4,
                "processors": 1,
                "cycles_per_reference": 0,
            },
            "points": points,
            "windows": [],
            "coarse": [],
        }
        label = ",".join(overrides)
        wanted, _ = choose(json.dumps(known))
        calls = self.timed.setdefault(label, [])
        if self.stop_in[0] == label and calls:
            wanted, known["interrupted"] = wanted[: self.stop_in[1]], True
            if not wanted:
                raise KeyboardInterrupt
        calls += wanted
        for point in wanted:
            # What the trace does there, and a little that is the machine's own.
            noise = 900 * ((point * spacing // 1000) % 5) + (point * (7 if eight else 3)) % 13
            cycles = int(10 * misses[point] * price / (2 if eight else 1)) + noise
            parts = dict.fromkeys(PARTS, 0) | UNPRICED | {"busy_user": cycles, "groups": {"t": [500, 700, cycles]}}
            half = {"cycles": cycles // 2, "instructions": 250}
            window = {"point": point, "cycles": cycles, "instructions": 500, "misses": misses[point], **parts}
            known["windows"].append(window | {"first_half": half, "timed_references": 3000, "cut_short": False})
        while asked := [] if "interrupted" in known else choose(json.dumps(known))[1]:
            for seed, _, paces in asked:
                cycles = 120_000 * paces["t"][1] * (1 + self.spread * (-1) ** seed)
                run = {"cycles": cycles, "instructions": 120_000, "transactions": 400, "idle": 0, "without_work": 0.0}
                known["coarse"].append(run | {"seed": seed, "paces": paces})
        return known | {
            "machine": {"name": label},
            "trace": {"hash": "sha256:0"},
            "options": {"warmup": 100, "transactions": 400, "window": {"first": 101, "last": 500, "of": 600}},
            "live_points": {"file": f"{count}.live", "made": False, "references": 0},
            "warnings": [],
        }


def _compared(*machines: str, precision: float = 0.01) -> dict[str, Any]:
    designs = [parse_machine(f"foglia-2004-4p:{text}") for text in machines]
    return compare_windows(designs, Asked(TRACE, precision))


SLOW, FAST, NEAR = "bus.memory_read=90 cycles", "bus.memory_read=60 cycles", "bus.memory_read=61 cycles"


def test_designs_of_one_shape_time_the_same_windows_and_far_fewer_than_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The live-points are the same, so are the places; a look is enough, where each alone would have needed more."""
    made = MadeUp(monkeypatch)
    found = _compared(SLOW, FAST)
    assert made.timed[SLOW] == made.timed[FAST] == order(120, 1)[:FIRST_LOOK]
    assert found["common_windows"] == {"timed": 8, "wanted": 8, "there": 120, "same_live_points": True}
    assert all(design["windows_alone"] > 35 for design in found["designs"])
    (pair,) = found["pairs"]
    assert pair["better"] == "foglia-2004-4p, bus.memory_read=60 cycles" and found["ranked"]
    assert 1.02 < pair["ratio"]["interval_95"][0] < pair["ratio"]["interval_95"][1] < 1.05
    json.dumps(found)


def test_where_a_look_is_not_enough_the_first_stage_tells_how_many_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One ratio of three that the first windows leave too wide is reason to time more of all designs."""
    made = MadeUp(monkeypatch)
    found = _compared(SLOW, FAST, "processors=8", precision=0.09)
    assert {len(timed) for timed in made.timed.values()} == {FIRST_STAGE}
    widths = [pair["ratio"]["of_windows"] for pair in found["pairs"]]
    assert found["common_windows"]["wanted"] == FIRST_STAGE
    assert min(widths) < 0.01 and max(widths) > 0.02
    made.timed.clear()
    with_look = _compared(SLOW, FAST, "processors=8", precision=0.15)
    assert with_look["common_windows"]["timed"] == FIRST_LOOK


def test_machines_of_other_shapes_time_windows_at_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine with most processors has fewest live-points, and decides; of the other every second one is there."""
    made = MadeUp(monkeypatch)
    found = _compared("processors=4", "processors=8", precision=0.2)
    assert made.timed["processors=4"] == [2 * point for point in made.timed["processors=8"]]
    assert not found["common_windows"]["same_live_points"]
    assert [place["design"] for place in found["ranking"]] == [
        "foglia-2004-4p, processors=8",
        "foglia-2004-4p, processors=4",
    ]


def test_a_second_stage_times_what_is_missing_of_all_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of the first stage are not timed again."""
    made = MadeUp(monkeypatch)
    found = _compared("processors=4", "processors=8", precision=0.01)
    common = found["common_windows"]
    assert FIRST_STAGE < common["timed"] == common["wanted"]
    for timed in made.timed.values():
        assert len(timed) == len(set(timed)) == common["timed"]


def test_the_spread_of_single_runs_is_in_the_interval_and_leaves_designs_unranked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clear difference is not ranked where runs of either design differ as much; the sentence says so."""
    MadeUp(monkeypatch, spread=0.05)
    found = _compared(SLOW, FAST)
    (pair,) = found["pairs"]
    # Twelve runs, half of them 5 % above and half below: Student's t of eleven, one run more, two designs.
    of_one = 2.2010 * 0.05 * (12 / 11) ** 0.5 * (13 / 12) ** 0.5
    assert pair["ratio"]["of_order"] == pytest.approx(of_one * 2**0.5, rel=5e-3)
    assert pair["better"] is None and "single runs differ" in pair["reason"] and not found["ranked"]
    assert any(warning["code"] == "precision-missed" for warning in found["warnings"])


def test_equal_designs_are_not_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every window takes the same on both."""
    MadeUp(monkeypatch)
    (pair,) = _compared(FAST, FAST)["pairs"]
    assert pair["better"] is None and pair["ratio"]["mean"] == 1 and "they do not differ" in pair["reason"]


def test_an_interruption_keeps_the_windows_that_all_designs_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first stage the look is kept, in the second the first; what only one design has is left out."""
    MadeUp(monkeypatch, stop_in=("processors=4", 3))
    with pytest.raises(Interrupted) as stopped:
        _compared("processors=4", "processors=8")
    kept = stopped.value.result
    assert kept["common_windows"]["timed"] == FIRST_LOOK + 3 and kept["interrupted"]
    assert re.match(
        r"interrupted: 11 common windows had ended, which give ±\d+\.\d % for ratios; about 60 of 60 would be needed "
        "for ±1 %",
        kept["warnings"][0]["text"],
    )
    MadeUp(monkeypatch, stop_in=("processors=8", 0))
    with pytest.raises(Interrupted) as stopped:
        _compared("processors=4", "processors=8")
    assert stopped.value.result["common_windows"]["timed"] == FIRST_LOOK


def test_an_interruption_after_enough_windows_says_that_no_more_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look had told the ratio of designs of one shape; so it would have ended there."""
    documents: list[list[dict[str, Any]]] = []

    def kept(of: list[dict[str, Any]], precision: float) -> bool:
        documents.append(of)
        return look_is_enough(of, precision)

    MadeUp(monkeypatch)
    monkeypatch.setattr(windows, "look_is_enough", kept)
    _compared(SLOW, FAST, precision=0.15)
    assert windows_needed(documents[0], 0.15).endswith("% for ratios; no more are needed")
    assert "about 24 of 120 would be needed for ±0.5 %" in windows_needed(documents[0], 0.005)


def test_the_share_done_of_all_designs_never_falls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is told by name of the design; live-points that are there already make it jump."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path))
    shown: list[tuple[str, float]] = []
    designs = [parse_machine(f"foglia-2004-4p:processors=1,{text}") for text in (SLOW, FAST)]
    compare_windows(
        designs, Asked(TRACE, 0.4, transactions=5, warmup=1), progress=lambda what, share: shown.append((what, share))
    )
    shares = [share for _, share in shown]
    assert shares == sorted(shares) and shares[0] < 0.1 and 0.5 < shares[-1] <= 1
    texts = [text.partition(": ")[2] for text, _ in shown]
    assert texts.index("timing windows") < len(texts) - 1 - texts[::-1].index("timing windows")
    assert len({text.partition(": ")[0] for text, _ in shown}) == 2


def test_a_trace_with_too_few_windows_is_refused(tmp_path: Path) -> None:
    """It says how many transactions are missing."""
    designs = [parse_machine(f"foglia-2004-4p:{text}") for text in (SLOW, FAST)]
    with pytest.raises(UsageError, match=r"a first look takes 24 windows.*more are missing"):
        compare_windows(designs, Asked(TRACE, 0.01, transactions=3, warmup=0))


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [str(Path(sys.executable).with_name("servsim")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


WINDOW = ("--warm-up", 1, "--transactions", 5)


def test_full_runs_find_the_same_winner_and_lie_in_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle is the simulator without sampling; each machine has a shape of its own."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path))
    base = "foglia-2004-4p:processors=1"
    machines = [base, f"{base},cache.size=16 KiB"]
    chosen = [word for machine in machines for word in ("-m", machine)]
    done = servsim("compare", TRACE, *chosen, *WINDOW, "--sampled", "5%", "--json")
    assert done.returncode == 0, done.stderr
    assert "windows of each, where each design alone would need" in done.stderr
    found = json.loads(done.stdout)
    full = {}
    for machine in machines:
        settings = [word for one in machine.partition(":")[2].split(",") for word in ("--set", one)]
        run = servsim("simulate", TRACE, "-m", "foglia-2004-4p", *settings, *WINDOW, "--json")
        replication = json.loads(run.stdout)["replications"][0]
        full[machine.replace("4p:processors=1", "4p").replace(",", ", ")] = replication["cycles_per_transaction"]
    (pair,) = found["pairs"]
    low, high = pair["ratio"]["interval_95"]
    assert low < full[pair["a"]] / full[pair["b"]] < high, pair
    assert pair["better"] == min(pair["a"], pair["b"], key=full.__getitem__), pair
    words = servsim("compare", TRACE, *chosen, *WINDOW, "--sampled", "50%")
    assert words.returncode == 0 and "is better: it needs fewer cycles for a transaction than" in words.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sampled", "1%", "--by", "gsp"), "leave out --by"),
        (("--sampled", "1%", "--precision", "1%", "--keep", "x"), "leave out --keep, --precision"),
        (("--sampled", "zwei"), "--sampled zwei: give a share"),
        (("--sampled", "1%", "--html", "x.html"), "leave out --html"),
    ],
)
def test_what_windows_cannot_compare_is_refused_with_the_remedy(options: tuple[str, ...], words: str) -> None:
    """One sentence and exit code 2."""
    done = servsim("compare", TRACE, "-m", "foglia-2004-4p", "-m", "foglia-2004-8p", *options)
    assert done.returncode == 2 and words in " ".join(done.stderr.split()), done.stderr


def test_a_single_machine_is_nothing_to_compare() -> None:
    """The usual sentence of compare."""
    done = servsim("compare", TRACE, "-m", "foglia-2004-4p", "--sampled", "1%")
    assert done.returncode == 2 and "a comparison needs two designs" in done.stderr
