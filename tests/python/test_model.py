"""Queueing models through the Python API and the command line."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from servsim.errors import CheckFailed, UsageError
from servsim.model import (
    Closed,
    Fork,
    Network,
    Open,
    Pool,
    Route,
    Station,
    allocate,
    bounds,
    curve,
    fit,
    sensitivity,
    solve,
    solvers,
    sweep,
    what_if,
)

SERVSIM = Path(sys.executable).with_name("servsim")
EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *arguments], capture_output=True, text=True, check=False)


def lazowska() -> Network:
    stations = [Station("cpu", 0.605), Station("disk a", 2.1), Station("disk b", 1.35)]
    return Network([Closed("users", 3, think=15.0)], stations)


def test_the_textbook_network_gives_its_printed_throughput() -> None:
    assert solve(lazowska()).throughput == pytest.approx(0.151516, abs=1e-6)


def test_columns_and_records_hold_the_same_figures() -> None:
    solution = solve(lazowska())
    columns, records = solution.columns(), solution.records()
    assert list(columns) == ["station", "class", "utilization", "queue", "residence_s"]
    assert isinstance(records, np.recarray)
    assert records.queue.sum() + solution.throughput * 15.0 == pytest.approx(3.0)
    assert list(records.station) == columns["station"]


def test_percentiles_rise_and_bracket_the_mean() -> None:
    solution = solve(lazowska(), percentiles=[1, 50, 99])
    values = list(solution.percentiles().values())
    assert values == sorted(values)
    assert values[0] < solution.response < values[2]


def test_percentiles_say_where_requests_are_presumed_to_share_a_server() -> None:
    def office(discipline: str) -> Network:
        stations = [Station("cpu", 0.08), Station("disk", 0.12, discipline=discipline), Station("log", 0.002)]
        return Network([Closed("users", 40, think=5.0)], stations)

    shared, in_turn = (solve(office(discipline), percentiles=[99]) for discipline in ("ps", "fcfs"))
    assert "requests share `cpu`, `disk` (" in shared.presumed[0]
    assert "requests share `cpu` (" in in_turn.presumed[1]
    assert shared.response == pytest.approx(in_turn.response)
    assert shared.percentiles()[99] > 1.4 * in_turn.percentiles()[99]
    simulated = solve(office("ps"), "simulation", percentiles=[99])
    assert simulated.presumed == shared.presumed
    assert solve(office("ps")).presumed == []


def test_figures_say_where_service_times_are_presumed_to_be_exponential() -> None:
    def office(cv: float | None, load: float = 8.0) -> Network:
        return Network([Open("requests", load)], [Station("disk", 0.1, discipline="fcfs", cv=cv)])

    presumed = solve(office(None))
    (note,) = presumed.presumed
    assert "exponential" in note and "`disk`" in note
    said = solve(office(1.0))
    assert said.presumed == [] and said.response == presumed.response == pytest.approx(0.5)
    # Pollaczek and Khinchine: constant times halve the wait.
    assert solve(office(0.0)).response == pytest.approx(0.3)
    assert solve(office(None, load=0.5)).presumed == []
    # What is said stays said in a description that is written.
    assert "cv" in office(1.0).to_toml() and "cv" not in office(None).to_toml()
    one, two = (solve(office(cv), percentiles=[99]).presumed for cv in (1.0, None))
    assert one == [] and [note.split()[0] for note in two] == ["figures", "percentiles"]


def test_percentiles_of_one_station_are_exact_and_others_have_intervals() -> None:
    one = solve(Network([Open("web", 0.9)], [Station("cpu", 1.0, discipline="FCFS")]), "Auto", percentiles=[99])
    assert one.percentiles()[99] == pytest.approx(46.0517, abs=1e-3)
    assert "percentiles: exact" in one.notes
    simulated = solve(lazowska(), percentiles=[99])
    ((percent, low, high),) = simulated.data["classes"][0]["percentile_intervals"]
    assert percent == 99 and low < simulated.percentiles()[99] < high
    with pytest.raises(UsageError, match=r"write 95"):
        solve(lazowska(), percentiles=[0.95])


def test_names_and_numbers_of_others_are_taken_or_refused_in_a_sentence() -> None:
    numpy = Network([Closed("users", np.int64(3), think=np.float32(15.0))], [Station("cpu", np.float64(0.5))])
    solution = solve(numpy)
    assert solution.throughput == pytest.approx(
        solve(Network([Closed("users", 3, 15.0)], [Station("cpu", 0.5)])).throughput
    )
    with pytest.raises(UsageError, match="no class 'nobody'; choose one of users"):
        solution.percentiles("nobody")
    with pytest.raises(UsageError, match="no station 'gpu'; choose one of"):
        sensitivity(lazowska()).elasticity("gpu")
    assert np.isnan(solve(Network([Closed("users", 0)], [Station("cpu", 0.5)])).response)


def test_every_answer_says_what_it_is_worth(tmp_path: Path) -> None:
    assert solve(lazowska()).accuracy == "exact"
    assert solve(lazowska(), "simulation", requests=500).accuracy == "simulated: 95 % intervals"
    near = solve(lazowska(), "linearizer").accuracy
    assert "97 of 100 models (single servers)" in near
    assert "0.80% of throughput, 1.50% of response time and 1.50% of requests at a station" in near
    file = tmp_path / "ranked.toml"
    file.write_text(
        '[[class]]\nname = "a"\npopulation = 4\npriority = 1\nthink = "1 s"\n'
        '[[class]]\nname = "b"\npopulation = 3\n'
        '[[station]]\nname = "cpu"\ndemand = "200 ms"\ndiscipline = "priority"\n'
    )
    shown = run("model", "solve", str(file), "--percentile", "50")
    assert shown.stdout.startswith("markov (exact)"), shown
    assert "note: auto chose `markov`: exact: few enough states" in shown.stderr
    assert json.loads(run("model", "solve", str(file), "--json").stdout)["accuracy"] == {"kind": "exact"}
    approximate = run("model", "solve", str(file), "--solver", "priority", "--percentile", "50")
    assert "approximate: error not known, classes of low priority may be off by any factor" in approximate.stdout


def test_bounds_bracket_the_curve() -> None:
    points = curve(lazowska(), [1, 5, 50])
    for low, x, high in zip(points["low"], points["throughput"], points["high"], strict=True):
        assert low * (1 - 1e-9) <= x <= high * (1 + 1e-9)
    assert bounds(lazowska())[0]["bottleneck"] == "disk a"


def test_a_class_that_only_thinks_has_no_response_that_depends_on_anything(tmp_path: Path) -> None:
    idle, busy = Closed("idle", 2, think=1.0), Closed("busy", 3, think=1.0)
    network = Network([idle, busy], [Station("cpu", {"idle": 0.0, "busy": 0.1})])
    found = sensitivity(network).data["elasticities"]
    assert {e["of"] for e in found if e["response"] is None} == {"idle"} and len(found) == 8
    (tmp_path / "m.toml").write_text(network.to_toml())
    command = [Path(sys.executable).with_name("servsim"), "model", "sensitivity", tmp_path / "m.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "idle to think of idle" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("load", "shown"),
    [("population = 0", "0-0 "), ('rate = "2 /s"', "100 ms or more"), ("population = 1", "100 ms-100 ms")],
)
def test_bounds_are_shown_without_customers_and_without_an_upper_one(load: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(f'[[class]]\nname = "a"\n{load}\n[[station]]\nname = "s"\ndemand = "100 ms"\n')
    command = [Path(sys.executable).with_name("servsim"), "model", "bounds", tmp_path / "m.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and shown in done.stdout, done.stdout + done.stderr


def test_a_sweep_agrees_with_single_solutions() -> None:
    rows = [[0.1, 0.2 + i * 0.01] for i in range(20)]
    together = sweep(rows, [1.0] * 20, [10] * 20)
    alone = solve(Network([Closed("c", 10, 1.0)], [Station("a", rows[7][0]), Station("b", rows[7][1])]))
    assert together[7] == pytest.approx(alone.throughput, rel=1e-12)
    with pytest.raises(UsageError, match="model 0"):
        sweep([[-1.0]], [0.0], [1])


def test_every_solver_of_the_registry_answers_a_model_it_treats() -> None:
    line = Network([Open("requests", 8.0)], [Station("disk", 0.1, discipline="fcfs", cv=0.0)])
    plain = lazowska()
    locked = Network(plain.classes, plain.stations, pools=[Pool("lock", 1, {"cpu": 0.3})])
    forked = Network(plain.classes, plain.stations, forks=[Fork("both", ["disk a", "disk b"])])
    first = Station("cpu", 0.1, discipline="priority")
    ranked = Network([Open("urgent", 1.0, priority=1), Closed("batch", 2)], [first])
    models = {"layered": locked, "forkjoin": forked, "priority": ranked, "station": line}
    for entry in solvers():
        solution = solve(models.get(entry["name"], plain), entry["name"], requests=500)
        assert solution.solver == entry["name"]
        assert solution.throughput > 0.0


def test_routes_rooms_and_laws_are_said_with_typed_objects() -> None:
    routed = Network(
        [Closed("users", 4, think=1.0, phases=["look", "buy"])],
        [Station("web", service={"users": {"look": 0.1, "buy": 0.4}})],
        routes=[
            Route("users", "start", {"web": 1.0}),
            Route("users", "web", {"end": 0.75}),
            Route("users", "web", {"web": 0.25}, becomes="buy"),
            Route("users", "web", {"end": 1.0}, phase="buy"),
        ],
    )
    plain = Network([Closed("users", 4, think=1.0)], [Station("web", 0.1 + 0.25 * 0.4)])
    assert solve(routed).throughput == pytest.approx(solve(plain).throughput)
    trunk = Station("trunk", 2.0, servers=3, discipline="fcfs", cv=2.0, capacity=3, when_full="lose")
    lost = solve(Network([Open("calls", 1.0)], [trunk])).classes()["loss"]
    assert lost == [pytest.approx(4 / 19)]
    bins = {"borders": [0.0, 0.1, 0.3], "counts": [1, 1]}
    solution = solve(Network([Open("calls", 1.0)], [Station("disk", discipline="fcfs", histogram=bins)]))
    second = (0.01 / 3 + (0.01 + 0.03 + 0.09) / 3) / 2
    assert solution.response == pytest.approx(0.125 + second / 2 / (1 - 0.125))


def test_elasticities_sum_to_minus_one() -> None:
    result = sensitivity(lazowska())
    assert result.sums == [pytest.approx(-1.0, abs=1e-9)]
    assert result.elasticity("think") < 0.0


def test_refusals_become_the_exceptions_of_the_exit_codes() -> None:
    with pytest.raises(UsageError, match="`cpu` is unstable"):
        solve(Network([Open("web", 20.0)], [Station("cpu", 0.1)]))
    with pytest.raises(UsageError, match="unknown solver"):
        solve(lazowska(), "lineariser")
    two = Network([Closed("a", 5), Closed("b", 7)], [Station("x", {"a": 0.3, "b": 0.1}), Station("y", 0.2)])
    with pytest.raises(CheckFailed, match="residual"):
        solve(two, "linearizer", max_iterations=2)
    with pytest.raises(UsageError, match="unknown class"):
        solve(Network([Closed("a", 1)], [Station("x", {"b": 0.3})]))


def test_what_ifs_allocation_and_fit_work_on_the_examples() -> None:
    effects = what_if(Network.from_file(EXAMPLES / "web-shop.toml"))
    assert [e["gain"] for e in effects] == sorted((e["gain"] for e in effects), reverse=True)
    best = allocate((EXAMPLES / "tpcc-tables.toml").read_text())
    assert best.gap == 0.0
    assert all(c["throughput"] <= best.throughput for c in best.data["compared"])
    assert len(best.columns()["table"]) == 9
    columns = fit((EXAMPLES / "measurements.toml").read_text()).columns()
    assert columns["demand_s"][0] == pytest.approx(0.0215, abs=5e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        ("solve", "web-shop.toml"),
        ("bounds", "smp.toml"),
        ("sensitivity", "smp.toml"),
        ("sensitivity", "web-shop.toml", "--what-if"),
        ("allocate", "tpcc-tables.toml"),
        ("fit", "measurements.toml"),
        ("solvers",),
    ],
)
def test_every_command_prints_a_table_and_versioned_json(arguments: tuple[str, ...]) -> None:
    command = [arguments[0], *(str(EXAMPLES / a) if a.endswith(".toml") else a for a in arguments[1:])]
    plain, as_json = run("model", *command), run("model", *command, "--json")
    assert plain.returncode == as_json.returncode == 0, plain.stderr + as_json.stderr
    assert len(plain.stdout.splitlines()) >= 2
    assert json.loads(as_json.stdout)["schema"].startswith("servsim.model.")


def test_a_plot_is_well_formed_svg_with_three_panels(tmp_path: Path) -> None:
    target = tmp_path / "plot.svg"
    done = run("model", "solve", str(EXAMPLES / "smp.toml"), "--plot", str(target))
    assert done.returncode == 0, done.stderr
    root = ET.parse(target).getroot()
    assert root.tag.endswith("svg")
    drawn = [line.get("stroke") for line in root.findall("{*}polyline")]
    # Throughput, response and their legend; two bounds and theirs. A bar per station.
    assert (drawn.count("#1f5fa8"), drawn.count("#8a8a8a")) == (3, 3)
    assert len(root.findall("{*}polygon")) == 4


def test_a_bad_file_lists_every_problem_and_ends_with_code_2(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('[[class]]\nname = "u"\npopulaton = 3\n[[station]]\nname = "cpu"\ndemand = 5\n')
    done = run("model", "solve", str(bad))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "line 3: unknown key `populaton`" in done.stderr
    assert "did you mean `population`?" in done.stderr
    assert "line 6: `demand` = 5 has no unit" in done.stderr


def test_a_file_that_is_no_model_is_named_with_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"class": []}')
    done = run("model", "solve", str(tmp_path / "a.json"))
    assert done.returncode == 2
    assert f"{tmp_path / 'a.json'}, line 1: not TOML" in done.stderr
    assert "a model is a TOML description (docs/models.md)" in done.stderr


def test_a_missing_file_and_an_unwritable_plot_name_the_path(tmp_path: Path) -> None:
    assert run("model", "solve", str(tmp_path / "none.toml")).returncode == 2
    done = run("model", "solve", str(EXAMPLES / "smp.toml"), "--plot", str(tmp_path / "no" / "plot.svg"))
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    done = run("model", "solve", str(EXAMPLES / "smp.toml"), "--plot", str(tmp_path / "plot.gif"))
    assert done.returncode == 2 and "end the name with .svg or .png" in done.stderr
    assert not (tmp_path / "plot.gif").exists()
