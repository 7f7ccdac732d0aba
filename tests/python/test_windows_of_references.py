"""Windows of references: what they measure, what they say of themselves, what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.environment import shipped_trace
from servsim.progress import expected_references

SERVSIM = Path(sys.executable).with_name("servsim")
TRACE = str(shipped_trace())


def servsim(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *words], check=False, capture_output=True, text=True, timeout=300)


def test_references_are_measured_behind_a_warm_up_of_references(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    done = servsim(
        "simulate", TRACE, "-m", "foglia-2004-4p", "--references", "60000", "--warm-up", "9000", "-o", str(output)
    )
    assert done.returncode == 0, done.stderr
    assert "60000 references were measured wherever transactions began and ended" in done.stderr
    result = json.loads(output.read_text())
    assert 60_000 <= result["replications"][0]["references"] < 70_000
    assert result["options"]["window"] == {
        "references": 60_000,
        "warmup_references": 9_000,
        "to_the_end": False,
        "chosen_by": "options",
    }
    table = servsim("simulate", TRACE, "-m", "foglia-2004-4p", "--references", "60000", "--warm-up", "9000").stdout
    assert "measured: 60,000 references after 9,000 of warm-up" in table
    report = servsim("report", str(output), "-o", str(tmp_path / "report.html"))
    assert report.returncode == 0 and (tmp_path / "report.html").read_text().count("1,000 references"), report.stderr
    compared = servsim("compare", str(output), str(output))
    assert compared.returncode == 2 and "more --references, or with --transactions" in compared.stderr


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--references", "9", "--transactions", "2"), "leave one of them out"),
        (("--references", "9", "--engine", "functional"), "or --engine timing"),
        (("--references", "9", "--precision", "2%"), "--references"),
        (("--references", "900000000"), "use a shorter --warm-up, or a longer trace"),
    ],
)
def test_what_cannot_be_measured_so_is_refused_with_a_remedy(words: tuple[str, ...], remedy: str) -> None:
    done = servsim("simulate", TRACE, "-m", "foglia-2004-4p", *words)
    assert done.returncode == 2 and remedy in done.stderr, done.stderr


def test_a_cut_keeps_the_first_references(tmp_path: Path) -> None:
    output = tmp_path / "part.svt"
    done = servsim("trace", "cut", TRACE, "--references", "100000", "-o", str(output), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(servsim("trace", "info", str(output), "--json").stdout)["totals"]
    assert 100_000 <= told["instructions"] + told["data_references"] < 101_000


def test_how_many_references_a_run_will_take_is_known_before() -> None:
    trace = Path(TRACE)
    assert expected_references(trace, references=100, replications=3) == 600
    assert expected_references([trace, trace], references=100, warmup=50) == 300
