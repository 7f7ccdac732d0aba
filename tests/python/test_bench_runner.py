"""The runner of benchmarks: medians, failures, what a stopped run leaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest
from waiting import has_ended, wait_for

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "scripts" / "bench.py"
sys.path.insert(0, str(ROOT / "scripts"))

import bench  # noqa: E402
import children  # noqa: E402


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


def _aim(figure: str, word: str, value: int) -> str:
    return f"[[benchmark.wanted]]\nfigure = '{figure}'\n{word} = {value}\n"


def test_what_is_aimed_at_is_told_met_or_not(lists: Path) -> None:
    for name, value, word in (("a", 7, "at_least"), ("b", 6, "at_least"), ("c", 7, "at_most"), ("d", 8, "at_most")):
        aims = _aim("ra", word, 7) + _aim("rate", "at_least", 99)
        (lists / f"{name}.toml").write_text(_entry(name, _figure(str(value))) + aims)
    (lists / "e.toml").write_text(_entry("e", _figure("1")) + _aim("size", "at_most", 1))
    shown = _run(lists).stdout.splitlines()[1:]
    wanted = ["at least 7", "at least 7, missed", "at most 7", "at most 7, missed", ""]
    assert [line.partition(" M/s ")[2].partition("1")[2].strip() for line in shown] == wanted
    figures = _read(lists.parent / "bench.json")["figures"]
    assert [row.get("at_least", row.get("at_most")) for row in figures] == [7, 7, 7, 7, None]


def test_rates_of_the_engines_are_written_into_a_page(lists: Path) -> None:
    (lists / "a.toml").write_text(_entry("engines", _figure("6")) + _aim("rate", "at_least", 7))
    (lists / "b.toml").write_text(_entry("disk", _figure("7")))
    assert _run(lists).returncode == 0
    page = lists.parent / "page.md"
    page.write_text("before\n<!-- rates: written by benches/rates.py --page -->\nold\n<!-- rates end -->\nafter\n")
    measured = lists.parent / "bench.json"
    subprocess.run([sys.executable, str(ROOT / "benches" / "rates.py"), str(measured), "--page", str(page)], check=True)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| engines | rate | 6 | M/s | at least 7, missed |" in text and "| disk |" not in text


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


class _Told:
    """Stands where the progress is shown, and keeps it."""

    def __init__(self) -> None:
        self.shares: list[tuple[str, float]] = []

    def __call__(self, what: str, share: float) -> None:
        self.shares.append((what, share))

    def note(self, sentence: str) -> None:
        pass

    def __enter__(self) -> "_Told":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_long_run_counts_as_it_goes_on(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = _Told()

    def run(_command: str, _root: Path, output: IO[str], *, meanwhile: Callable[[float], None]) -> int:
        # A benchmark of one minute that takes five.
        for minutes in (0.0, 0.25, 5.0):
            meanwhile(minutes)
        output.write('{"figures": []}')
        return 0

    monkeypatch.setattr(bench, "Progress", lambda: told)
    monkeypatch.setattr(children, "run", run)
    (lists / "a.toml").write_text(_entry("twice", "true", repeat=2) + _entry("last", "true", repeat=2))
    bench.perform(bench.load(lists), bench.Results(lists.parent / "bench.json"))
    assert [share for _, share in told.shares[:6]] == [0.0, 0.0625, 0.25, 0.25, 0.3125, 0.5]
    assert told.shares[-1] == ("last, run 2 of 2", 1.0)


def test_somebody_hears_how_long_a_command_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end, heard = tmp_path / "end", list[float]()

    def hear(minutes: float) -> None:
        heard.append(minutes)
        if len(heard) == 3:
            end.touch()

    monkeypatch.setattr(children, "PAUSE", 0.01)
    with (tmp_path / "output").open("w") as output:
        command = f"until [ -e {end} ]; do sleep 0.01; done; exit 5"
        assert children.run(command, tmp_path, output, meanwhile=hear) == 5
    assert heard[0] < heard[1] < heard[2] < 1


def test_a_command_that_starts_while_a_signal_arrives_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, start = list[int](), subprocess.Popen

    def start_late(*words: Any, **options: Any) -> subprocess.Popen[str]:
        child = start(*words, **options)
        started.append(child.pid)
        signal.raise_signal(signal.SIGINT)
        return child

    monkeypatch.setattr(subprocess, "Popen", start_late)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (tmp_path / "output").open("w") as output, pytest.raises(KeyboardInterrupt):
            children.run("exec sleep 60", tmp_path, output)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert has_ended(started[0])


def test_the_shipped_lists_are_well_formed() -> None:
    known = bench.load(ROOT / "benches")
    names = [benchmark.name for benchmark in known]
    assert known and len(set(names)) == len(names)
    assert all(benchmark.minutes > 0 and benchmark.repeat > 0 for benchmark in known)
    # Without a name, the tests of the package are told options of a benchmark.
    assert all("--bench " in one.command for one in known if "cargo bench" in one.command)
