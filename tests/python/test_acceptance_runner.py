"""The acceptance runner: dealing to shards, stamps, resuming after a kill, telling failures."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import has_ended, wait_for

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "scripts" / "acceptance.py"
sys.path.insert(0, str(ROOT / "scripts"))

import acceptance  # noqa: E402


def _entry(name: str, command: str, minutes: float = 1, needs: str = "", after: str = "") -> str:
    text = f"[[check]]\nname = \"{name}\"\nwhy = \"a test\"\ncommand = '''{command}'''\nminutes = {minutes}\n"
    return text + (f'needs = ["{needs}"]\n' if needs else "") + (f'after = "{after}"\n' if after else "")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a source tree under git with an empty list of checks."""
    (tmp_path / "tree" / "checks").mkdir(parents=True)
    (tmp_path / "tree" / "source.txt").write_text("one")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "tree", check=True)
    return tmp_path / "tree"


def _command(tree: Path, shard: str = "1/1") -> list[str]:
    places = ["--list", str(tree / "checks"), "--root", str(tree), "--cache", str(tree.parent / "cache")]
    return [sys.executable, str(RUNNER), "--shard", shard, *places]


def _run(tree: Path, shard: str = "1/1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(tree, shard), capture_output=True, text=True, check=False)


def test_a_passed_check_is_not_repeated_until_a_source_changes(tree: Path) -> None:
    counter = tree.parent / "count"
    (tree / "checks" / "a.toml").write_text(_entry("count", f"echo x >> {counter}"))
    assert _run(tree).returncode == 0
    assert "1 already passed" in _run(tree).stdout
    assert counter.read_text() == "x\n"
    (tree / "source.txt").write_text("two")
    assert "1 passed" in _run(tree).stdout
    assert counter.read_text() == "x\nx\n"


def test_a_failed_check_is_told_and_due_again(tree: Path) -> None:
    (tree / "checks" / "a.toml").write_text(_entry("bad", "echo reason; exit 4") + _entry("good", "true"))
    for passed in ("1 passed", "0 passed"):
        done = _run(tree)
        assert done.returncode == 1
        assert "1 failed" in done.stdout and passed in done.stdout
    (log,) = (tree.parent / "cache").rglob("bad.log")
    assert log.read_text() == "reason\n"


def test_a_killed_run_continues_where_it_stopped(tree: Path) -> None:
    started = tree.parent / "started"
    (tree / "checks" / "a.toml").write_text(
        _entry("first", "true", minutes=2) + _entry("slow", f"echo $$ > {started}; exec sleep 300", minutes=1)
    )
    child = subprocess.Popen(_command(tree), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: started.exists() and started.read_text().strip(), during=child)
    child.send_signal(signal.SIGTERM)
    _, messages = child.communicate(timeout=120)
    assert child.returncode == 130 and "continues from here" in messages
    wait_for(lambda: has_ended(int(started.read_text())), seconds=20)
    assert len(list((tree.parent / "cache").rglob("first.json"))) == 1
    assert list((tree.parent / "cache").rglob("slow.json")) == []


def test_shards_cover_every_check_once_and_balance_the_minutes() -> None:
    checks = [acceptance.Check(f"c{i}", "", "true", minutes) for i, minutes in enumerate([60, 50, 40, 20, 10, 5])]
    shards = acceptance.deal(checks, 3)
    assert sorted(check.name for shard in shards for check in shard) == [check.name for check in checks]
    loads = [sum(check.minutes for check in shard) for shard in shards]
    assert max(loads) - min(loads) <= 15


def test_an_unmet_need_skips_the_check_and_says_which(tree: Path) -> None:
    (tree / "checks" / "a.toml").write_text(_entry("alien", "true", needs="no-such-program-here"))
    done = _run(tree)
    assert done.returncode == 0 and "skipped, needs no-such-program-here" in done.stderr


@pytest.mark.parametrize("makes", ["true", "false"])
def test_a_check_that_uses_what_another_leaves_runs_behind_it_or_not_at_all(tree: Path, makes: str) -> None:
    made = tree.parent / "made"
    (tree / "checks" / "a.toml").write_text(
        _entry("last", "true", minutes=30, after="uses")
        + _entry("uses", f"test -e {made}", minutes=20, after="makes")
        + _entry("makes", f"{makes} && touch {made}")
        + _entry("apart", "true", minutes=10)
    )
    done = _run(tree)
    if makes == "true":
        assert done.returncode == 0 and "4 passed" in done.stdout
    else:
        assert done.returncode == 1 and "1 passed, 1 failed, 0 already passed, 2 skipped" in done.stdout
        assert (
            "uses: skipped, makes has not passed" in done.stderr and "last: skipped, uses has not passed" in done.stderr
        )
    checks = acceptance.load(tree / "checks")
    assert [[check.name for check in shard] for shard in acceptance.deal(checks, 2)] == [
        ["makes", "uses", "last"],
        ["apart"],
    ]


def test_a_check_behind_one_that_there_is_not_is_a_fault_of_the_list(tree: Path) -> None:
    (tree / "checks" / "a.toml").write_text(_entry("uses", "true", after="nothing"))
    done = _run(tree)
    assert done.returncode == 1 and "behind a check that there is not: uses" in done.stderr


@pytest.mark.parametrize("shard", ["0/2", "3/2", "half", "1"])
def test_a_senseless_shard_is_wrong_usage(tree: Path, shard: str) -> None:
    done = _run(tree, shard)
    assert done.returncode == 2 and "i/n" in done.stderr


def test_the_shipped_lists_are_well_formed() -> None:
    checks = acceptance.load(ROOT / "tests" / "acceptance")
    assert checks and all(check.minutes <= acceptance.SHARD_LIMIT_MINUTES for check in checks)
