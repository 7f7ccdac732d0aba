"""The flow of the main job, with stand-ins for the guest and the simulator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from servsim import quickstart
from servsim.errors import EnvironmentProblem

Said = list[str]


class Job:
    """Stand-ins that note how they were called; the simulator's is the layout document."""

    def __init__(self, folder: Path, obstacle: str | None = None, shipped: bool = True) -> None:
        self.calls: list[dict[str, Any]] = []
        self.said: Said = []
        self.failure: Exception | None = None
        place = folder / "shipped.svt"
        place.write_bytes(b"trace")
        self.plan = quickstart.Plan(folder / "out" / "answer.html")
        self.steps = quickstart.Steps(
            lambda: obstacle,
            lambda: place if shipped else None,
            self._capture,
            lambda _: 200,
            lambda _: "7 warehouses",
            self._simulate,
        )

    def _capture(self, transactions: int, output: Path, users: int, progress: Callable[..., None]) -> object:
        if self.failure:
            raise self.failure
        self.calls.append({"transactions": transactions, "users": users})
        output.write_bytes(b"captured")
        return None

    def _simulate(self, **options: Any) -> dict[str, Any]:
        assert options["trace"].is_file()
        self.calls.append(options)
        return layout_result(replications=options["replications"])

    def run(self) -> quickstart.Outcome:
        return quickstart.run(self.plan, self.steps, self.said.append, lambda *_: None)


def test_the_workload_is_captured_simulated_and_reported(tmp_path: Path) -> None:
    job = Job(tmp_path)
    outcome, plan = job.run(), job.plan
    capture, simulation = job.calls
    assert capture == {"transactions": 288, "users": 12}
    assert simulation["trace"] == tmp_path / "out" / "answer.svt"
    assert not {"warmup", "transactions"} & simulation.keys(), "the tool chooses the window, and judges it"
    assert (simulation["machine"], simulation["replications"], simulation["seed"]) == (plan.machine, 4, 1)
    assert outcome.obstacle is None
    assert outcome.report.read_text().startswith("<!doctype html>")
    assert (tmp_path / "out" / "answer.json").is_file()


def test_without_a_usable_guest_one_sentence_says_so_and_the_shipped_trace_is_used(tmp_path: Path) -> None:
    job = Job(tmp_path, obstacle="no emulator (install it)")
    outcome = job.run()
    assert outcome.trace == tmp_path / "shipped.svt"
    (sentence,) = [said for said in job.said if "ships with servsim" in said]
    assert "no emulator (install it)" in sentence
    assert len(job.calls) == 1, "nothing was captured"


def test_a_guest_that_fails_is_told_and_the_shipped_trace_is_used(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.failure = EnvironmentProblem("the guest did not boot: see boot.log")
    assert job.run().obstacle == "the guest did not boot: see boot.log"


def test_a_bug_in_the_capture_is_not_hidden_behind_the_shipped_trace(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        job.run()


def test_with_neither_guest_nor_shipped_trace_the_environment_is_to_blame(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"no emulator.*reinstall"):
        Job(tmp_path, obstacle="no emulator", shipped=False).run()


@pytest.mark.parametrize("obstacle", [None, "no emulator"])
def test_the_answer_has_ten_lines_and_ends_with_the_report(tmp_path: Path, obstacle: str | None) -> None:
    outcome = Job(tmp_path, obstacle).run()
    lines = quickstart.answer(outcome)
    assert len(lines) == 10 and all(line and "\n" not in line for line in lines)
    assert lines[-1] == f"Report: {outcome.report}"
    assert ("captured here" in lines[1]) == (obstacle is None)
    assert lines[1].endswith("; 7 warehouses")


def test_the_outcome_is_a_versioned_document(tmp_path: Path) -> None:
    document = Job(tmp_path).run().as_document()
    assert document["schema"] == "servsim.quickstart/1" and document["captured"] is True
    assert document["result"]["schema"] == "servsim.simulate/1"
