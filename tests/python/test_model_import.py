"""Models of JMT and of layered queueing networks: read as they are meant, answered as those tools print, or refused.

The files are written here, from the figures of the examples that come with JMT, the LQN solvers and LINE.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from jmt_files import (
    RANDOM,
    exponential,
    jmva,
    jsim,
    law,
    open_station,
    probabilities,
    queue,
    router,
    server,
    switch,
    value,
)
from servsim.cli import run
from servsim.errors import UsageError
from servsim.model import Network, Solution, solve
from servsim.model.importing import read


def servsim(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["servsim", "model", *words])
    return run()


def present(solution: Solution, station: str) -> list[float]:
    return next(s["queue"] for s in solution.data["stations"] if s["name"] == station)


def imported(path: Path, text: str, name: str) -> Network:
    file = path / name
    file.write_text(text, encoding="utf-8")
    return read(file).network


def answer(path: Path, text: str, name: str) -> Solution:
    return solve(imported(path, text, name))


# Ten examples of other tools, and what these tools print for them.


def test_jmva_with_two_classes_at_six_stations_as_jmt_prints_it(tmp_path: Path) -> None:
    both = {"Users": ("delaystation", {"c1": (2.0, 1.0), "c2": (5.0, 1.0)})}
    rows = {"WS": (0.04, 0.01, 6), "DB": (0.001, 0.002, 12), "d1": (0.005, 0.005, 3), "d2": (0.004, 0.004, 4)}
    rows["d3"] = (0.004, 0.004, 6)
    for name, (a, b, visits) in rows.items():
        # The example's visits to the last two disks were doubled after JMT had answered.
        seen = {"d2": 2, "d3": 3}.get(name, visits)
        both[name] = ("listation", {"c1": (a, seen), "c2": (b, seen)})
    kinds = {"c1": 'closedclass population="20"', "c2": 'closedclass population="50"'}
    found = answer(tmp_path, jmva(kinds, both, "Users"), "complex.jmva")
    assert found.solver == "mva"
    assert found.classes()["throughput_per_s"] == pytest.approx([2.320122772829486, 7.38617536578876], rel=1e-3)
    assert present(found, "WS") == pytest.approx([15.232212690164783, 12.553289819011217], rel=2e-3)


def test_jmva_where_a_class_only_queues_as_jmt_prints_it(tmp_path: Path) -> None:
    stations = {
        "S1": ("delaystation", {"C1": (8.0, 1.0), "C2": (0.0, 0.0)}),
        "S2": ("listation", {"C1": (1.0, 1.0), "C2": (1.0, 1.0)}),
    }
    kinds = {"C1": 'closedclass population="8"', "C2": 'closedclass population="1"'}
    found = answer(tmp_path, jmva(kinds, stations, "S2"), "two.jmva")
    assert found.classes()["throughput_per_s"] == pytest.approx([0.6533269282651051, 0.346673071734895], rel=1e-9)
    assert present(found, "S1")[0] == pytest.approx(5.226615426120841, rel=1e-9)


def test_jmva_with_visits_below_one_as_qnsolver_prints_it(tmp_path: Path) -> None:
    stations = {
        "Delay": ("delaystation", {"Chain01": (1.0, 1.0), "Chain02": (0.4, 1.0)}),
        "Queue1": ("listation", {"Chain01": (1.3333, 1.0), "Chain02": (0.46, 0.83333)}),
        "Queue2": ("delaystation", {"Chain01": (0.0, 0.0), "Chain02": (2.0, 0.16667)}),
    }
    kinds = {"Chain01": 'closedclass population="4"', "Chain02": 'closedclass population="3"'}
    found = answer(tmp_path, jmva(kinds, stations, "Delay"), "multi.jmva")
    # Three servers for .33 customers: nobody waits there, as its own answer of 2.000 s says.
    assert found.classes()["throughput_per_s"] == pytest.approx([0.4626, 0.9995], rel=2e-3)
    assert found.utilization["Queue1"] == pytest.approx(0.9999, rel=1e-3)


def test_jsim_with_coxian_times_as_jmt_prints_it(tmp_path: Path) -> None:
    coxian = law("CoxianDistr", value("lambda0", 4.0) + value("lambda1", 0.5) + value("phi0", 0.875))
    found = answer(tmp_path, open_station(exponential(1.0), queue(["a"]) + server({"a": coxian})), "mg1.jsimg")
    assert found.solver == "station"
    assert 1.726274562821375 < found.response < 1.7692387911910532
    assert 0.4982099648640654 < found.utilization["Q"] < 0.5023002043316466
    assert 1.7035889017243233 < sum(present(found, "Q")) < 1.7680235903212675


def test_jsim_with_a_finite_queue_as_jmt_prints_it(tmp_path: Path) -> None:
    text = open_station(exponential(9.0), queue(["a"], size=11) + server({"a": exponential(10.0)}))
    found = answer(tmp_path, text, "mm1k.jsimg")
    assert found.accuracy == "exact"
    assert 4.246545196257332 < sum(present(found, "Q")) < 4.333343026937761
    assert found.classes()["loss"][0] == pytest.approx(0.1 * 0.9**11 / (1 - 0.9**12), rel=1e-9)


def test_jsim_with_a_delay_and_a_shared_queue_as_jmt_prints_it(tmp_path: Path) -> None:
    nodes = {
        "D": queue(["a"]) + server({"a": exponential(1.0)}, "Delay") + router({"a": RANDOM}),
        "Q": queue(["a"]) + server({"a": exponential(1.0)}, "PSServer") + router({"a": RANDOM}),
    }
    user = '<userClass customers="5" name="a" priority="0" referenceSource="D" type="closed"/>'
    found = answer(tmp_path, jsim(user, nodes, [("D", "Q"), ("Q", "D")]), "closed.jsimg")
    assert found.accuracy == "exact"
    assert 0.9847776636754685 < found.utilization["Q"] < 1.0


def switching() -> str:
    both = ["Class1", "Class2"]
    out = {
        "Class1": probabilities({"I/O 2": 0.7, "I/O 3": 0.2, "1-2": 0.1, "2-1": 0.0}),
        "Class2": probabilities({"I/O 2": 0.3, "I/O 3": 0.5, "1-2": 0.0, "2-1": 0.2}),
    }
    back = dict.fromkeys(both, probabilities({"CPU 1": 1.0}))

    def shared(first: float, second: float, routes: dict[str, str]) -> str:
        laws = {"Class1": exponential(first), "Class2": exponential(second)}
        return queue(both) + server(laws, "PSServer") + router(routes)

    nodes = {
        "CPU 1": shared(100.0, 20.0, out),
        "I/O 2": shared(1 / 0.07, 1 / 0.07, back),
        "I/O 3": shared(10.0, 10.0, back),
        "1-2": queue(both) + switch({c: {"Class1": 0.0, "Class2": 1.0} for c in both}) + router(back),
        "2-1": queue(both) + switch({c: {"Class1": 1.0, "Class2": 0.0} for c in both}) + router(back),
    }
    users = "".join(
        f'<userClass customers="{n}" name="{c}" priority="0" referenceSource="CPU 1" type="closed"/>'
        for c, n in zip(both, (3, 0), strict=True)
    )
    return jsim(users, nodes, [(a, b) for a in nodes for b in nodes if a != b])


def test_jsim_with_class_switching_as_jmt_prints_it(tmp_path: Path) -> None:
    found = answer(tmp_path, switching(), "switch.jsimg")
    assert found.accuracy == "exact"
    # .1836 [.1815, .1858] of the first class, .4635 of the second.
    assert sum(present(found, "CPU 1")) == pytest.approx(0.1836152033838797 + 0.4634515867346479, rel=0.01)


LAYERS_IN_TEXT = """
G "" 1e-05 50 10 0.9 -1
P 4
  p Users i
  p CPU s 0
  p Disk1 s 0   # shared
  p Disk2 s 0
-1
T 4
  t Users r think -1 Users m 3
  t CPU f run -1 CPU
  t Disk1 f one -1 Disk1
  t Disk2 f two -1 Disk2
-1
E 4
  s think 15 -1
  y think run 121 -1
  y think one 70 -1
  y think two 50 -1
  s run 0.005 -1
  s one 0.03 -1
  s two 0.027 -1
-1
"""


def test_layers_in_text_as_the_lqn_tools_print_them(tmp_path: Path) -> None:
    found = answer(tmp_path, LAYERS_IN_TEXT, "one.lqn")
    assert found.accuracy == "exact"
    assert found.throughput == pytest.approx(0.1515, abs=5e-5)
    assert [round(found.utilization[d], 4) for d in ("Disk1", "Disk2", "CPU")] == [0.3182, 0.2045, 0.0917]
    assert [round(sum(present(found, d)), 4) for d in ("Disk1", "Disk2", "CPU")] == [0.3947, 0.2350, 0.0976]


SERIES = """<lqn-model name="series"><processor name="P1" scheduling="ps">
<task name="T1" scheduling="ref" multiplicity="10" think-time="100"><entry name="E1" type="NONE"/><task-activities>
<activity name="A1" bound-to-entry="E1" host-demand-mean="1.6"/>
<activity name="A2"><synch-call dest="E2" calls-mean="1"/></activity>
<precedence><pre><activity name="A1"/></pre><post><activity name="A2"/></post></precedence>
</task-activities></task></processor>
<processor name="P2" scheduling="ps"><task name="T2"><entry name="E2" type="NONE"/><task-activities>
<activity name="A3" bound-to-entry="E2" host-demand-mean="5"/><activity name="A4" host-demand-mean="1"/>
<precedence><pre><activity name="A3"/></pre><post><activity name="A4"/></post></precedence>
<reply-entry name="E2"><reply-activity name="A4"/></reply-entry></task-activities></task></processor></lqn-model>"""


def test_activities_in_series_as_line_prints_them(tmp_path: Path) -> None:
    found = answer(tmp_path, SERIES, "series.lqnx")
    # LINE approximates the layers: .088267; this model is of product form, and answered exactly.
    assert found.throughput == pytest.approx(0.088267, rel=0.01)
    assert found.accuracy == "exact"


TWO_TASKS = """<lqn-model name="two"><processor name="P1" scheduling="ps">
<task name="T1" scheduling="ref" multiplicity="100" think-time="10"><entry name="E1" type="PH1PH2">
<entry-phase-activities><activity name="A1" phase="1" host-demand-mean="1"><synch-call dest="E2" calls-mean="1"/>
<synch-call dest="E3" calls-mean="1"/></activity></entry-phase-activities></entry></task></processor>
<processor name="P2" scheduling="ps"><task name="T2" scheduling="inf"><entry name="E2" type="PH1PH2">
<entry-phase-activities><activity name="A2" phase="1" host-demand-mean="3"/></entry-phase-activities></entry>
<entry name="E3" type="PH1PH2">
<entry-phase-activities><activity name="A3" phase="1" host-demand-mean="1"/></entry-phase-activities></entry>
</task></processor></lqn-model>"""


def test_two_entries_of_a_task_as_line_prints_them(tmp_path: Path) -> None:
    found = answer(tmp_path, TWO_TASKS, "two.lqnx")
    assert found.throughput == pytest.approx(0.25, rel=1e-3)
    assert found.utilization == pytest.approx({"P1": 0.25, "P2": 1.0}, rel=1e-3)


THREADS = """
P 0
 p UserP i
 p WebP s
 p DbP f
-1
T 0
 t Users r think -1 UserP z 5 m 10
 t Web n page -1 WebP m 4
 t Db n query -1 DbP
-1
E 0
 y think page 1 -1
 s page 0.2 0 -1
 y page query 3 0 -1
 s query 0.1 -1
-1
"""


def test_threads_become_a_pool_that_is_held_while_the_database_works(tmp_path: Path) -> None:
    network = imported(tmp_path, THREADS, "threads.lqn")
    (pool,) = network.pools
    assert (pool.name, pool.size) == ("Web", 4)
    assert pool.holds == {"WebP": {"Users": 0.2}, "DbP": {"Users": pytest.approx(0.3)}}
    described = """
        [[class]]
        name = "Users"
        population = 10
        think = "5 s"
        [[station]]
        name = "WebP"
        demand = "200 ms"
        [[station]]
        name = "DbP"
        discipline = "fcfs"
        demand = "300 ms"
        [[pool]]
        name = "Web"
        size = 4
        stations = ["WebP", "DbP"]
    """
    assert solve(network).throughput == pytest.approx(solve(Network.from_toml(described)).throughput, rel=1e-12)


@pytest.mark.parametrize("text", [LAYERS_IN_TEXT, THREADS, SERIES, TWO_TASKS, switching()])
def test_an_imported_model_written_as_toml_has_the_same_answer(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = ("m.jsimg" if "<archive" in text else "m.lqnx") if text.startswith("<") else "m.lqn"
    network = imported(tmp_path, text, name)
    out = tmp_path / "model.toml"
    assert servsim(monkeypatch, "import", str(tmp_path / name), "-o", str(out)) == 0
    again = Network.from_file(out)
    for a, b in zip(solve(again).data["classes"], solve(network).data["classes"], strict=True):
        assert a["throughput"] == pytest.approx(b["throughput"], rel=1e-9)
        assert a["response"] == pytest.approx(b["response"], rel=1e-9)
    capsys.readouterr()
    assert servsim(monkeypatch, "solve", str(tmp_path / name), "--json", "--percentile", "50") == 0
    printed = json.loads(capsys.readouterr().out)["classes"][0]
    assert printed["throughput"] == pytest.approx(solve(network).data["classes"][0]["throughput"])


# What is refused: with the line, what it is, and what to do; exit code 2.

BOMB = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><model>&c;</model>'
REFUSED = {
    "bomb.jmva": (BOMB, "line 1", "document type"),
    "outside.jmva": ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><model/>', "line 1", "document type"),
    "deep.jmva": ("<a>" * 5000 + "</a>" * 5000, "line 1", "nested"),
    "cut.jmva": ("<model><parameters>", "line 1", "not XML"),
    "bytes.jmva": ("<?xml version='1.0' encoding='nonsense'?><model/>", "line 1", "not XML"),
    "empty.lqn": ("", "line 1", "empty"),
    "other.xml": ("<html/>", "line 1", "<html>"),
    "end.lqn": ("P 0\n p cpu f\n", "line 2", "ends in the middle"),
    "forward.lqn": (THREADS.replace(" y page query 3 0 -1", " F page query 0.5 -1"), "line 15", "forwards"),
    "second.lqn": (THREADS.replace("0.2 0", "0.2 0.1"), "line 9", "second phase"),
    "parameter.lqn": (THREADS.replace("0.2 0", "$x 0"), "line 14", "$x"),
    "circle.lqn": (THREADS.replace(" s query 0.1 -1", " y query page 1 -1"), "line 9", "calls itself"),
    "nobody.lqn": (THREADS.replace("page query", "page nothing"), "line 9", "'nothing'"),
    "number.lqnx": (SERIES.replace('multiplicity="10"', 'multiplicity="ten"'), "line 2", "'ten'"),
    "count.lqnx": (SERIES.replace('multiplicity="10"', 'multiplicity="2.5"'), "line 2", "whole number"),
    "async.lqnx": (SERIES.replace("synch-call", "asynch-call"), "line 4", "<asynch-call>"),
    "round.jsimg": (switching().replace("EmpiricalStrategy", "RoundRobinStrategy"), "line 4", "RoundRobinStrategy"),
    "fork.jsimg": (switching().replace('className="ClassSwitch"', 'className="Fork"'), "line 7", "[[fork]]"),
    "region.jsimg": (switching().replace("<sim>", "<sim><blockingRegion/>"), "line 2", "capacity"),
    "law.jsimg": (switching().replace("random.Exponential", "random.MMPP2"), "line 4", "MMPP2"),
    "rate.jsimg": (switching().replace(">100.0<", ">0<"), "line 4", "mean"),
    "lost.jsimg": (switching().replace("<value>-1</value>", "<value>2</value>"), "line 2", "drops"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_counterpart_is_refused_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line, word = REFUSED[name]
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as found:
        solve(read(file).network)
    message = str(found.value)
    assert line in message and word in message and "; " in message and "\n" not in message, message
    for command in ("solve", "import"):
        assert servsim(monkeypatch, command, str(file)) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_changed_network_is_described_anew_and_an_unchanged_one_as_it_stood() -> None:
    text = '[[class]]  # users\nname = "u"\npopulation = 3\nthink = "1 s"\n[[station]]\nname = "s"\ndemand = "2 s"\n'
    network = Network.from_toml(text)
    assert network.to_toml() == text
    assert [s.name for s in network.stations] == ["s"]
    more = replace(network, classes=[replace(network.classes[0], population=1)])
    assert solve(more).throughput == pytest.approx(1 / 3)
    assert "population = 1" in more.to_toml() and 'demands = { u = "2 s" }' in more.to_toml()
