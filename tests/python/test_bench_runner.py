"""The runner of benchmarks: medians, failures, what a stopped run leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import has_ended, wait_for

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "scripts" / "bench.py"
sys.path.insert(0, str(ROOT / "scripts"))

import bench  # noqa: E402


def _entry(name: str, command: str, repeat: int = 1) -> str:
    text = f"[[benchmark]]\nname = \"{name}\"\nwhat = \"a test\"\ncommand = '''{command}'''\n"
    return text + f"minutes = 1\nrepeat = {repeat}\n"


def _figure(value: str) -> str:
    return f'echo noise; echo \'{{"figures": [{{"name": "rate", "unit": "M/s", "value": \'{value}\'}}]}}\''


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    return tmp_path / "lists"


def _command(lists: Path, *words: str) -> list[str]:
    return [sys.executable, str(RUNNER), "--list", str(lists), "-o", str(lists.parent / "bench.json"), *words]


def _run(lists: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(lists, *words), capture_output=True, text=True, check=False)


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_every_value_is_kept_beside_the_median(lists: Path) -> None:
    count = lists.parent / "count"
    grow = f"echo x >> {count}; n=$(wc -l < {count}); "
    (lists / "a.toml").write_text(_entry("three", grow + _figure('"$((10 * n * n))"'), repeat=3))
    done = _run(lists)
    assert done.returncode == 0, done.stderr
    document = _read(lists.parent / "bench.json")
    row = {"benchmark": "three", "name": "rate", "unit": "M/s", "values": [10, 40, 90], "median": 40}
    assert document["figures"] == [row]
    assert len(document["seconds"]["three"]) == 3
    assert document["left"] == document["failed"] == []
    assert "three: rate" in done.stdout and "40" in done.stdout
    assert not (lists.parent / "bench.partial.json").exists()


def test_one_that_fails_is_told_and_the_others_are_run(lists: Path) -> None:
    (lists / "a.toml").write_text(_entry("bad", "exit 3") + _entry("silent", "true") + _entry("good", _figure("7")))
    done = _run(lists)
    assert done.returncode == 1
    assert "bad: no figure: exit code 3" in done.stderr and "silent: no figure" in done.stderr
    document = _read(lists.parent / "bench.json")
    assert document["failed"] == ["bad", "silent"]
    assert [row["benchmark"] for row in document["figures"]] == ["good"]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_leaves_what_it_measured_and_nothing_that_passes_for_whole(lists: Path, by: int) -> None:
    started = lists.parent / "started"
    slow = f"echo $$ > {started}; exec sleep 300"
    (lists / "a.toml").write_text(_entry("quick", _figure("7")) + _entry("slow", slow) + _entry("last", "true"))
    child = subprocess.Popen(_command(lists), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: started.exists() and started.read_text().strip(), during=child)
    child.send_signal(by)
    process = int(started.read_text())
    if by == signal.SIGKILL:
        os.kill(process, signal.SIGKILL)
    shown, messages = child.communicate(timeout=120)
    if by == signal.SIGTERM:
        assert child.returncode == 130 and "bench.partial.json" in messages and "quick: rate" in shown
        wait_for(lambda: has_ended(process), seconds=20)
    assert not (lists.parent / "bench.json").exists()
    document = _read(lists.parent / "bench.partial.json")
    assert document["left"] == ["slow", "last"]
    assert [row["benchmark"] for row in document["figures"]] == ["quick"]


def test_a_name_that_none_has_is_wrong_usage(lists: Path) -> None:
    (lists / "a.toml").write_text(_entry("first", "true"))
    done = _run(lists, "second")
    assert done.returncode == 2 and "'second'" in done.stderr and "first" in done.stderr


def test_the_shipped_lists_are_well_formed() -> None:
    known = bench.load(ROOT / "benches")
    names = [benchmark.name for benchmark in known]
    assert known and len(set(names)) == len(names)
    assert all(benchmark.minutes > 0 and benchmark.repeat > 0 for benchmark in known)
    # Without a name, the tests of the package are told options of a benchmark.
    assert all("--bench " in one.command for one in known if "cargo bench" in one.command)
