"""The study of Brock et al. (2001): its probes on the machines, the arithmetic of its tables, its verdicts."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from servsim.errors import UsageError
from servsim.reproduce import brock_2001, run
from servsim.reproduce.brock_2001 import kernels, printed, probes, web
from servsim.reproduce.brock_2001.kernels import Kernel
from servsim.reproduce.brock_2001.probes import DIRECT, SWITCH, Probes
from servsim.reproduce.brock_2001.web import Web
from servsim.reproduce.rows import Row

SERVSIM = Path(sys.executable).with_name("servsim")


@pytest.fixture(scope="module")
def measured() -> Probes:
    return Probes(None, lambda *_: None)


def test_a_chase_costs_what_the_description_adds_up_to(measured: Probes) -> None:
    # A line: its bus and memory, 44 + 32 / 2; a request of 16 B and a line of 48 B at 2 B a cycle; four hops or two.
    lines = probes.REGION_KIB * 1024 // probes.LINE
    local, request, data, bus = 60, 8, 24, 16
    for machine, way in ((DIRECT, 37), (SWITCH, 2 * 65)):
        whole = measured.cycles("chase", machine, 1, "remote") / lines
        # Beyond that there is the reference itself, and the look-up in the outer cache.
        assert way * 2 + local + request + data + bus <= whole <= way * 2 + local + request + data + bus + 4
    assert local <= measured.cycles("chase", SWITCH) / lines <= local + 4


def test_the_calibration_is_where_the_descriptions_say(measured: Probes) -> None:
    assert measured.ratio("chase", DIRECT) == pytest.approx(2.98, abs=0.005)
    assert measured.ratio("chase", SWITCH) == pytest.approx(6.00, abs=0.005)


def test_the_rows_of_the_probes_have_their_verdicts(measured: Probes) -> None:
    rows = {row.name: row for part in probes.PARTS for row in part(measured)}
    assert {name: row.verdict for name, row in rows.items()} == {
        "B1": "reproduced",
        "B2": "missed",
        "B3": "reproduced",
        "B8": "reproduced",
    }
    assert [part.what for part in rows["B2"].parts if not part.holds] == ["BwMemWr, the same"]
    assert "one store's miss" in rows["B2"].explanation
    assert rows["B8"].parts[0].ours == "5"


def test_a_probe_that_is_further_away_turns_its_row(measured: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Probes, "ratio", lambda _, probe, machine: 3.4 if machine == DIRECT else 6.7)
    row = next(iter(probes.PARTS[0](measured)))
    assert [part.holds for part in row.parts] == [False] * 4 + [True] * 3


def test_probes_touch_each_word_or_each_line_once() -> None:
    for probe, loads, stores in (("chase", 2048, 0), ("read", 16384, 0), ("write", 0, 16384), ("copy", 16384, 16384)):
        touched = list(probes.references(probe, 1))
        assert [sum(op == kind for op, _ in touched) for kind in "LS"] == [loads, stores]
        assert len(set(touched)) == len(touched)
    assert {at // 32 for _, at in probes.references("chase", 0)} == {at // 32 for _, at in probes.references("read", 0)}


def test_tables_2_and_3_agree_on_packets_and_disagree_on_the_gain_of_ocean() -> None:
    assert {finding.rule for finding in printed.findings()} == {"gain-by-two-tables"}
    ocean = printed.APPLICATIONS["Ocean"]
    assert ocean.orig.seconds / ocean.reorg.seconds == pytest.approx(2.22, abs=0.01)
    fft = printed.APPLICATIONS["3DFFT"]
    assert (fft.speedup(fft.orig), fft.speedup(fft.reorg)) == (
        pytest.approx(3.7, abs=0.05),
        pytest.approx(9.1, abs=0.05),
    )


def test_an_interrupted_study_tells_the_rows_that_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: Probes) -> Iterator[Row]:
        raise KeyboardInterrupt

    made = Row("B1", "made", "shape", False, ())
    monkeypatch.setattr(probes, "PARTS", (lambda _: [made], stopped))
    report = brock_2001.run()
    assert report.interrupted and [row.name for row in report.rows] == ["B1"]


def test_studies_of_one_trace_refuse_several() -> None:
    with pytest.raises(UsageError, match="du-2001 runs one trace, and 2 were given"):
        run("du-2001", traces=[Path(__file__), Path(__file__)])


def test_the_command_prints_every_row() -> None:
    done = subprocess.run([SERVSIM, "reproduce", "brock-2001", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == {f"B{number}" for number in range(1, 10)}
    for name in ("B4", "B5", "B6", "B7", "B9"):
        assert rows[name]["verdict"] == "waiting" and rows[name]["explanation"], name


def made_up(
    cycles: float, small: int = 60, large: int = 40, transactions: int = 50, use: float = 0.1
) -> dict[str, Any]:
    """Return a run over a switch, where each packet is counted on two links."""
    return {
        "cycles": cycles,
        "bus": {
            "read": transactions,
            "read_exclusive": 0,
            "invalidate": 0,
            "write": 0,
            "write_back": 0,
            "cache_to_cache": 0,
        },
        "nodes": {
            "request_packets": 2 * small,
            "data_packets": 2 * large,
            "messages": {"requests": small, "forwards": 0, "responses": large, "received": small + large},
        },
        "figures": {"nodes.link_utilization": use, "nodes.remote_share": 0.75, "idle_share": 0.25},
        "references": 3000,
        "references_by_kind": {kind: {"user": 1000, "kernel": 0} for kind in ("fetch", "load", "store")},
    }


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Kernel]:
    """Kernels of made-up runs with the paper's gains; the advisor says nothing of Barnes-Hut."""
    gain = {"3DFFT": 2.46, "Ocean": 2.22, "Barnes-Hut": 1.0}

    def simulate(trace: Path, machine: str, **options: Any) -> dict[str, Any]:
        # The first seed by itself, then the others.
        assert machine == SWITCH
        assert (options["seed"], options["replications"]) in ((kernels.MEASURED, 1), (kernels.MEASURED + 1, 2))
        # The last of two iterations, behind the first.
        assert (options["functional_warmup"], options["warmup"], options["transactions"]) == (1, 0, 1)
        text = options["placement"].read_text() if options["placement"] else ""
        cycles = 1000.0 / (gain[trace.stem] if text.startswith("advice") else 1.0)
        if "[[thread]]" in text:
            application = printed.APPLICATIONS[trace.stem]
            # All threads in turn take twice as long as the program on one thread.
            cycles = 1000 * application.speedup(application.orig) * (1 if trace.suffix == ".single" else 2)
        return {"replications": [made_up(cycles) for _ in range(options["replications"])]}

    def advise(trace: Path, machine: str, **options: Any) -> dict[str, Any]:
        assert options["replications"] == 0 and options["seed"] != kernels.MEASURED
        assert options["learnt"] == {"warmup": 0, "transactions": 1}, "never the measured iteration"
        advised = trace.stem != "Barnes-Hut"
        placement = "advice" if advised else None
        return {"predicted": {"gain": gain[trace.stem] - 1}, "advised": advised, "placement": placement}

    monkeypatch.setattr(kernels, "simulate", simulate)
    monkeypatch.setattr(kernels, "advise", advise)
    monkeypatch.setattr(kernels, "tasks_dealt", lambda _: ["kernel 1"])
    totals = {"transactions": 2, "instructions": 60, "data_references": 40}
    monkeypatch.setattr(kernels, "trace_info", lambda _: {"totals": totals})
    found = []
    for name, size in (("3DFFT", 64), ("Ocean", 130), ("Barnes-Hut", 4096)):
        trace = tmp_path / f"{name}.svt"
        trace.write_text(name)
        single = trace.with_suffix(".single")
        single.write_text(f"{name} on one thread")
        found.append(Kernel(name, trace, size, 3, None, lambda *_: None, single))
    return found


def test_caches_shrink_with_the_data(several: list[Kernel]) -> None:
    # Ocean has a sixteenth of the grid, and a fifth of the paper's grids.
    assert [kernel.factor for kernel in several] == [8, 64, 32]
    assert [kernel.overrides[2:] for kernel in several] == [
        ["l2.size=128 KiB", "cache.size=16 KiB"],
        ["l2.size=16 KiB", "cache.size=4 KiB"],
        ["l2.size=32 KiB", "cache.size=8 KiB"],
    ]


def test_packets_are_counted_once_though_they_take_two_links() -> None:
    assert kernels.by_size(made_up(1)) == (60, 40)
    assert kernels.per_transaction(made_up(1)) == 2.0


def test_gains_and_speedups_of_the_paper_are_reproduced_by_runs_that_have_them(several: list[Kernel]) -> None:
    rows = {row.name: row for row in kernels.rows(several)}
    assert rows["B6"].verdict == rows["B7"].verdict == "reproduced"
    order = rows["B6"].parts[-1]
    assert order.what == "order of gains" and order.ours.startswith("3DFFT 2.46")
    assert [part.holds for part in rows["B4"].parts] == [True, False, True, False, True, False]
    assert "Waits for traces of Water-spatial, FMM, Water-nsquared" in rows["B6"].explanation
    assert kernels.gains(several[2]) == [1.0] * 3, "without advice nothing is moved"


def test_the_run_of_a_quick_study_is_the_first_of_the_whole_one(
    several: list[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    whole = kernels.simulate

    def noted(*given: Any, **options: Any) -> dict[str, Any]:
        made.append((options["seed"], options["replications"]))
        return whole(*given, **options)

    monkeypatch.setattr(kernels, "simulate", noted)
    for count in (1, 3):
        assert len(replace(several[0], count=count, folder=tmp_path, known={}).orig()) == count
    assert made == [(kernels.MEASURED, 1), (kernels.MEASURED + 1, 2)]


def test_runs_tell_how_far_they_are_once_with_the_warm_up(
    several: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []

    def simulate(*_: Any, **options: Any) -> dict[str, Any]:
        # An iteration is 50 references: one warms, then there are as many measured ones as runs.
        for references in (25, 50, 50 + 50 * options["replications"]):
            options["progress"](references)
        return {"replications": [made_up(1)] * options["replications"]}

    monkeypatch.setattr(kernels, "simulate", simulate)
    replace(several[0], say=lambda _, share: shares.append(share)).orig()
    # Each begins with 0; the end of a run is what shows the last percent.
    assert shares == pytest.approx([0, 0.25, 0.5, 0.99, 0, 1 / 6, 1 / 3, 0.99])


def test_speedups_refer_to_one_thread_or_else_to_all_in_turn(several: list[Kernel]) -> None:
    fft = several[0]
    one_thread = fft.speedups(fft.orig())
    assert one_thread == pytest.approx([fft.printed.speedup(fft.printed.orig)] * 3)
    fft.single = None
    assert fft.speedups(fft.orig()) == pytest.approx([2 * one for one in one_thread])


def described(monkeypatch: pytest.MonkeyPatch, **settings: dict[str, str]) -> None:
    """Let traces, by name, tell these settings of their captures."""
    totals = {"transactions": 2, "instructions": 60, "data_references": 40}
    told = {
        name: {"meta": {"provenance": {"settings": one}}, "totals": totals, "tasks": []}
        for name, one in settings.items()
    }
    monkeypatch.setattr(kernels, "trace_info", lambda trace: told[trace.stem])


def test_a_trace_of_one_thread_goes_with_the_one_of_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    fft = {"kernel": "fft", "size": "64"}
    described(
        monkeypatch,
        many={**fft, "threads": "16"},
        one={**fft, "threads": "1"},
        larger={"kernel": "fft", "size": "128", "threads": "1"},
        four={**fft, "threads": "4"},
    )

    def paired(*names: str) -> list[Kernel]:
        return kernels.kernels([Path(f"{name}.svt") for name in names], True, None, lambda *_: None)

    assert [kernel.single for kernel in paired("many")] == [None]
    assert [(kernel.trace.stem, kernel.single) for kernel in paired("one", "many")] == [("many", Path("one.svt"))]
    for names, why in (
        (("one",), "one.svt runs on one thread"),
        (("many", "larger"), "larger.svt runs on one thread"),
        (("many", "many"), "a second trace of 3DFFT with 16 threads"),
        (("many", "one", "one"), "a second trace of 3DFFT with 1 threads"),
        (("four",), "with 16 threads or one"),
    ):
        with pytest.raises(UsageError, match=why):
            paired(*names)


def test_links_in_use_and_an_order_of_gains_turn_their_rows(
    several: list[Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "gains", lambda kernel: [3.0 if kernel.name == "Barnes-Hut" else 2.0])
    assert not next(row for row in kernels.rows(several) if row.name == "B6").parts[-1].holds
    monkeypatch.setattr(Kernel, "orig", lambda _: [made_up(1, use=0.19)])
    assert next(row for row in kernels.rows(several) if row.name == "B7").verdict == "missed"


#: Requests a second by nodes and processors of each, as the paper has them in words.
SERVED = {
    (1, 1): 100.0,
    (1, 2): 190.0,
    (1, 4): 200.0,
    (4, 1): 260.0,
    (2, 4): 380.0,
    (4, 2): 420.0,
    (3, 4): 480.0,
    (4, 4): 570.0,
}


def served(monkeypatch: pytest.MonkeyPatch, rates: dict[tuple[int, int], float]) -> Row:
    """Judge B9 by made-up runs that serve so much; each asks for the machine that has those nodes."""

    def simulate(trace: Path, machine: str, **options: Any) -> dict[str, Any]:
        assert machine == SWITCH and options["references"] == options["warmup"] == web.REFERENCES
        given = dict(setting.split("=", 1) for setting in options["overrides"])
        whole, count = int(given["processors"]), int(given.get("node.count", "4"))
        if given.get("interconnect.kind") == "bus":
            count = 1
            assert given["memory.bank_time"] == "16 cycles", "the rate of a node's memory"
        run = {
            "bus_utilization": 0.5,
            "processors": [{"user": 60, "idle": 40}],
            "figures": {"nodes.remote_share": 0.75} if count > 1 else {},
        }
        cycles = 350e6 * web.REFERENCES / 1000 / rates[count, whole // count]
        measured = {**run, "references": web.REFERENCES}
        replications = [{**measured, "cycles": cycles * (1 + seed / 1000)} for seed in range(3)]
        return {"replications": replications[: options["replications"]]}

    monkeypatch.setattr(web, "simulate", simulate)
    monkeypatch.setattr(web, "expected_references", lambda *_, **__: None)
    monkeypatch.setattr(web, "file_hash", lambda _: "hash")
    monkeypatch.setattr(web, "workload_of", lambda _: "staticweb")
    return web.row(Web(Path("web.svt"), 3, 1000.0, lambda *_: None, None))


def test_a_web_server_that_serves_what_the_paper_says_is_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    row = served(monkeypatch, SERVED)
    assert row.verdict == "reproduced", row
    for words in (
        "staticweb, 8 M references behind as many, 1,000 a request",
        "1 x 4 40, 50, 0; ",
        "4 x 4 40, 50, 75.",
    ):
        assert words in row.explanation


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({(1, 2): 99.0}, ["one node, requests a second", "one node, four processors to two"]),
        ({(1, 4): 220.0}, ["one node, four processors to two"]),
        ({(3, 4): 520.0}, ["what the third and the fourth node bring"]),
        ({(4, 4): 900.0}, ["four nodes to one", "what the third and the fourth node bring"]),
        ({(4, 1): 199.0}, ["4 processors, requests a second"]),
        ({(4, 2): 380.0}, ["8 processors, requests a second"]),
    ],
)
def test_each_part_of_the_web_row_can_turn_it(
    monkeypatch: pytest.MonkeyPatch, changed: dict[tuple[int, int], float], what: list[str]
) -> None:
    row = served(monkeypatch, SERVED | changed)
    assert [part.what for part in row.parts if not part.holds] == what


def test_one_web_server_stands_beside_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(web, "workload_of", lambda trace: trace.stem)
    two = [tmp_path / "staticweb.svt", tmp_path / "webmix.svt"]
    with pytest.raises(UsageError, match="brock-2001 runs one web server, and 2 were given"):
        brock_2001.run(traces=two)
    shipped = Path(str(files("servsim"))) / "data" / "quickstart.svt"
    monkeypatch.setattr(web, "REFERENCES", 10**9)
    with pytest.raises(UsageError, match="references, and 3000000000 are needed: capture more transactions"):
        web.web(shipped, True, lambda *_: None)


def test_a_trace_of_anything_else_is_refused_with_what_to_do() -> None:
    shipped = Path(str(files("servsim"))) / "data" / "quickstart.svt"
    done = subprocess.run(
        [SERVSIM, "reproduce", "brock-2001", "--trace", shipped], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "servsim capture kernels --set kernel=fft" in done.stderr, done.stderr
