"""The Slurm engine with submitit's local executor in place of Slurm: jobs are processes of their own."""

import os
import signal
import time
from pathlib import Path

import pytest
from servsim.errors import EnvironmentProblem
from servsim.sweep import conduct, load
from servsim.sweep.engines import slurm
from sweep_study import write_study

submitit = pytest.importorskip("submitit")

# What a job runs instead is a lambda, which travels by value: its process cannot import this file.


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let `sbatch` seem to exist, and submitit run its jobs here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm.shutil, "which", lambda _: "sbatch")
    real = submitit.AutoExecutor
    monkeypatch.setattr(submitit, "AutoExecutor", lambda folder, cluster: real(folder, cluster="local"))


@pytest.mark.usefixtures("stand_in")
def test_runs_submitted_as_jobs_give_what_this_host_gives(tmp_path: Path) -> None:
    study = load(write_study(tmp_path, seeds=1))
    outcome = conduct(study, tmp_path / "jobs", on="slurm:short", workers=2)
    local = conduct(study, tmp_path / "local")
    assert outcome.made == 4
    assert [point.replications for point in outcome.points] == [point.replications for point in local.points]
    assert list(tmp_path.glob(".servsim-slurm-*")) == []


@pytest.mark.usefixtures("stand_in")
def test_a_job_that_dies_is_told_with_the_remedy_and_repeating_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load(write_study(tmp_path, seeds=1))
    monkeypatch.setattr(slurm, "execute", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(EnvironmentProblem, match="repeat the command"):
        conduct(study, tmp_path / "jobs", on="slurm")
    monkeypatch.undo()
    assert conduct(study, tmp_path / "jobs").made == 4


@pytest.mark.usefixtures("stand_in")
def test_a_job_that_left_the_queue_without_a_result_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a cluster without accounting shows a cancelled job: it is in no queue, and never done.
    study = load(write_study(tmp_path, seeds=1))
    monkeypatch.setattr(slurm, "QUEUE", 0.0)
    monkeypatch.setattr(slurm, "queued", set)
    monkeypatch.setattr(slurm, "execute", lambda _: time.sleep(60))
    with pytest.raises(EnvironmentProblem, match="left the queue without a result"):
        conduct(study, tmp_path / "jobs", on="slurm")


@pytest.mark.usefixtures("stand_in")
def test_a_queue_that_does_not_answer_condemns_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(write_study(tmp_path, seeds=1))
    monkeypatch.setattr(slurm, "QUEUE", 0.0)
    monkeypatch.setattr(slurm, "queued", lambda: None)
    assert conduct(study, tmp_path / "jobs", on="slurm").made == 4


def test_a_cluster_that_refuses_jobs_is_an_environment_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = load(write_study(tmp_path, seeds=1))
    for name in ("sbatch", "srun"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'sbatch: fatal: no controller answers' >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"no controller answers.*--on local"):
        conduct(study, tmp_path / "jobs", on="slurm")
    assert list(tmp_path.glob(".servsim-slurm-*")) == []
