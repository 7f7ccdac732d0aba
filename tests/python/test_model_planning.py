"""From measurements to a sized system: Prometheus exports, predictions with bands, sizing, forecasts, plots, guides."""

import json
import math
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from guides import check_guide
from servsim.cli import run
from servsim.errors import Saturated, UsageError
from servsim.model import Closed, Network, Open, Pool, Station, curve, fit, plot, prometheus_measurements, solve
from servsim.model.goals import Goal
from servsim.model.planning import cheapest, forecast, most, predict, with_load

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("planning-open.md", "planning-users.md")


def one_server(rate: float = 1.0, demand: float = 0.1) -> Network:
    return Network([Open("a", rate)], [Station("s", demand)])


def behind_a_lock(rate: float) -> Network:
    """A lock held for 100 ms: a server of ten requests a second that is no station."""
    lock = Pool("lock", 1, {"io": 0.1})
    return Network([Open("web", rate)], [Station("io", 0.1, kind="delay")], pools=[lock])


def shop() -> str:
    """Half an hour of samples of a shop: 3 % of two processors besides 16 ms of each a request, 20 ms of a disk."""
    draw = random.Random(3)
    lines = ["# TYPE http_requests_total counter"]
    requests = busy = idle = disk = 0.0
    for minute in range(31):
        at = 1000 * (1_700_000_000 + 60 * minute)
        lines += [
            f'http_requests_total{{route="/buy"}} {requests:.3f} {at}',
            f'node_cpu_seconds_total{{cpu="0",mode="user"}} {busy:.4f} {at}',
            f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle:.4f} {at}',
            f'node_disk_io_time_seconds_total{{device="sda"}} {disk:.4f} {at}',
            f"response_seconds {0.05 + 0.01 * draw.random():.5f} {at}",
        ]
        rate = 5 + 20 * draw.random()
        used = 2 * (0.03 + 0.016 * rate) * (1 + 0.02 * draw.gauss(0, 1))
        requests, busy, idle = requests + 60 * rate, busy + 60 * used, idle + 60 * (2 - used)
        disk += 60 * 0.02 * rate * (1 + 0.02 * draw.gauss(0, 1))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_prints_what_it_says(
    guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.prom").write_text(shop(), encoding="utf-8")
    assert check_guide(ROOT / "docs" / guide, monkeypatch, capsys) >= 4


def test_counters_become_rates_and_a_counter_that_began_anew_leaves_a_gap(tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    rows = [(0, 100.0, 10.0), (10, 200.0, 12.0), (20, 50.0, 14.0), (30, 150.0, 16.0)]
    lines = [
        f'req_total{{a="b,{{"}} {r} {t}\nbusy_total{{x="1"}} {b} {t}\nbusy_total{{x="2"}} {b} {t}' for t, r, b in rows
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    made = json.loads(prometheus_measurements(file, {"c": 'req_total{a="b,{"}'}, {"s": "busy_total"}, servers={"s": 2}))
    assert [s["throughput"] for s in made["sample"]] == [[10.0], [10.0]]
    assert [s["utilization"] for s in made["sample"]] == [[pytest.approx(0.2)]] * 2


def test_answers_of_range_queries_are_read_one_behind_the_other(tmp_path: Path) -> None:
    def query(name: str | None, rows: list[tuple[float, str]], **labels: str) -> str:
        metric = labels | ({"__name__": name} if name else {})
        return json.dumps(
            {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": metric, "values": rows}]}}
        )

    file = tmp_path / "a.json"
    values = [(60 * i, str(5.0 + i)) for i in range(6)]
    used = [(60 * i, str((5.0 + i) * 0.05)) for i in range(6)]
    file.write_text(query(None, values, job="web") + "\n" + query("busy", used), encoding="utf-8")
    found = fit(prometheus_measurements(file, {"all": '{job="web"}'}, {"cpu": "busy"}), is_json=True)
    assert found.data["demands"][0]["demand"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("text", "selector", "message"),
    [
        ("a 1 5\n", "b", "has no series for 'b'; it has a"),
        ("a 1\n", "a", "line 1: no sample with its time"),
        ("a x 5\n", "a", "'x' is no number"),
        ("a 1 5\n", "a{b", "selects no series"),
        ("a 1 5\n", "a{b~c}", "label="),
        ("", "a", "has no series"),
        ('{"status":"error","error":"bad"}', "a", "answered 'bad'"),
        ('{"data":{"resultType":"vector","result":[]}}', "a", "query_range"),
        ("[[[[1]]]]", "a", "no answer"),
        ("{", "a", "not JSON"),
        ("[" * 100_000, "a", "not JSON"),
        ("a 1 5\nu 1 6\n", "a", "no time in common"),
    ],
)
def test_an_export_that_is_not_understood_is_refused(text: str, selector: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.prom"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        prometheus_measurements(file, {"c": selector}, {"s": "u" if "u 1" in text else selector})


def test_the_largest_rate_is_that_of_the_formula() -> None:
    # One server: the mean is D / (1 - rate x D).
    found = most(one_server(), Goal.parse("mean <= 400 ms"))
    assert found["load"] == pytest.approx((1 - 0.1 / 0.4) / 0.1, rel=0.006)
    assert found["measured"] <= 0.4 < found["beyond"]
    assert most(one_server(rate=2000.0), Goal.parse("mean <= 400 ms"))["load"] == pytest.approx(7.5, rel=0.006)


def test_the_largest_number_of_users_is_the_last_that_keeps_the_goal() -> None:
    network = Network([Closed("u", 5, think=2.0)], [Station("a", 0.1), Station("b", 0.05)])
    goal = Goal.parse("mean<=300ms")
    assert goal == Goal.parse("mean <= 300 ms")
    found = most(network, goal)
    assert goal.met(with_load(network, found["load"]))[0]
    assert not goal.met(with_load(network, found["load"] + 1))[0]


def test_millions_of_users_are_found_in_a_few_steps_beyond_saturation() -> None:
    # Beyond saturation N users of a server of D seconds who think Z see N x D - Z.
    said: list[str] = []
    network = Network([Closed("u", 5, think=10.0)], [Station("cpu", 1e-6)])
    found = most(network, Goal.parse("mean <= 500 ms"), progress=lambda text, *_: said.append(text))
    assert abs(found["load"] - 10_500_000) <= 1
    assert found["measured"] <= 0.5 < found["beyond"]
    assert len(said) < 24 + 12, "as many as powers of two below, and a few"


def test_a_simulation_reaches_its_bound_on_visits_in_a_few_runs() -> None:
    # Users who think for long make many visits before anything is measured, which the bound counts too.
    delay, pool = Station("disk", 0.001, kind="delay"), Pool("pool", 2, {"disk": 0.0005})
    lengths: set[float] = set()
    solution = solve(
        Network([Closed("u", 42_000, think=10.0)], [delay], [pool]), progress=lambda length, _: lengths.add(length)
    )
    assert any("the widest interval is" in note for note in solution.notes)
    assert len(lengths) <= 8


def test_users_that_are_simulated_are_left_off_near_the_largest_number() -> None:
    said: list[str] = []
    network = Network([Closed("u", 5, think=10.0)], [Station("cpu", 0.001, discipline="fcfs", cv=0.5)])
    found = most(network, Goal.parse("mean <= 500 ms"), progress=lambda text, *_: said.append(text))
    # 10,500 by the line beyond saturation; to a user it took 29 steps.
    assert 0.99 * 10_500 < found["load_low"] <= found["load"] <= found["load_high"] < 1.01 * 10_500
    assert found["beyond"] > 0.5 and len(said) <= 24


def test_a_load_that_is_simulated_has_an_interval_which_holds_the_exact_one() -> None:
    disk = Station("disk", 0.1, discipline="fcfs")
    network, goal = Network([Closed("users", 10, think=2.0)], [disk]), Goal.parse("p95 <= 1.5 s")
    exact, simulated = most(network, goal), most(network, goal, "simulation")
    assert "load_low" not in exact
    assert simulated["load_low"] <= exact["load"] <= simulated["load_high"]
    assert simulated["load_low"] <= simulated["load"] <= simulated["load_high"] < 1.1 * exact["load"]
    for load, said in ((simulated["load_low"], True), (simulated["load_high"] + 1, False)):
        answer = goal.answer(with_load(network, load), "simulation")
        assert (answer.met, answer.certain) == (said, True)
    today = with_load(network, 20.0)
    just_met = Goal(goal.answer(today, "simulation").has, percentile=95)
    rows = forecast(today, just_met, 0.5, 1, "simulation")
    assert [(row["met"], row["certain"]) for row in rows] == [(True, False), (False, True)]
    assert all(row["certain"] for row in forecast(today, goal, 0.5, 1))


def test_the_cheapest_servers_are_those_of_trying_all() -> None:
    network = replace(one_server(rate=30.0), stations=[Station("a", 0.1), Station("b", 0.06)])
    goal, price = Goal.parse("mean <= 200 ms"), {"a": 3.0, "b": 2.0}
    found = cheapest(network, goal, price, up_to=6)
    tried = {}
    for a in range(1, 7):
        for b in range(1, 7):
            chosen = replace(network, stations=[Station("a", 0.1, servers=a), Station("b", 0.06, servers=b)])
            if goal.met(chosen)[0]:
                tried[3.0 * (a - 1) + 2.0 * (b - 1)] = {"a": a, "b": b}
    assert found[0]["cost"] == min(tried) and found[0]["servers"] == tried[min(tried)]
    with pytest.raises(UsageError, match="the best is"):
        cheapest(network, Goal.parse("mean <= 10 ms"), price, up_to=6)


def test_every_answer_of_a_plan_says_who_gave_it_and_what_it_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The lattice is too large to be solved exactly at each step, and an approximation is near where nothing is busy.
    users = [Closed(name, 150, think=think) for name, think in (("a", 20.0), ("b", 25.0), ("c", 30.0))]
    demands = ({"a": 0.02, "b": 0.03, "c": 0.01}, {"a": 0.02, "b": 0.01, "c": 0.03})
    crowd = Network(users, [Station("cpu", demands[0]), Station("disk", demands[1])])
    goal = Goal.parse("mean <= 200 ms")
    few, many = forecast(crowd, goal, 9.0, 1)
    assert few["by"].startswith("linearizer (approximate: in 97 of 100 models (single servers, crowd, busiest below")
    assert "busiest above 99 %" in many["by"]
    assert predict(crowd, [60.0])["by"] == ["mva (exact)"]
    assert [choice["by"] for choice in cheapest(one_server(rate=5.0), goal, {"s": 1.0})] == ["mva (exact)"]
    file = tmp_path / "one.toml"
    file.write_text(one_server(rate=5.0).to_toml(), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["servsim", "model", "size", str(file), "--goal", "mean <= 400 ms"])
    assert run() == 0 and "note: by mva (exact)" in capsys.readouterr().err
    assert forecast(one_server(rate=5.0), Goal.parse("mean <= 1 s"), 3.0, 1)[1]["by"] is None


def test_a_forecast_ends_where_the_load_cannot_be_borne() -> None:
    rows = forecast(one_server(rate=5.0), Goal.parse("mean <= 1 s"), 0.25, 12)
    assert [r["met"] for r in rows] == [True, True, True, False, False]
    assert rows[-1]["measured"] == math.inf
    assert rows[2]["measured"] == pytest.approx(0.1 / (1 - 0.5 * 1.25**2))


def test_bands_carry_the_intervals_of_demands() -> None:
    spread = {"station": "s", "class": "a", "demand": 0.1, "low": 0.1 - 0.00196, "high": 0.1 + 0.00196, "note": ""}
    fitted = fit('{"classes":["a"],"stations":["s"],"sample":[{"throughput":[1],"utilization":[0.1]}]}', is_json=True)
    fitted.data["demands"] = [spread]
    columns = predict(one_server(), [8.0], fitted)
    for end, demand in (("response_low", 0.1 - 0.00196), ("response_high", 0.1 + 0.00196)):
        # The 2.5th percentile of 200 draws has a standard deviation of a fifth of that of the demand.
        low, high = demand - 0.0006, demand + 0.0006
        assert low / (1 - 8 * low) <= columns[end][0] <= high / (1 - 8 * high)
    assert columns["response"] == [pytest.approx(0.5)]


def test_curves_of_several_classes_have_no_teeth() -> None:
    network = Network([Closed("a", 7, think=1.0), Closed("b", 3, think=3.0)], [Station("s", {"a": 0.1, "b": 0.4})])
    found = curve(network, list(range(1, 21)))
    assert found["response"] == sorted(found["response"])
    whole = solve(network)
    assert found["throughput"][9] == pytest.approx(whole.throughput)
    assert found["response"][9] == pytest.approx(whole.response)
    assert set(found["solver"]) == {"mva"}


def test_what_has_no_bound_is_null_in_json(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(one_server().to_toml())
    command = [Path(sys.executable).with_name("servsim"), "model", "size", tmp_path / "m.toml", "--json"]
    done = subprocess.run([*command, "--goal", "mean <= 1000 s"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["beyond"] is None and found["load"] > 0.0


def test_a_curve_begins_with_nobody_and_needs_somebody() -> None:
    for users in ([Closed("a", 2, think=1.0)], [Closed("a", 1, think=1.0), Closed("b", 1, think=1.0)]):
        found = curve(Network(users, [Station("s", 0.1)]), [0, 2])
        assert found["throughput"][0] == 0.0 and found["response"][0] is None
        assert found["throughput"][1] == pytest.approx(2 / 1.10909, rel=1e-4)
        nobody = [replace(one, population=0) for one in users]
        with pytest.raises(UsageError, match="give a class a population of at least 1"):
            curve(Network(nobody, [Station("s", 0.1)]), [2])


@pytest.mark.parametrize("network", [one_server(), Network([Closed("a", 4, think=1.0)], [Station("s", 0.5)])])
def test_a_plot_names_its_solver_and_bounds_and_is_a_png_when_that_is_asked_for(
    network: Network, tmp_path: Path
) -> None:
    plot(network, tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "response (seconds)" in svg and (">bounds<" in svg) is isinstance(network.classes[0], Closed)
    assert f"utilisation ({solve(network).solver})" in svg
    image = pytest.importorskip("PIL.Image")
    plot(network, tmp_path / "a.png")
    with image.open(tmp_path / "a.png") as found:
        assert found.format == "PNG" and found.size == (2160, 560)
        assert {(31, 95, 168), (74, 144, 194)} <= {colour for _, colour in found.getcolors(1 << 20)}
    with pytest.raises(UsageError, match=r"\.gif is neither"):
        plot(network, tmp_path / "a.gif")


def test_an_answer_is_a_table_in_notebooks_and_as_csv() -> None:
    network = Network([Closed("<b>", 4, think=1.0)], [Station("s", 0.5)])
    solution = solve(network)
    assert "<table>" in solution._repr_html_() and "&lt;b&gt;" in solution._repr_html_()
    assert "<th>p50_s</th>" not in solution._repr_html_()
    tails = solve(Network([Closed("u", 4, 1.0)], [Station("cpu", 0.2)]), percentiles=[50, 99])
    shown = [f"{value:.5g}" for _, value in tails.data["classes"][0]["percentiles"]]
    assert f"<td>{shown[0]}</td><td>{shown[1]}</td></tr>" in tails._repr_html_()
    head, row = solution.to_csv().splitlines()
    assert head == "station,class,utilization,queue,residence_s" and row.startswith("s,<b>,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["size", "m.toml", "--goal", "p95 < 1"], "is no goal"),
        (["size", "m.toml", "--goal", "p0 <= 1 s"], "is no goal"),
        (["size", "m.toml", "--goal", "mean <= 1 s", "--cost", "t=1"], "there is no station 't'"),
        (["size", "m.toml", "--goal", "mean <= 1 s", "--cost", "s"], "NAME=VALUE"),
        (["size", "m.toml", "--goal", "mean <= 1 ms"], "even hardly any load"),
        (["predict", "m.toml", "--load", "5"], "FIRST:LAST"),
        (["predict", "m.toml", "--load", "5:1"], "the larger last"),
        (["forecast", "m.toml", "--goal", "mean <= 1 s", "--growth", "-100"], "above -100 % and at most"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(one_server().to_toml(), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["servsim", "model", *words])
    assert run() == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_goal_is_missed_where_a_simulated_model_is_saturated() -> None:
    goal = Goal.parse("mean <= 1 s")
    assert goal.met(behind_a_lock(5.0))[0]
    for rate in (9.97, 12.0):  # too near saturation to be simulated unasked, and beyond it
        assert goal.met(behind_a_lock(rate)) == (False, math.inf)
    with pytest.raises(Saturated, match="does not keep up"):
        solve(behind_a_lock(12.0))


def test_a_percentile_is_missed_where_it_takes_too_long_to_simulate() -> None:
    goal = Goal.parse("p90 <= 2 s")
    # Exact in the mean, which is 50 s; the percentile would take 40 million requests.
    assert goal.met(Network([Open("a", 0.998), Open("b", 0.001)], [Station("s", 1.0, cv=4.0)])) == (False, math.inf)
    # With one user in all, one of the classes has nobody.
    two = Network([Closed("a", 2), Closed("b", 2)], [Station("s", {"a": 0.1, "b": 0.2})])
    met, has = goal.met(with_load(replace(two, classes=[Closed("a", 1), Closed("b", 0)]), 1.0))
    assert met and has == pytest.approx(0.1 * math.log(10.0), rel=0.05)


def test_what_is_lost_counts_in_what_a_simulation_takes() -> None:
    trunk = Station("trunk", 0.25, servers=2, capacity=4, when_full="lose", cv=0.5)
    lost = solve(Network([Open("calls", 1e9)], [trunk]), percentiles=[90])  # took a day: of 10^8 calls one is served
    assert lost.percentiles() == {}
    assert "find no room" in lost.notes[-1]
    with pytest.raises(UsageError, match="finds no room is lost"):
        most(Network([Open("calls", 1.0)], [trunk]), Goal.parse("mean <= 2 s"))
    # A pilot run that took what is lost for what is served ended too soon, and the model was taken for saturated.
    line = [Station(name, 0.1, capacity=2, when_full="lose", cv=0.5) for name in "ab"]
    full = solve(Network([Open("calls", 2000.0)], line), requests=2000).data["classes"][0]
    assert full["loss"] > 0.99 and full["loss_interval"]["high"] < 1.0
    assert full["throughput"] < 10.0


def test_the_busiest_may_be_a_lock(tmp_path: Path) -> None:
    network = behind_a_lock(5.0)
    told: list[tuple[object, ...]] = []
    columns = predict(network, [5.0], progress=lambda *what: told.append(what))
    assert columns["utilization"][0] == pytest.approx(0.5, abs=0.01)
    assert told == [("solving at 5", 0.0)]
    plot(network, tmp_path / "lock.svg")  # by the load of stations alone it went on to billions of requests a second
    text = (tmp_path / "lock.svg").read_text(encoding="utf-8")
    assert "lock: 50" in text or "lock: 49" in text
    axis = [float(x) for x in re.findall(r">(\d+)</text>", text)]
    assert max(axis) <= 10.0


def test_how_far_a_simulation_is_can_be_seen() -> None:
    told: list[tuple[float, float]] = []
    solve(behind_a_lock(5.0), requests=200_000, progress=lambda *far: told.append(far))
    assert told
    assert all(requests >= 1.0 and 0.0 <= done <= 1.0 for requests, done in told)
    assert max(done for _, done in told) > 0.3


def test_users_of_several_classes_sum_to_the_load() -> None:
    three = Network([Closed(name, 5) for name in "abc"], [Station("s", 0.1)])
    for load in range(1, 40):
        users = [c.population for c in with_load(three, load).classes if isinstance(c, Closed)]
        assert sum(users) == load and max(users) - min(users) <= 1
    # Half a user of each class was nobody at all.
    found = most(Network([Closed("a", 5), Closed("b", 5)], [Station("s", 0.1)]), Goal.parse("mean <= 150 ms"))
    assert (found["load"], found["measured"], found["beyond"]) == pytest.approx((1.0, 0.1, 0.2))


def test_a_forecast_tells_the_users_that_it_solved() -> None:
    network = Network([Closed("users", 10, think=1.0)], [Station("s", 0.01)])
    assert [row["load"] for row in forecast(network, Goal.parse("mean <= 1 s"), 0.13, 2)] == [10, 11, 13]


def test_a_prediction_ends_where_the_model_is_saturated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(one_server(), [5.0, 9.0, 11.0, 12.0])["load"] == [5.0, 9.0]
    with pytest.raises(Saturated, match="unstable"):
        predict(one_server(), [11.0, 12.0])
    (tmp_path / "m.toml").write_text(one_server().to_toml(), encoding="utf-8")
    command = ["servsim", "model", "predict", str(tmp_path / "m.toml"), "--load", "8:11:4"]
    monkeypatch.setattr(sys, "argv", [*command, "--plot", str(tmp_path / "p.svg")])
    assert run() == 0
    printed = capsys.readouterr()
    assert "from 10 on the model is saturated" in printed.err
    assert "500 ms" in printed.out and "1 s" in printed.out
    monkeypatch.setattr(sys, "argv", [*command, "--json"])
    assert run() == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["saturated"] == [10.0, 11.0] and answer["points"]["load"] == [8.0, 9.0]
