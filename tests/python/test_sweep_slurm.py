"""The Slurm engine with submitit's local executor in place of Slurm: jobs are processes of their own."""

import os
import signal
from pathlib import Path

import pytest
from servsim.errors import EnvironmentProblem
from servsim.sweep import conduct, load
from servsim.sweep.engines import slurm
from sweep_study import write_study

submitit = pytest.importorskip("submitit")


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
    monkeypatch.setattr(slurm, "execute", _die)
    with pytest.raises(EnvironmentProblem, match="repeat the command"):
        conduct(study, tmp_path / "jobs", on="slurm")
    monkeypatch.undo()
    assert conduct(study, tmp_path / "jobs").made == 4


def _die(_: object) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""
