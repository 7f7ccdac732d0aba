import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from disk_command import servsim, write_trace
from servsim import disk
from servsim.disk.plots import evaluation_svg
from servsim.errors import UsageError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path)


def test_a_model_is_fitted_judged_run_and_used_to_reorganise(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    fitted = disk.fit(str(trace), model)
    assert fitted["devices"][0]["server"]["discipline"] == "fcfs"
    assert disk.info(model)["devices"][0]["kind"] == "forest"
    entry = disk.evaluate(str(trace))["devices"][0]
    assert entry["skill"]["over_histogram"] > 0.5
    assert abs(entry["free_running"]["mean_error_percent"]) < 10
    assert evaluation_svg(entry).startswith("<svg")
    slow = disk.simulate(str(trace), model, load=1.3)
    assert slow.response_ns.mean() > disk.simulate(str(trace), model).response_ns.mean()
    assert (disk.simulate(str(trace), model, load=1.3).response_ns == slow.response_ns).all()
    result, maps = disk.reorganize(str(trace), blocks=50)
    assert [entry["policy"] for entry in result["results"]] == ["hot-block", "organ-pipe"]
    path = tmp_path / "map"
    path.write_text(maps[0][2])
    assert disk.simulate(str(trace), model, map_path=str(path)).summary["remapped"] == str(path)


def test_streamed_and_in_memory_fits_are_the_same_model(trace: Path, tmp_path: Path) -> None:
    binary = tmp_path / "t.ssd"
    disk.import_trace(str(trace), str(binary))
    one, other = tmp_path / "a", tmp_path / "b"
    disk.fit(str(trace), str(one))
    disk.fit(str(binary), str(other))
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("mode", ["closed", "open"])
def test_a_trace_run_as_it_is_read_gives_what_one_held_and_sorted_does(trace: Path, tmp_path: Path, mode: str) -> None:
    model = str(tmp_path / "m.model")
    disk.fit(str(trace), model)
    heading, *lines = trace.read_text().splitlines()
    if not heading[:1].isalpha():
        heading, lines = "", [heading, *lines]
    # Two lines at the end that changed places make the quick way give up after it has run nearly all.
    lines[-1], lines[-2] = lines[-2], lines[-1]
    disordered = tmp_path / "disordered.csv"
    disordered.write_text("\n".join([heading, *lines]).lstrip() + "\n")
    load = 1.2 if mode == "closed" else 1.0
    read, held = (disk.simulate(str(path), model, mode=mode, load=load, seed=3) for path in (trace, disordered))
    assert len(read.response_ns) == 3000
    assert (read.response_ns == held.response_ns).all() and (read.arrival_ns == held.arrival_ns).all()
    assert read.summary["devices"] == held.summary["devices"]
    pairs = zip(read.arrival_ns, read.response_ns, strict=True)
    expected = "".join(["arrival_ns,response_ns\n", *(f"{at},{took}\n" for at, took in pairs)])
    written = tmp_path / "run.csv"
    for path in (trace, disordered):
        # What the quick way wrote before it gave up is not in the file, nor in a pipe, which would not give it back.
        written.unlink(missing_ok=True)
        untimed = disk.simulate(str(path), model, mode=mode, load=load, seed=3, times=False, output=str(written))
        assert untimed.summary["devices"] == read.summary["devices"]
        assert len(untimed.response_ns) == len(untimed.arrival_ns) == 0
        assert written.read_text() == expected
        words = ("-m", model, "--mode", mode, "--load", str(load), "--seed", "3", "-o", "/dev/stdout", "--json")
        shown = servsim("disk", "simulate", str(path), *words).stdout
        assert shown.startswith(expected) and json.loads(shown[len(expected) :])["mode"] == mode
    assert sorted(tmp_path.glob("*run.csv*")) == [written]


def test_mistakes_are_told_in_one_sentence(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `forest`"):
        disk.fit(str(trace), kind="forrest")
    with pytest.raises(UsageError, match="train share"):
        disk.fit(str(trace), train=2)
    with pytest.raises(UsageError, match="not a usable model file"):
        disk.simulate(str(trace), str(trace))
    older = tmp_path / "older.model"
    disk.fit(str(trace), str(older))
    older.write_bytes(older.read_bytes().replace(b"SSDM1", b"SSDM0", 1))
    with pytest.raises(UsageError, match="it is of another version than 1"):
        disk.simulate(str(trace), str(older))
    with pytest.raises(UsageError, match="cannot open"):
        disk.load(str(tmp_path / "absent"))


def test_the_command_prints_versioned_json(trace: Path) -> None:
    done = servsim("disk", "evaluate", str(trace), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "servsim.disk.evaluate/1"


def test_sets_share_the_work_as_their_level_says(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    one = disk.simulate(str(trace), model).summary["devices"][0]["figures"]
    requests = disk.import_trace(str(trace))["requests"]
    means = {}
    for spec in ("stripe:4", "raid1:2", "disk0=raid5:5,unit=64KiB"):
        run = disk.simulate(str(trace), model, sets=[spec])
        figures = run.summary["devices"][0]["figures"]
        assert len(run.response_ns) == requests and (run.response_ns > 0).all()
        means[spec] = figures["simulated_mean_ms"]
        reads, writes = (sum(member[kind] for member in figures["members"]) for kind in ("reads", "writes"))
        if spec == "raid1:2":
            assert reads + writes / 2 == requests
    assert means["stripe:4"] < one["simulated_mean_ms"]
    done = servsim("disk", "simulate", str(trace), "-m", model, "--set", "raid5:5,unit=64KiB")
    assert done.stdout.count("drive ") == 5, done.stderr


def test_mistakes_about_sets_and_caches_are_told_with_a_remedy(trace: Path, tmp_path: Path) -> None:
    model, paper = str(tmp_path / "m.ssdm"), str(tmp_path / "p.ssdm")
    disk.fit(str(trace), model)
    disk.fit(str(trace), paper, kind="paper")
    for arguments, message in (
        ({"sets": ["raid7:5"]}, "accepted: raid0"),
        ({"sets": ["sda=raid1:2"]}, "the trace has disk0"),
        ({"sets": ["raid1:2"], "mode": "open"}, "queue of its own"),
    ):
        with pytest.raises(UsageError, match=message):
            disk.simulate(str(trace), model, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="physical service times"):
        disk.simulate(str(trace), paper, sets=["raid1:2"])
    with pytest.raises(UsageError, match="only a mechanical model"):
        disk.fit(str(trace), kind="forest", read_ahead=True)
    with pytest.raises(UsageError, match="no cache"):
        disk.fit("", kind="mechanical", drive="hp335h", write_cache="write-back")
    with pytest.raises(UsageError, match="write-back, write-through"):
        disk.fit("", kind="mechanical", drive="hp97560", write_cache="back")


def test_a_write_back_drive_answers_sooner(trace: Path, tmp_path: Path) -> None:
    means = {}
    for cache in ("write-back", "write-through"):
        model = str(tmp_path / cache)
        disk.fit("", model, kind="mechanical", drive="hp97560", write_cache=cache)
        run = disk.simulate(str(trace), model, allow_other_device=True)
        means[cache] = run.summary["devices"][0]["figures"]["simulated_mean_ms"]
    assert means["write-back"] < 0.9 * means["write-through"]


DATA = Path(os.environ.get("SERVSIM_DATA", Path(__file__).parents[3] / "shared" / "data")) / "disk"


@pytest.mark.acceptance
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no disk traces in {DATA}")
@pytest.mark.parametrize("order", ["fcfs", "sstf"])
def test_given_pairs_are_predicted_within_five_points(order: str) -> None:
    before, after = (str(DATA / f"cheetah9LP_{order}_hot_low_{which}.csv") for which in ("orig", "hot"))

    def mean(path: str) -> float:
        columns, _ = disk.load(path)
        return float((columns["completion_ns"] - columns["arrival_ns"]).mean())

    truth = 100 * (mean(after) / mean(before) - 1)
    result, _ = disk.reorganize(before, policies=["hot-block"])
    assert abs(result["results"][0]["prediction"]["change_percent"] - truth) < 5


def test_a_load_that_is_no_number_is_told_as_one(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    for factor in (float("nan"), float("inf"), 0.0, -1.0):
        with pytest.raises(UsageError, match=r"load .* is not a positive factor"):
            disk.simulate(str(trace), model, load=factor)
        with pytest.raises(UsageError, match=r"load .* is not a positive factor"):
            disk.evaluate(str(trace), truths=[(factor, str(trace))])
    with pytest.raises(UsageError, match="train share nan"):
        disk.fit(str(trace), train=float("nan"))


@pytest.mark.parametrize("made", [disk.fit, disk.evaluate, disk.reorganize])
def test_a_training_part_without_a_request_is_too_short(made: Callable[..., object], trace: Path) -> None:
    with pytest.raises(UsageError, match="too short to fit a `unconditional` model: 1 requests"):
        made(str(trace), kind="unconditional", train=1e-9)


def test_requests_that_take_no_time_are_refused_with_a_remedy_and_a_few_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "instant.csv"
    heading = "arrival_us,op,lba,sectors,response_us"
    rows = [f"{1000 * at},{at % 2},{at * 7919 % 4001 * 8},8" for at in range(2000)]
    path.write_text("\n".join([heading, *(f"{row},0" for row in rows)]))
    for command in ("evaluate", "fit", "reorganize"):
        done = servsim("disk", command, str(path))
        assert done.returncode == 2 and "no request of `disk0` takes any time: check the units" in done.stderr
    path.write_text("\n".join([heading, *(f"{row},{0 if at % 2 else 40 + at % 9}" for at, row in enumerate(rows))]))
    done = servsim("disk", "evaluate", str(path))
    assert done.returncode == 0, done.stderr
    assert "1000 requests that took no time, the first at line 3" in done.stderr


def test_a_device_with_too_few_requests_is_left_out_and_the_others_are_not(trace: Path, tmp_path: Path) -> None:
    rows = trace.read_text().splitlines()
    both = [f"{rows[0]},device", *(f"{row},{'sdb' if at % 100 == 7 else 'sda'}" for at, row in enumerate(rows[1:]))]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(both))
    for command in ("evaluate", "fit", "reorganize"):
        done = servsim("disk", command, str(path))
        assert done.returncode == 0, done.stderr
        assert "warning: sdb is left out: the trace is too short" in done.stderr
        assert "sda" in done.stdout
    short = tmp_path / "short.csv"
    short.write_text("\n".join(rows[:100]))
    done = servsim("disk", "evaluate", str(short))
    assert done.returncode == 2 and "too short" in done.stderr


def test_a_model_that_fails_its_trial_says_so_and_runs_only_when_told_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    now, rows = 0, ["arrival_ns,op,lba,sectors,response_ns"]
    for at in range(4000):
        now += int(rng.integers(1, 60_000))
        sectors = 8 << int(rng.integers(4))
        slower = 3 if at >= 3000 else 1
        rows.append(f"{now},{at % 2},{int(rng.integers(1 << 20)) * 8},{sectors},{slower * (30_000 + 9000 * sectors)}")
    path, model = tmp_path / "ssd.csv", str(tmp_path / "m.ssdm")
    path.write_text("\n".join(rows))
    done = servsim("disk", "fit", str(path), "-o", model)
    assert done.returncode == 0 and "tried on the last quarter" in done.stdout, done.stderr
    done = servsim("disk", "simulate", str(path), "-m", model)
    assert done.returncode == 2 and "is not worth using" in done.stderr, done.stderr
    done = servsim("disk", "simulate", str(path), "-m", model, "--allow-unskilled")
    assert done.returncode == 0, done.stderr
    done = servsim("disk", "evaluate", str(path))
    assert "free running" in done.stdout and "skill over histogram" in done.stdout, done.stderr


def test_a_workload_that_never_ran_is_simulated_from_its_arrivals(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    arrivals = tmp_path / "arrivals.csv"
    arrivals.write_text("\n".join(line.rpartition(",")[0] for line in trace.read_text().splitlines()))
    ran, planned = (disk.simulate(disk.Source(str(path), format="csv"), model) for path in (trace, arrivals))
    assert (ran.response_ns == planned.response_ns).all()
    assert planned.summary["import"]["arrivals_only"] and not ran.summary["import"]["arrivals_only"]
    assert not planned.summary["import"]["warnings"]
    for command in (disk.fit, disk.evaluate):
        with pytest.raises(UsageError, match="no completion"):
            command(disk.Source(str(arrivals), format="csv"))
    with pytest.raises(UsageError, match="no completion"):
        disk.simulate(disk.Source(str(arrivals), format="csv"), model, mode="open")


def test_loads_near_saturation_and_maps_with_a_model_that_knows_places_are_warned_of(
    trace: Path, tmp_path: Path
) -> None:
    model, block_map = str(tmp_path / "m.ssdm"), tmp_path / "disk.map"
    fitted = disk.fit(str(trace), model)
    calm = disk.simulate(str(trace), model).summary["devices"][0]
    busy = disk.simulate(str(trace), model, load=1.0 / calm["figures"]["utilization"]).summary["devices"][0]
    assert calm["warnings"] == []
    assert any("near saturation" in warning for warning in busy["warnings"])
    load = 1.0 / calm["figures"]["utilization"]
    (mirror,) = disk.simulate(str(trace), model, load=2 * load, sets=["raid1:2"]).summary["devices"]
    assert max(drive["utilization"] for drive in mirror["figures"]["members"]) > 0.85
    assert any("near saturation" in warning for warning in mirror["warnings"])
    _, maps = disk.reorganize(str(trace), blocks=50, policies=["hot-block"])
    block_map.write_text(maps[0][2])
    moved = disk.simulate(str(trace), model, map_path=str(block_map)).summary["devices"][0]
    assert (
        any("blocks by their place" in warning for warning in moved["warnings"])
        == (fitted["devices"][0]["model"]["uses_place"])
    )


def test_a_written_run_holds_every_request_and_keeps_devices_apart(trace: Path, tmp_path: Path) -> None:
    rows = trace.read_text().splitlines()
    named = tmp_path / "two.csv"
    both = [f"{row},{'sdb' if at % 3 else 'sda'}" for at, row in enumerate(rows[1:])]
    named.write_text("\n".join([f"{rows[0]},device", *both]))
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    for path, heading in ((trace, "arrival_ns,response_ns"), (named, "arrival_ns,response_ns,device")):
        output = tmp_path / "run.csv"
        if path == named:
            disk.fit(str(path), model)
        done = servsim("disk", "simulate", str(path), "-m", model, "-o", str(output))
        assert done.returncode == 0, done.stderr
        run = disk.simulate(str(path), model)
        with output.open(newline="") as file:
            lines = [",".join(row) for row in csv.reader(file)]
        expected = [f"{at},{took}" for at, took in zip(run.arrival_ns, run.response_ns, strict=True)]
        if path == named:
            names = [entry["device"] for entry in run.summary["devices"] for _ in range(entry["requests"])]
            assert set(names) == {"sda", "sdb"}
            expected = [f"{line},{name}" for line, name in zip(expected, names, strict=True)]
        assert lines == [heading, *expected]


def test_the_only_model_of_a_file_is_taken_for_one_other_device_with_a_warning_and_for_two_not_at_all(
    trace: Path, tmp_path: Path
) -> None:
    model = str(tmp_path / "m.ssdm")
    rows = trace.read_text().splitlines()
    path = tmp_path / "named.csv"
    path.write_text("\n".join([f"{rows[0]},device", *(f"{row},sda" for row in rows[1:])]))
    disk.fit(str(path), model)
    assert not disk.simulate(str(path), model).summary["devices"][0]["warnings"]
    (warning,) = disk.simulate(str(trace), model).summary["devices"][0]["warnings"]
    assert "the model is of `sda`" in warning
    path.write_text("\n".join([f"{rows[0]},device", *(f"{row},sd{'ab'[at % 2]}" for at, row in enumerate(rows[1:]))]))
    with pytest.raises(UsageError, match="knows `sda` alone, and the trace has sda, sdb: keep one with --device"):
        disk.simulate(str(path), model)
    assert len(disk.simulate(str(path), model, allow_other_device=True).summary["devices"]) == 2


def test_a_model_of_another_device_is_refused_by_the_times_of_the_trace(trace: Path, tmp_path: Path) -> None:
    heading, *rows = trace.read_text().splitlines()
    slow = [f"{4 * int(at)},{','.join(what)},{4 * int(end)}" for at, *what, end in (row.split(",") for row in rows)]
    other, disordered, model = tmp_path / "slow.csv", tmp_path / "disordered.csv", str(tmp_path / "m.ssdm")
    other.write_text("\n".join([heading, *slow]))
    disordered.write_text("\n".join([heading, slow[1], slow[0], *slow[2:]]))
    disk.fit(str(trace), model)
    for command in ("simulate", "evaluate", "reorganize"):
        for path in (other, disordered):
            done = servsim("disk", command, str(path), "-m", model)
            assert done.returncode == 2 and "fitted to another device" in done.stderr, done.stderr
            assert servsim("disk", command, str(path), "-m", model, "--allow-other-device").returncode == 0
    # Arrivals alone do not tell.
    planned = tmp_path / "planned.csv"
    planned.write_text("\n".join(["arrival_us,op,lba,sectors", *(row.rpartition(",")[0] for row in slow)]))
    assert servsim("disk", "simulate", str(planned), "-m", model).returncode == 0


def test_a_run_tells_percentiles_of_reads_and_of_writes(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    run = disk.simulate(str(trace), model)
    told = run.summary["devices"][0]["figures"]["by_operation"]
    is_write = disk.load(str(trace))[0]["is_write"]
    for name, of in (("read", ~is_write), ("write", is_write)):
        times = run.response_ns[of] * 1e-6
        assert told[name]["requests"] == of.sum()
        for title, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)):
            assert told[name][f"{title}_ms"] == pytest.approx(np.quantile(times, share), rel=1e-6)
    printed = servsim("disk", "simulate", str(trace), "-m", model).stdout
    assert f"p95 {told['write']['p95_ms']:.3f}" in printed


def test_the_interval_of_a_move_holds_the_error_of_the_model_where_that_was_tested(trace: Path) -> None:
    for load, tested in ((1.0, 5.0), (1.2, None)):
        found = disk.reorganize(str(trace), blocks=50, load=load)[0]["results"][0]
        for what in (found["prediction"], found["held_out"]):
            assert what["model_error_percent"] == tested and (what["half_width_percent"] >= 5.0) == (load == 1.0)


def test_a_move_is_told_for_requests_that_its_map_is_not_drawn_from(trace: Path) -> None:
    printed = servsim("disk", "reorganize", str(trace), "--blocks", "50", "--policy", "organ-pipe").stdout
    (found,) = disk.reorganize(str(trace), blocks=50, policies=["organ-pipe"])[0]["results"]
    told, own = found["held_out"], found["prediction"]
    assert told["before_ms"] == own["before_ms"] and told["covered"] < own["covered"]
    assert f"mean response {told['change_percent']:+.2f} % (95 % interval" in printed
    assert f"{own['change_percent']:+.2f} % of the very requests" in printed
