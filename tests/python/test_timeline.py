"""``servsim timeline``: the windows add up to the run, the schedule is a schedule, and files are whole."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from servsim.errors import UsageError
from servsim.simulation import simulate
from servsim.timeline import parquet, trace_events, windows
from sweep_study import write_trace

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
TIMES = ("busy_user", "busy_kernel", "memory_stall", "bus_wait", "lock_spin", "idle")


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return simulate(SHIPPED, "foglia-2004-4p", transactions=3, replications=2)


def test_windows_add_up_to_the_run_but_for_its_last_part(result: dict[str, Any]) -> None:
    for run in result["replications"]:
        columns = windows(run)
        covered = columns["start_cycle"][-1] + run["window_cycles"]
        assert 0 <= run["cycles"] - covered < run["window_cycles"]
        for kind, modes in run["misses"].items():
            if kind != "total":
                assert sum(columns[f"misses.{kind}"]) <= sum(modes.values())
        for op in ("read", "read_exclusive", "invalidate", "write_back"):
            assert 0.95 * run["bus"][op] <= sum(columns[f"bus.{op}"]) <= run["bus"][op]
        assert sum(columns["busy_user"]) + sum(columns["busy_kernel"]) == sum(columns["busy"])
        spent = sum(sum(columns[name]) for name in TIMES)
        assert spent == pytest.approx(4 * covered, rel=0.02), "every cycle of every processor is somewhere"
        assert sum(columns["disk.reads"]) <= run["disk"]["reads"]


def test_a_processor_runs_one_task_at_a_time_and_a_task_is_on_one_processor(result: dict[str, Any]) -> None:
    run = result["replications"][0]
    schedule = run["activity"]["schedule"]
    spans = list(zip(*(schedule[k] for k in ("processor", "task", "start", "end")), strict=True))
    assert spans and run["activity"]["dropped"] == 0
    for key in (0, 1):
        for owner in {span[key] for span in spans}:
            mine = sorted((span[2], span[3]) for span in spans if span[key] == owner)
            assert all(0 <= start < end <= run["cycles"] for start, end in mine)
            assert all(before[1] <= after[0] for before, after in pairwise(mine)), (key, owner)
    running = sum(end - start for _, _, start, end in spans)
    idle = sum(processor["idle"] for processor in run["processors"])
    assert running == pytest.approx(4 * run["cycles"] - idle, rel=0.05)


def test_disk_requests_take_the_time_of_the_disk(result: dict[str, Any]) -> None:
    run = result["replications"][0]
    disk = run["activity"]["disk"]
    assert len(disk["start"]) == run["disk"]["reads"] + run["disk"]["writes"]
    assert disk["write"].count(True) == run["disk"]["writes"]


def test_perfetto_gets_every_span_and_every_counter_in_microseconds(result: dict[str, Any]) -> None:
    run = result["replications"][1]
    document = json.loads(json.dumps(trace_events(result, 1)))
    events = document["traceEvents"]
    assert {event["ph"] for event in events} <= {"M", "X", "b", "e", "C"}
    drawn = [event for event in events if event["ph"] == "X"]
    assert len(drawn) == len(run["activity"]["schedule"]["start"])
    assert max(e["ts"] + e["dur"] for e in drawn) <= run["cycles"] / 1000 + 1e-6, "1 GHz: 1000 cycles a microsecond"
    bus = [event["args"]["value"] for event in events if event.get("name") == "bus busy, %"]
    assert len(bus) == len(run["timeline"]) and 0 < max(bus) <= 101
    assert document["otherData"]["seed"] == run["seed"]


def test_the_command_writes_parquet_and_a_perfetto_file(tmp_path: Path, result: dict[str, Any]) -> None:
    (tmp_path / "r.json").write_text(json.dumps(result))
    table, trace = tmp_path / "w.parquet", tmp_path / "p.json"
    done = subprocess.run(
        [SERVSIM, "timeline", tmp_path / "r.json", "--parquet", table, "--perfetto", trace],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(table).to_pylist()
    assert len(rows) == sum(len(run["timeline"]) for run in result["replications"])
    assert {row["seed"] for row in rows} == {1, 2}
    assert sum(r["bus.read"] for r in rows if r["seed"] == 1) == sum(result["replications"][0]["windows"]["bus.read"])
    assert json.loads(trace.read_text())["traceEvents"]


def test_a_replication_whose_windows_were_not_kept_is_left_out_or_refused_with_the_remedy(
    result: dict[str, Any], tmp_path: Path
) -> None:
    first, second = result["replications"]
    second = {key: value for key, value in second.items() if key != "timeline"}
    with pytest.raises(UsageError, match="--seed 2 --replications 1"):
        windows(second)
    assert parquet([first, second], tmp_path / "w.parquet") == len(first["timeline"])


def test_a_result_without_time_or_replication_is_refused(tmp_path: Path) -> None:
    trace = write_trace(tmp_path, 20)
    made = simulate(trace, "foglia-2004-4p", engine="functional")
    (tmp_path / "f.json").write_text(json.dumps(made))
    done = subprocess.run([SERVSIM, "timeline", tmp_path / "f.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--engine timing" in done.stderr
    made = simulate(trace, "foglia-2004-4p")
    (tmp_path / "t.json").write_text(json.dumps(made))
    done = subprocess.run(
        [SERVSIM, "timeline", tmp_path / "t.json", "--replication", "2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "holds 1 replications" in done.stderr
