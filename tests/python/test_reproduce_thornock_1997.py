"""The study of 1997: its verdicts follow from the traces, and each can fail."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servsim.errors import UsageError
from servsim.reproduce import run, thornock_1997
from servsim.reproduce.thornock_1997 import rows, traces

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def test_every_row_has_a_verdict_and_every_missed_one_an_explanation() -> None:
    report = run("thornock-1997", quick=True)
    assert [row.name for row in report.rows] == [f"T{n}" for n in range(1, 9)]
    assert {row.name for row in report.rows if row.hard} == {"T1", "T2", "T3", "T6"}
    assert report.passed == all(row.passed for row in report.rows if row.hard)
    assert [row.name for row in report.rows if not row.passed and not row.explanation] == []
    text = report.render()
    for printed in ("0.125 ms", "0.35 %", "0.200 ms", "0.31 %", "117,759", "23,650,978", "-7.84 %"):
        assert printed in text.replace("\N{NO-BREAK SPACE}", " "), printed
    assert report.passed, text


def test_the_printed_sums_hold_and_a_wrong_one_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row.verdict for row in rows.cross_checks()[0]] == ["not measured", "not measured"]
    monkeypatch.setattr(rows, "PEL_ZD", dataclasses.replace(traces.PEL_ZD, reads=34_096))
    table, others = rows.cross_checks()[0]
    assert (table.verdict, others.verdict) == ("contradicted", "not measured")
    monkeypatch.setattr(rows, "SURFACES", 1201)
    assert rows.cross_checks()[0][1].verdict == "contradicted"


def test_the_measure_is_the_horizontal_distance_of_two_distributions() -> None:
    rng = np.random.default_rng(1)
    real = rng.exponential(10, 5000)
    assert rows.demerit_ms(real, real) == 0
    assert rows.demerit_ms(real + 2, real) == pytest.approx(2)
    assert rows.demerit_ms(rng.permutation(real), real) == 0
    # The standard error of a quantile, at most that of the mean times a few.
    assert 0.05 < rows.chance_ms(real) < 1


def test_tables_of_another_trace_miss_the_hard_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["arrival_us,op,lba,sectors,response_us"]
    for k in range(2000):
        lines.append(f"{k * 20_000},{k % 2},{int(rng.integers(0, 9)) * 8},8,{int(rng.exponential(5000)) + 1}")
    path = tmp_path / "made-up.csv"
    path.write_text("\n".join(lines))
    draw = rows._Model.draw
    monkeypatch.setattr(rows._Model, "draw", lambda model, seed: draw(model, seed) * 1.5)
    with traces.both(path) as (server, _):
        row = rows._whole(0, server, 2, str(tmp_path))
    assert row.hard and row.verdict == "missed"


def test_the_command_ends_with_one_when_a_hard_row_is_missed() -> None:
    program = (
        "import servsim.reproduce.thornock_1997 as study; from servsim.reproduce.thornock_1997 import rows; "
        "study.claims = lambda *_: ([], []); rows.SURFACES = 1; from servsim.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "reproduce", "thornock-1997", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "T2" in done.stderr
    assert not json.loads(done.stdout)["passed"]


def test_a_guest_with_too_few_requests_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match="more are needed"):
        thornock_1997.run(True, SHIPPED)
