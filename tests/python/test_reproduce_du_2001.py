"""The Du et al. 2001 study against an independent solver's figures, and its audit."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from servsim.reproduce import run
from servsim.reproduce.du_2001 import audit, blocked, data, literal
from servsim.reproduce.du_2001.machine import Machine, configuration
from servsim.reproduce.report import Report

SERVSIM = Path(sys.executable).with_name("servsim")


@pytest.fixture(scope="module")
def report() -> Report:
    return run("du-2001")


def test_the_mix_weighs_table_6_to_the_known_averages() -> None:
    assert pytest.approx(18_591_224, abs=1) == data.CPU_VISITS
    assert pytest.approx(6_167_054, abs=1) == data.MEMORY_VISITS
    assert (pytest.approx(132.86), pytest.approx(300.52)) == (data.DISK_READS, data.DISK_WRITES)


def test_the_literal_equations_saturate_where_an_independent_solver_found() -> None:
    assert literal.solve(configuration("C2")).tpmc == pytest.approx(3.49, abs=0.01)
    assert literal.solve(configuration("C3")).tpmc == pytest.approx(4.440, abs=0.001)
    assert literal.solve(configuration("C4")).tpmc == pytest.approx(4.441, abs=0.001)
    solved = literal.solve(configuration("C2"))
    assert 100 * solved.disks[0] == pytest.approx(71.1, abs=0.1)
    assert 100 * solved.buses[0] == pytest.approx(49.4, abs=0.1)
    assert 100 * solved.memory_bus == pytest.approx(0.5, abs=0.05)


def test_the_blocked_reading_has_the_recommended_demands_and_rates() -> None:
    found = blocked.demands(configuration("C2"))
    assert found == pytest.approx({"memory": 0.3473, "bus 1": 0.2619, "disk 1.1": 0.3619}, abs=1e-4)
    assert blocked.processor_rates(4) == pytest.approx((0.9111, 1.7665, 2.0069, 2.1245), abs=1e-4)


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("11", "50", "tpmC", 47.4),
        ("13", "3072", "C6", 47.4),
        ("14", "600000", "C4", 47.4),
        ("15", "900000", "C6", 47.4),
        ("16", "25200", "C2", 47.3),
        ("17", "E", "tpmC", 47.4),
        ("18", "E", "disk 2", 0.2),
    ],
)
def test_the_blocked_cells_agree_with_the_independent_solver(
    report: Report, table: str, row: str, column: str, expected: float
) -> None:
    cell = next(c for c in report.cells if (c.table, c.row, c.column) == (table, row, column))
    assert cell.ours["blocked"] == pytest.approx(expected, abs=0.06)


def test_every_cell_of_tables_10_to_18_stands_beside_both_readings(report: Report) -> None:
    counts = {t: sum(c.table == t for c in report.cells) for t in map(str, range(10, 19))}
    assert counts == {"10": 4, "11": 12, "12": 25, "13": 25, "14": 25, "15": 25, "16": 25, "17": 5, "18": 30}
    assert all(set(c.ours) == {"literal", "blocked"} for c in report.cells)


def test_calibrated_cells_are_never_called_reproduced(report: Report) -> None:
    assert {c.verdict for c in report.cells if c.table == "10"} == {"calibrated"}
    bases = [c for c in report.cells if (c.column, c.unit) == ("C2", "tpmC") and c.paper == 47.2]
    assert bases
    assert {c.verdict for c in bases} == {"calibrated"}


def test_the_audit_flags_the_contradictory_tables(report: Report) -> None:
    rules = {(f.rule, t) for f in report.findings for t in f.tables}
    assert ("utilisation-law", "11") in rules
    assert ("scaling-bound", "11") in rules
    assert ("duplicate", "12") in rules
    assert ("population-bound", "15") in rules
    assert {("utilisation-law", "17"), ("utilisation-law", "18")} <= rules
    text = " ".join(f.message for f in report.findings)
    assert "95 of 111" in text
    assert "sum to 2.46" in text
    assert "61.74" in text


def test_the_audit_is_silent_on_figures_that_obey_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = {s: (47.2 * (1 + (100 - s) / 1000), 0.0, 40.3 * (1 + (100 - s) / 1000)) for s in data.TABLE_11}
    monkeypatch.setattr(data, "TABLE_11", sound)
    monkeypatch.setattr(data, "SWEEPS", {})
    monkeypatch.setattr(data, "TABLE_17", {})
    monkeypatch.setattr(data, "TABLE_10", {1: (24.6, 0.0)})
    assert audit.utilisation_law_11() == []
    assert audit.scaling_bound() == []
    assert audit.population_bound() == []
    assert audit.elasticity_sum() == []


def test_the_headline_is_said_to_be_flattened(report: Report) -> None:
    assert any("flattens Table 17" in note and "headline" in note for note in report.notes)


def test_allocation_needs_every_table_on_a_disk() -> None:
    shares = Machine(2, data.ALLOCATIONS["E"]).shares()
    assert sum(map(sum, shares)) == pytest.approx(1.0)
    assert shares[1][1] == pytest.approx(0.733, abs=0.001)


def test_a_missed_hard_row_fails_the_report(report: Report) -> None:
    assert report.passed
    broken = replace(report, checks=[replace(report.checks[0], passed=False), *report.checks[1:]])
    assert not broken.passed


def test_the_command_prints_tables_and_json() -> None:
    done = subprocess.run([SERVSIM, "reproduce", "du-2001", "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "servsim.reproduce/1"
    assert found["passed"] is True
    unknown = subprocess.run([SERVSIM, "reproduce", "du-2002"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "du-2001" in unknown.stderr
