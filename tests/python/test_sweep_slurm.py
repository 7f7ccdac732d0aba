"""The Slurm engine with submitit's local executor in place of Slurm: jobs are processes of their own."""

import os
import signal
import time
from pathlib import Path

import pytest
from servsim.errors import EnvironmentProblem, UsageError
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
    # The files of this host are there at once; those of a cluster may come 15 s after the end of a job.
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 0)
    monkeypatch.setattr(slurm, "POLL", 0.1)


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


@pytest.mark.usefixtures("stand_in")
def test_one_failed_job_leaves_the_others_running_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, real = load(write_study(tmp_path, seeds=1)), slurm.execute
    # Whichever comes first dies; the others end after it.
    marker = tmp_path / "first"

    def first_dies(job: object) -> str:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return real(job)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    monkeypatch.setattr(slurm, "execute", first_dies)
    with pytest.raises(EnvironmentProblem, match=r"job \d+ failed .*repeat the command"):
        conduct(study, tmp_path / "jobs", on="slurm")
    monkeypatch.undo()
    assert conduct(study, tmp_path / "jobs").made == 1, "three of the four were kept"


@pytest.mark.usefixtures("stand_in")
def test_more_runs_than_an_array_may_have_become_several_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load(write_study(tmp_path, seeds=1))
    sizes, submit = [], slurm._submit
    monkeypatch.setattr(slurm, "largest_array", lambda: 3)
    monkeypatch.setattr(
        slurm, "_submit", lambda executor, jobs, folder: sizes.append(len(jobs)) or submit(executor, jobs, folder)
    )
    assert conduct(study, tmp_path / "jobs", on="slurm").made == 4
    assert sizes == [2, 2]


def test_jobs_are_spread_over_as_few_arrays_as_the_limit_allows() -> None:
    for count, largest, sizes in (
        (4, 1000, [4]),
        (5, 2, [1, 2, 2]),
        (1000, 1000, [1000]),
        (0, 5, []),
        (3, 1, [1, 1, 1]),
    ):
        parts = slurm.arrays(count, largest)
        assert [len(part) for part in parts] == sizes
        assert [at for part in parts for at in part] == list(range(count))


@pytest.mark.parametrize(
    ("target", "found"),
    [("", ("", None)), ("short", ("short", None)), ("short,time=90min", ("short", 90)), (",time=12 h", ("", 720))],
)
def test_partition_and_time_limit_are_read(target: str, found: tuple[str, int | None]) -> None:
    assert slurm.parse(target) == found


@pytest.mark.parametrize("target", ["a,b", "a,time=12", "a,time=0h", "a,time=1h,x"])
def test_another_target_is_refused_with_an_example(target: str) -> None:
    with pytest.raises(UsageError, match="time=12h"):
        slurm.parse(target)


def _cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put programs of a cluster on the path."""
    for name, body in programs.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("sinfo", "target", "minutes"),
    [
        ("echo 'short* 1-02:30:00'", "slurm", 26 * 60 + 30),
        ("echo 'long 30:00'; echo 'short* 2:00:00'", "slurm", 120),
        ("echo 'short infinite'", "slurm:short", 24 * 60),
        ("exit 1", "slurm:short", 24 * 60),
        ("echo 'short* 2:00:00'", "slurm:short,time=3d", 3 * 24 * 60),
    ],
)
def test_a_job_may_run_as_long_as_was_asked_for_or_its_partition_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str, target: str, minutes: int
) -> None:
    study = load(write_study(tmp_path, seeds=1))
    _cluster(
        tmp_path,
        monkeypatch,
        sinfo=sinfo,
        srun="exit 0",
        scontrol="echo 'MaxArraySize            = 3'",
        sbatch=f"cat $1 >> {tmp_path}/submitted; echo 'no more' >&2; exit 1",
    )
    with pytest.raises(EnvironmentProblem, match="no more"):
        conduct(study, tmp_path / "jobs", on=target)
    script = (tmp_path / "submitted").read_text()
    assert f"#SBATCH --time={minutes}\n" in script
    assert "#SBATCH --array=0-1%" in script, "two arrays of two jobs, as none may have more"


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
