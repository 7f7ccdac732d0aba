"""Sweeps: what is run, that nothing is lost or run twice after a kill, and what is refused."""

import json
import os
import signal
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from servsim.errors import EnvironmentProblem, UsageError
from servsim.simulation import simulate
from servsim.sweep import conduct, load
from servsim.sweep.conduct import plan
from servsim.sweep.engines.local import received
from servsim.sweep.engines.local import run as run_here
from servsim.sweep.store import opened
from sweep_study import write_study
from waiting import wait_for

SERVSIM = Path(sys.executable).with_name("servsim")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)


def finished(folder: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of every finished run's result; a run still under its temporary name is not one."""
    found = {}
    for path in folder.glob("runs/[!.]*/result.json"):
        stat = path.stat()
        found[path.parent.name] = (stat.st_ino, stat.st_mtime_ns)
    return found


def results(folder: Path) -> dict[str, Any]:
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("runs/*/result.json")}


def test_every_combination_is_run_once_per_seed_and_gives_what_simulate_gives(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    done = servsim("sweep", study, "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["runs"] == {"made": 12, "kept": 0}
    assert [p["factors"] for p in outcome["points"]] == [
        {"processors": n, "cache.size": size} for n in (1, 2) for size in ("16 KiB", "64 KiB")
    ]
    alone = simulate(
        tmp_path / "small.txt",
        "foglia-2004-4p",
        overrides=["processors=2", "cache.size=16 KiB"],
        replications=3,
        seed=1,
    )
    mine = outcome["points"][2]["summary"]
    for name, entry in alone["summary"].items():
        assert mine[name]["mean"] == pytest.approx(entry["mean"]), name
        assert mine[name]["interval_95"] == pytest.approx(entry["interval_95"]), name


def test_the_table_holds_every_figure_of_every_run_with_its_unit(tmp_path: Path) -> None:
    outcome = conduct(load(write_study(tmp_path, seeds=2)), tmp_path / "out", workers=2)
    table = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    cycles = [row for row in table if row["path"] == "cycles"]
    assert len(cycles) == 8 and {row["unit"] for row in cycles} == {"cycles"}
    assert {row["factor.cache.size"] for row in cycles} == {"16 KiB", "64 KiB"}
    by_run = {row["run"]: row["value"] for row in cycles}
    for run, document in results(tmp_path / "out").items():
        assert by_run[run] == document["replications"][0]["cycles"]
    windows = pq.read_table(tmp_path / "out" / "windows.parquet").to_pylist()
    for point in outcome.points:
        for replication in point.replications:
            mine = [w for w in windows if w["seed"] == replication["seed"]]
            assert {w["window_cycles"] for w in mine} == {replication["window_cycles"]}


def test_after_kill_9_the_sweep_continues_with_nothing_lost_and_nothing_run_twice(tmp_path: Path) -> None:
    study, folder = write_study(tmp_path, references=12000, seeds=6), tmp_path / "out"
    messages = tmp_path / "messages"
    with messages.open("w") as stderr:
        process = subprocess.Popen([SERVSIM, "sweep", study, "-o", folder, "--workers", "2"], stderr=stderr)
    wait_for(lambda: len(finished(folder)) >= 4, during=process)
    children = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = finished(folder)
    assert 4 <= len(before) < 24 and children
    wait_for(lambda: not any(_alive(pid) for pid in children))
    assert finished(folder) == before, "nothing is written without the sweep"
    assert "Traceback" not in messages.read_text()

    again = servsim("sweep", study, "-o", folder, "--workers", 2, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["runs"] == {"made": 24 - len(before), "kept": len(before)}
    after = finished(folder)
    assert len(after) == 24 and {run: after[run] for run in before} == before, "a finished run was made again"
    journal = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    ended = Counter(line["run"] for line in journal if line["event"] == "finished")
    # The kill can fall between a run's last step and its line in the journal, for the run then under way.
    assert set(ended.values()) == {1} and len(ended) >= 23
    assert list(folder.glob("runs/.part-*")) == []

    fresh = conduct(load(study), tmp_path / "fresh", workers=2)
    assert fresh.made == 24 and results(tmp_path / "fresh") == results(folder)


def _children(parent: int) -> list[int]:
    """Return the processes that a process began, its own kind only."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_half_written_run_is_made_again_and_a_finished_one_is_not(tmp_path: Path) -> None:
    study, folder = load(write_study(tmp_path)), tmp_path / "out"
    conduct(study, folder)
    jobs = [job for point in plan(study) for job in point]
    victim = folder / "runs" / jobs[0].hash
    victim.rename(folder / "runs" / f".part-{jobs[0].hash}")
    before = finished(folder)
    again = conduct(study, folder)
    assert (again.made, again.kept) == (1, 11)
    after = finished(folder)
    assert {run: after[run] for run in before if run in after} == {r: s for r, s in before.items() if r in after}


def test_more_seeds_and_levels_run_only_what_is_new(tmp_path: Path) -> None:
    conduct(load(write_study(tmp_path, seeds=2)), tmp_path / "out")
    wider = conduct(load(write_study(tmp_path, seeds=3)), tmp_path / "out")
    assert (wider.made, wider.kept) == (4, 8)


def test_ctrl_c_ends_with_130_and_keeps_what_is_finished(tmp_path: Path) -> None:
    study, folder = write_study(tmp_path, references=12000, seeds=6), tmp_path / "out"
    process = subprocess.Popen([SERVSIM, "sweep", study, "-o", folder], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: finished(folder), during=process)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in messages
    assert 0 < len(finished(folder)) < 24


@pytest.mark.parametrize(
    ("extra", "factors", "words"),
    [
        ("processors = 4", "", ["unknown key `processors`; a study has name, ", "tables settings, factors"]),
        ("[settings]\nprocessors = 4", "", ["`processors` is both fixed in [settings] and a factor"]),
        ("", 'machine = ["foglia-2004-8p"]', ["`machine` is both fixed and a factor"]),
        ("", "cache.lime = [1]", ["unknown setting `cache.lime`; did you mean `cache.line`?"]),
        ("", "cache.line = []", ["`cache.line` has no levels"]),
        ("", 'cache.line = ["32 B", "32 B"]', ["has the level 32 B twice"]),
        ("warmup = -1", "", ["`warmup` is -1"]),
        ("", "[[exclude]]\nprocessors = 7", ["takes out no point"]),
        ("transactions = 0\nwarmup = -1", "cache.line = []", ["`transactions` is 0", "`warmup` is -1", "no levels"]),
    ],
)
def test_a_contradictory_study_is_refused_with_all_faults(
    extra: str, factors: str, words: list[str], tmp_path: Path
) -> None:
    done = servsim("sweep", write_study(tmp_path, extra=extra, factors=factors), "-o", tmp_path / "out")
    assert done.returncode == 2, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out").exists()


def test_impossible_machines_are_told_with_their_points_before_anything_is_run(tmp_path: Path) -> None:
    study = write_study(tmp_path, factors='cache.line = ["64 B", "48 B"]')
    done = servsim("sweep", study, "-o", tmp_path / "out")
    assert done.returncode == 2 and "4 of 8 points cannot be run" in done.stderr
    assert "cache.line = 48 B" in done.stderr and not (tmp_path / "out").exists()
    assert "(and 3 more points): " in done.stderr and done.stderr.count("48 B is") == 1, "a fault is told once"


def test_points_can_be_left_out(tmp_path: Path) -> None:
    study = load(write_study(tmp_path, factors='[[exclude]]\nprocessors = 2\ncache.size = "64 KiB"'))
    assert len(study.points) == 3
    assert {"processors": 2, "cache.size": "64 KiB"} not in study.points


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "servsim.sweep-directory/0"}, "another version"),
        ({"servsim": "0.0.1"}, "another version"),
        ({"build": "0000"}, "another version"),
        ({"name": "other"}, "the study 'other'"),
    ],
)
def test_a_folder_of_another_version_or_study_is_refused_and_left_alone(
    change: dict[str, str], words: str, tmp_path: Path
) -> None:
    study, folder = write_study(tmp_path, seeds=1), tmp_path / "out"
    conduct(load(study), folder)
    manifest = folder / "sweep.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    done = servsim("sweep", study, "-o", folder)
    assert done.returncode == 2 and words in done.stderr
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path, seeds=1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    done = servsim("sweep", study, "-o", tmp_path / "other")
    assert done.returncode == 2 and "holds no sweep" in done.stderr
    assert sorted(p.name for p in (tmp_path / "other").iterdir()) == ["thesis.tex"]


def test_two_processes_cannot_work_on_one_sweep(tmp_path: Path) -> None:
    study = load(write_study(tmp_path, seeds=1))
    with opened(tmp_path / "out", study.name), pytest.raises(UsageError, match="another process"):
        conduct(study, tmp_path / "out")


def test_a_killed_worker_is_an_environment_problem_that_repeating_mends(tmp_path: Path) -> None:
    study, folder = load(write_study(tmp_path, references=12000, seeds=4)), tmp_path / "out"
    with pytest.raises(EnvironmentProblem, match="repeat the command"):
        conduct(study, folder, workers=2, progress=lambda *_: _kill_one())
    assert 0 < len(finished(folder)) < 16
    assert conduct(study, folder, workers=2).made == 16 - len(finished(folder)) or len(finished(folder)) == 16


def test_the_end_of_a_worker_amid_a_message_is_the_end_of_the_message() -> None:
    here, there = Pipe()
    os.write(there.fileno(), struct.pack("!i", 20_000) + b"the beginning of a result")
    there.close()
    with pytest.raises(EnvironmentProblem, match="was killed"):
        received(here)


def test_a_fault_of_a_run_is_raised_where_the_sweep_was_asked_for(tmp_path: Path) -> None:
    study = load(write_study(tmp_path, seeds=1))
    (job, *_), *_ = plan(study)
    of_another_build = replace(job, inputs={**job.inputs, "build": "0000"})
    with pytest.raises(EnvironmentProblem, match="runs another build of servsim") as raised:
        list(run_here([of_another_build], "", 1))
    assert "raised in a worker process" in raised.value.__notes__[0]


def _kill_one() -> None:
    for pid in _children(os.getpid()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"spawn_main" in command and _alive(pid):
            os.kill(pid, signal.SIGKILL)
            return


def test_an_unknown_place_and_a_missing_cluster_are_said_so(tmp_path: Path) -> None:
    study = write_study(tmp_path, seeds=1)
    for place, code, words in (
        ("moon", 2, "local, dask:ADDRESS or slurm"),
        ("dask:", 2, "HOST:PORT"),
        ("slurm", 3, "sbatch"),
    ):
        done = servsim("sweep", study, "-o", tmp_path / "out", "--on", place)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_dry_run_lists_the_points_and_writes_nothing(tmp_path: Path) -> None:
    done = servsim("sweep", write_study(tmp_path), "--dry-run", "-o", tmp_path / "out")
    assert done.stdout.splitlines()[-1] == "4 points x 3 seeds = 12 runs"
    assert not (tmp_path / "out").exists()
    planned = json.loads(servsim("sweep", write_study(tmp_path), "--dry-run", "--json").stdout)
    assert (planned["schema"], planned["runs"], len(planned["seeds"])) == ("servsim.sweep-plan/1", 12, 3)
    assert [point["runs"] for point in planned["points"]] == [3] * 4


def test_a_figure_that_does_not_exist_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    for more in ((), ("--dry-run",)):
        done = servsim("sweep", write_study(tmp_path), "-o", tmp_path / "out", "--show", "gsq", *more)
        assert done.returncode == 2 and "there is no figure 'gsq'" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_functional_sweep_prints_what_was_counted_without_being_told_what(tmp_path: Path) -> None:
    study = write_study(tmp_path, extra='engine = "functional"', seeds=1)
    done = servsim("sweep", study, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "misses_per_reference" in done.stdout.splitlines()[0]


def test_functional_runs_of_further_seeds_are_made_only_where_something_is_drawn(tmp_path: Path) -> None:
    study = write_study(tmp_path, extra='engine = "functional"', factors='cache.replacement = ["lru", "random"]')
    assert [len(jobs) for jobs in plan(load(study))] == [1, 3] * 4
    done = servsim("sweep", study, "--dry-run")
    assert done.stdout.splitlines()[-1] == "8 points, 16 runs: functional runs of other seeds would be the same"


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000 + "]" * 5000])
def test_a_study_with_a_value_that_no_reader_of_toml_holds_is_refused(tmp_path: Path, value: str) -> None:
    study = tmp_path / "s.toml"
    study.write_text(f"name = {value}\n")
    with pytest.raises(UsageError, match="is not TOML that can be read"):
        load(study)
