"""Validation on real hardware: the arithmetic on recorded numbers, the labels, and what is refused."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.capture.folder import shipped
from servsim.capture.folder_settings import chosen
from servsim.errors import EnvironmentProblem, UsageError
from servsim.machines import resolve
from servsim.validation import host, job, native, plan, record, simulated, study, text, windows
from servsim.validation.native import NativeRun
from servsim.validation.ratios import Ratio, error_percent, ratio
from servsim.validation.simulated import SimulatedRun

SERVSIM = Path(sys.executable).with_name("servsim")
HOST = host.Host((0, 1), "some processor", 48 << 10, 1 << 20, 32 << 20, 64, 4e-3, 4e-3, "15.18")
PROCESSORS, USERS = plan.CHANGES[0], plan.CHANGES[1]


def real(name: str, throughputs: list[float], busy: float = 10.0) -> list[NativeRun]:
    return [NativeRun(name, i, value, busy, 10.0, []) for i, value in enumerate(throughputs)]


def modelled(name: str, throughputs: list[float], share: float = 1.0) -> list[SimulatedRun]:
    return [SimulatedRun(name, i + 1, value, share, 0.5, 0.0, []) for i, value in enumerate(throughputs)]


def test_a_paired_ratio_does_not_see_the_drift_that_both_share() -> None:
    base, changed = [100.0, 150.0, 80.0], [181.0, 269.0, 144.5]
    paired, alone = ratio(changed, base, paired=True), ratio(changed, base, paired=False)
    # By hand: logs of 1.81, 1.79333, 1.80625 have mean 0.58953 and sd 0.00499; t(2, 0.975) = 4.3027.
    assert paired.mean == pytest.approx(1.80316, abs=1e-4)
    assert (paired.low, paired.high) == (pytest.approx(1.7806, abs=2e-3), pytest.approx(1.8260, abs=2e-3))
    assert alone.mean == pytest.approx(paired.mean) and alone.low is not None and alone.low < 1.0


def test_one_run_gives_a_ratio_without_interval_and_nothing_gives_none() -> None:
    one = ratio([30.0], [20.0], paired=True)
    assert (one.mean, one.low, one.high, one.n) == (pytest.approx(1.5), None, None, 1)
    assert one.within(Ratio(1.5, 1.4, 1.6, 3, True)) is None
    with pytest.raises(UsageError, match="above zero"):
        ratio([1.0], [0.0], paired=False)


def test_the_error_of_a_prediction_is_relative_to_what_was_measured() -> None:
    assert error_percent(Ratio(1.5, None, None, 1, True), Ratio(2.0, None, None, 1, True)) == pytest.approx(-25)


def rows() -> list[study.Row]:
    measured = real("base", [1000, 1010, 990]) + real("processors", [1600, 1616, 1584], 16.0)
    measured += real("users", [1000, 1010, 990])
    runs = modelled("base", [1000, 1000]) + modelled("processors", [1920, 1960], 0.96) + modelled("users", [950, 970])
    return study.rows([PROCESSORS, USERS], measured, runs)


def test_the_calibrated_configuration_is_never_called_predicted() -> None:
    found = rows()
    assert [(row.name, row.label) for row in found] == [
        ("base", "calibrated"),
        ("processors", "predicted"),
        ("users", "predicted"),
    ]
    # Asked for as a change, the base is still the base.
    again = study.rows(
        [plan.BASE, USERS],
        real("base", [1.0]) + real("users", [1.0]),
        modelled("base", [1.0]) + modelled("users", [1.0]),
    )
    assert [row.label for row in again] == ["calibrated", "predicted"]
    lines = text.table(found).splitlines()
    assert [line for line in lines if "calibrated" in line] == [lines[2]] and "%" not in lines[2]
    document = study.document(found, {})
    assert (document["predicted"], document["within_aim"]) == (2, 1), "the base counts in neither"
    assert document["mean_error_percent"] == pytest.approx((21.24 + 4.0) / 2, abs=0.1)


def test_an_error_is_parted_into_processor_time_and_waiting() -> None:
    row = rows()[1]
    # Natively both processors are busy 80 % of the time, simulated 96 %: 20 % of the error is waiting.
    assert row.error_percent == pytest.approx(21.24, abs=0.1)
    assert row.waiting_error == pytest.approx(20.0) and row.processor_error == pytest.approx(1.03, abs=0.1)
    assert "most of it is waiting" in row.verdict and PROCESSORS.station in row.verdict


def test_a_configuration_that_was_not_run_is_named() -> None:
    with pytest.raises(UsageError, match="no native run of 'users'"):
        study.rows([USERS], real("base", [1.0]), modelled("base", [1.0]) + modelled("users", [1.0]))


def test_windows_of_growing_length_average_out_what_is_independent() -> None:
    found = windows.spreads([[8, 12, 8, 12, 8, 12, 8, 12], [12, 8] * 4], 0.5, (1, 2, 4, 8))
    assert [(row.seconds, row.windows, row.runs) for row in found] == [(0.5, 8, 2), (1.0, 4, 2), (2.0, 2, 2)]
    assert found[0].within_percent == pytest.approx(100 * 2 * (8 / 7) ** 0.5 / 10)
    assert found[1].within_percent == 0 and (found[0].smallest, found[0].largest) == (0.8, 1.2)
    with pytest.raises(UsageError, match="longer"):
        windows.spreads([[1]], 1.0)


def test_the_description_of_a_host_is_one_that_the_simulator_takes() -> None:
    machine = resolve(host.describe(HOST, 3.21e9), "host", [])
    assert machine["cache"]["size"] == "48 KiB" and machine["l3"]["associativity"] == "16"
    assert machine["clock"] == "3210 MHz" and machine["disk"]["write_time"] == "2 ms"
    assert machine["disk"]["flushes"] == "shared", "a log is flushed by one for all"
    odd = dataclasses.replace(HOST, third=60 << 20, ways=(12, 8, 15))
    machine = resolve(host.describe(odd, 1e9), "host", [])
    assert [machine[level]["associativity"] for level in ("cache", "l2", "l3")] == ["12", "8", "15"]
    assert machine["l3"]["size"] == "60 MiB", "caches need not be powers of two"
    bare = dataclasses.replace(HOST, first=0, second=0, third=0)
    assert resolve(host.describe(bare, 1e9), "host", [])["l2"]["size"] == "none"


def test_every_configuration_is_warmed_by_the_transactions_of_the_base() -> None:
    by_name = {c.name: c for c in (plan.BASE, *plan.CHANGES)}
    assert by_name["users"].users < plan.BASE.users
    assert {c.warm_up for c in by_name.values()} == {plan.BASE.warm_up}
    assert {c.guest().values()["warm_up"] for c in by_name.values()} == {str(plan.BASE.warm_up)}


def test_caches_are_read_as_linux_tells_them(tmp_path: Path) -> None:
    told = [
        ("1", "Data", "48K", "12"),
        ("1", "Instruction", "32K", "8"),
        ("2", "Unified", "1024K", "8"),
        ("3", "Unified", "32M", "0"),
    ]
    for index, (level, kind, size, ways) in enumerate(told):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        facts = {"level": level, "type": kind, "size": size, "ways_of_associativity": ways}
        for name, value in {**facts, "coherency_line_size": "128"}.items():
            (folder / name).write_text(value + "\n")
    assert host.caches(tmp_path) == {
        "first": 48 << 10,
        "second": 1 << 20,
        "third": 32 << 20,
        "line": 128,
        "ways": (12, 8, 0),
    }
    nothing = {"first": 0, "second": 0, "third": 0, "line": 64, "ways": (0, 0, 0)}
    assert host.caches(tmp_path / "none") == nothing


def test_native_runs_have_the_settings_of_the_guest() -> None:
    found = native.settings_of_recipe((shipped("oltp") / "postgresql.conf").read_text())
    assert found["fsync"] == "on" and found["timezone"] == "UTC"
    assert found["autovacuum_vacuum_cost_delay"] == "20ms" and "listen_addresses" not in found
    words = set(plan.CHANGES[4].guest().kernel_words())
    assert {"servsim_shared_buffers=4MB", "servsim_server=synchronous_commit=off", "servsim_warm_up=960"} <= words
    with pytest.raises(UsageError, match="a value is letters"):
        chosen("oltp", work_mem="4MB -c fsync=off")


def test_one_capture_serves_every_number_of_processors() -> None:
    assert plan.software(PROCESSORS) == "base" and plan.software(USERS) == "users"


def test_a_pinned_run_gives_the_processors_back() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    with native.pinned([one]):
        assert os.sched_getaffinity(0) == {one}
    assert os.sched_getaffinity(0) == before


def test_the_base_is_calibrated_by_its_rate_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = simulated.Simulator(HOST, {}, lambda _: None)
    asked: list[str] = []

    def run(configurations: list[plan.Configuration], clock_hz: float) -> list[SimulatedRun]:
        asked.extend(c.name for c in configurations)
        return modelled("base", [200.0 * clock_hz / 1e9, 300.0 * clock_hz / 1e9])

    monkeypatch.setattr(simulator, "run", run)
    assert simulator.calibrate(500.0, 4e9) == pytest.approx(2e9) and asked == ["base", "base"]
    assert simulator.calibrate(500.0, 2.04e9) == 2.04e9, "close enough: what is left over is printed"


def test_a_host_with_one_processor_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    monkeypatch.setattr(host, "server_version", lambda: "15.18")
    with pytest.raises(EnvironmentProblem, match=r"offers 1 processor and .* needs 2: .* --only"):
        host.look(tmp_path, 2)
    assert host.look(tmp_path, 1).processors == (3,)


def servsim(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [SERVSIM, "validate", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_a_missing_server_is_named_with_what_to_install(tmp_path: Path) -> None:
    done = servsim(SERVSIM_POSTGRES_BIN=str(tmp_path), SERVSIM_CACHE=str(tmp_path))
    assert done.returncode == 3 and "apt-get install postgresql-15" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--only", "disks"), "there is no change disks; there are processors"), (("--measure-only",), "would be lost")],
)
def test_wrong_usage_is_refused(words: tuple[object, ...], told: str) -> None:
    done = servsim(*words)
    assert done.returncode == 2 and told in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("word", "told"), [("work_mem", "--set needs KEY=VALUE"), ("work_mem=4MB -c fsync=off", "a value is letters")]
)
def test_a_server_setting_of_the_guest_that_is_none_is_refused(word: str, told: str, tmp_path: Path) -> None:
    command = [SERVSIM, "capture", "oltp", "-o", tmp_path / "x.svt", "--set", word]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and told in done.stderr, done.stderr


def test_a_record_is_read_as_it_was_written_and_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "native.json"
    written = record.Record(HOST, real("base", [1.5, 2.5]), [NativeRun("base", 0, 2.0, 1.0, 1.0, [1, 2])])
    written.write(path)
    assert record.read(path) == written
    path.write_text(json.dumps({"schema": "servsim.simulate/1"}))
    done = servsim("--native", path)
    assert done.returncode == 2 and "servsim.simulate/1" in done.stderr, done.stderr


def test_a_record_without_the_base_cannot_calibrate(tmp_path: Path) -> None:
    path = tmp_path / "native.json"
    record.Record(HOST, real("users", [1.0]), []).write(path)
    wish = job.Wish([], 2, 1.0, 0, 2, 0.0, path, tmp_path, False)
    with pytest.raises(UsageError, match="none of 'base'"):
        job.run(wish, lambda _: None)
