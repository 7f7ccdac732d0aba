"""Measurements from CSV files: the same demands as from TOML, and mistakes named by line and column."""

import subprocess
import sys
from pathlib import Path

import pytest
from servsim.cli import run
from servsim.errors import UsageError
from servsim.model import fit
from servsim.model.fitted import from_fit
from servsim.model.measurements import csv_measurements

SERVSIM = Path(sys.executable).with_name("servsim")
EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
TABLE = """time,throughput,utilization cpu,utilization disk,# remark
12:00,10,0.2,30%,quiet
12:05,20,0.4,60%,

12:10,30,0.6,90%,busy
"""


def test_demands_from_a_csv_file_are_those_behind_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    path.write_text(TABLE)
    columns = fit(csv_measurements(path), is_json=True).columns()
    assert columns["station"] == ["cpu", "disk"]
    assert columns["demand_s"] == pytest.approx([0.02, 0.03])
    done = subprocess.run([SERVSIM, "model", "fit", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cpu / requests    20 ms" in done.stdout, done.stdout


def test_several_classes_have_a_column_each(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    path.write_text(
        "throughput read,throughput write,utilization disk,response\n10,1,0.25,0.1\n10,5,0.45,\n2,9,0.49,.3\n"
    )
    columns = fit(csv_measurements(path), is_json=True).columns()
    assert columns["class"] == ["read", "write"]
    assert columns["demand_s"] == pytest.approx([0.02, 0.05])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("throughput,utilization cpu\n", "has no measurements"),
        ("throughput,load cpu\n1,2\n", "line 1: column 'load cpu' is not understood"),
        ("throughput,response\n1,2\n", "there is no column `utilization STATION`"),
        ("utilization cpu\n1\n", "there is no column `throughput`"),
        ("throughput,utilization a,utilization a\n1,.1,.2\n", "two columns are about 'a'"),
        ("throughput,utilization a\n1,.1\n2\n", "line 3: 1 values for 2 columns"),
        ("throughput,utilization a\n1,.1\n2,n/a\n", "line 3, column 'utilization a': 'n/a' is no number"),
        ("throughput,utilization a\n1,nan\n", "'nan' is no number"),
    ],
)
def test_a_mistake_is_named_by_line_and_column(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        csv_measurements(path)
    assert message in str(caught.value)


def test_work_beside_requests_and_samples_far_off_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{x},{0.20 + 0.02 * x + (0.3 if x == 7 else 0.0):.4f},{0.01 * x:.4f}" for x in range(20)]
    file = tmp_path / "busy.csv"
    file.write_text("throughput,utilization cpu,utilization disk\n" + "\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["servsim", "model", "fit", str(file)])
    assert run() == 0
    told = capsys.readouterr()
    assert "without any request" in told.out and "disk:" not in told.out
    assert "sample 8: cpu was 64.0% busy" in told.err


def test_a_model_has_the_servers_at_which_it_was_measured(tmp_path: Path) -> None:
    text = (EXAMPLES / "measurements.toml").read_text(encoding="utf-8")
    found = fit(text.replace("sample = [", "servers = [4, 1]\nsample = [", 1))
    cpu, disk = from_fit(found, think=1.0, load=20).stations
    assert (cpu.servers, disk.servers) == (4, 1)
    alone = from_fit(fit(text), think=1.0, load=20).stations[0]
    assert cpu.demand["read"] == pytest.approx(4 * alone.demand["read"], rel=0.02)


def test_a_model_serves_in_turn_where_that_is_said() -> None:
    found = fit((EXAMPLES / "measurements.toml").read_text(encoding="utf-8"))
    cpu, disk = from_fit(found, think=1.0, load=20, in_turn=["disk"]).stations
    assert (cpu.discipline, disk.discipline) == ("ps", "fcfs")
    with pytest.raises(UsageError, match="no station 'tape'; the measurements have cpu, disk"):
        from_fit(found, think=1.0, load=20, in_turn=["tape"])


@pytest.mark.parametrize("command", ["allocate", "fit"])
def test_what_is_wrong_with_a_description_names_file_and_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('classes = ["a"]\nstations = [\n')
    done = subprocess.run([SERVSIM, "model", command, path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"{path}, line 3: not TOML" in done.stderr, done.stderr
