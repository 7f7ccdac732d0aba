"""Sweeps on a Dask cluster of three worker processes on loopback, one of which is killed mid-run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servsim.errors import EnvironmentProblem, UsageError
from servsim.sweep import conduct, load
from sweep_study import write_study
from waiting import wait_for

distributed = pytest.importorskip("distributed")
SERVSIM = Path(sys.executable).with_name("servsim")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A scheduler and three workers, each a process of its own; yields the scheduler's address."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    file = tmp_path / "scheduler.json"
    scheduler = subprocess.Popen(
        [*_program("dask_scheduler"), "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file],
        **quiet,
    )
    processes = [scheduler]
    try:
        # The scheduler makes the file before it writes it.
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"), during=scheduler)
        address = json.loads(file.read_text())["address"]
        for index in range(3):
            options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", f"w{index}"]
            place = ["--host", "127.0.0.1", "--local-directory", str(tmp_path / f"w{index}")]
            processes.append(subprocess.Popen([*_program("dask_worker"), address, *options, *place], **quiet))
        with distributed.Client(address) as client:
            client.wait_for_workers(3, timeout=60)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _program(name: str) -> list[str]:
    return [sys.executable, "-m", f"distributed.cli.{name}"]


def test_a_sweep_on_three_worker_processes_gives_what_this_host_gives(cluster: str, tmp_path: Path) -> None:
    study = write_study(tmp_path)
    command = [SERVSIM, "sweep", study, "-o", tmp_path / "dask", "--on", f"dask:{cluster}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == {"made": 12, "kept": 0}
    conduct(load(study), tmp_path / "local")
    for path in (tmp_path / "local" / "runs").glob("*/result.json"):
        assert (tmp_path / "dask" / "runs" / path.parent.name / "result.json").read_text() == path.read_text()


def test_a_worker_killed_mid_run_costs_no_run(cluster: str, tmp_path: Path) -> None:
    study, killed = load(write_study(tmp_path, references=12000, seeds=5)), []

    def kill_a_busy_worker(*_: object) -> None:
        if killed:
            return
        with distributed.Client(cluster) as client:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            pids = client.run(os.getpid)
        assert busy, "no worker was in a run"
        os.kill(pids[busy[0]], signal.SIGKILL)
        killed.append(pids[busy[0]])

    outcome = conduct(study, tmp_path / "out", on=f"dask:{cluster}", progress=kill_a_busy_worker)
    assert killed and outcome.made == 20
    with distributed.Client(cluster) as client:
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 2
    journal = [json.loads(line) for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()]
    ended = [line["run"] for line in journal if line["event"] == "finished"]
    assert len(ended) == len(set(ended)) == 20
    local = conduct(study, tmp_path / "local")
    assert [p.replications for p in local.points] == [p.replications for p in outcome.points]


def test_a_run_that_fails_on_a_worker_is_told_as_here(cluster: str, tmp_path: Path) -> None:
    study = load(write_study(tmp_path, extra="warmup = 5000"))
    with pytest.raises(UsageError, match="leaves none to measure"):
        conduct(study, tmp_path / "out", on=f"dask:{cluster}")


def test_a_cluster_that_does_not_answer_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servsim.sweep.engines.dask.PATIENCE", 1)
    with pytest.raises(EnvironmentProblem, match="no Dask scheduler answers"):
        conduct(load(write_study(tmp_path, seeds=1)), tmp_path / "out", on="dask:127.0.0.1:9")
