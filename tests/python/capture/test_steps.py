"""A program that fails is one sentence with its reason and its log."""

from pathlib import Path

import pytest
from servsim.capture.steps import Steps, silent
from servsim.errors import EnvironmentProblem


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("one; echo two", "two"),
        (
            "I: begins; echo E: Unable to locate package nosuch; echo E: setup failed",
            "Unable to locate package nosuch; setup failed",
        ),
        (
            "a.c:3:5: error: one; echo a.c:9:1: error: two; echo a.c:9:1: error: three; echo 3 errors",
            "a.c:3:5: error: one; a.c:9:1: error: two",
        ),
        ("", "it said nothing"),
    ],
)
def test_the_first_errors_or_else_the_last_line_are_the_reason(tmp_path: Path, says: str, why: str) -> None:
    steps = Steps(silent, tmp_path / "log")
    # Of a step before it nothing is told.
    steps.run("before", ["sh", "-c", "echo E: passed over"])
    with pytest.raises(
        EnvironmentProblem, match=rf"^a job failed with code 3: {why}; all that it said is in {tmp_path}/log$"
    ):
        steps.run("a job", ["sh", "-c", f"{f'echo {says};' if says else ''} exit 3"])
