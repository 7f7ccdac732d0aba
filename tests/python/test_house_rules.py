"""House rules that a reviewer should not have to check: length, unfinished work, private paths."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = {".rs", ".py", ".sh", ".c", ".h"}
LIMIT = 400

#: A longer file says why in its first lines, for example "Over 400 lines because ...".
REASON = re.compile(r"(over|beyond|longer than|more than) 400 lines", re.I)
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?! ?\(#\d+\))")
PRIVATE_PATH = re.compile(r"/(?:home|Users)/[a-z][\w.-]*/|[A-Z]:\\Users\\")


def _sources() -> list[Path]:
    """Return the text files of the repository: tracked ones and new ones that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and path != Path(__file__)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def too_long(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) > LIMIT and not REASON.search("\n".join(lines[:15]))


def test_a_file_over_the_limit_says_why_in_its_first_lines() -> None:
    code = [path for path in _sources() if path.suffix in CODE]
    assert code
    assert [str(path.relative_to(ROOT)) for path in code if too_long(_text(path))] == []


def test_unfinished_work_carries_an_issue_number() -> None:
    code = [path for path in _sources() if path.suffix in CODE]
    assert [str(path.relative_to(ROOT)) for path in code if UNFINISHED.search(_text(path))] == []


#: Where a test may pause, or draw a seed: waiting for an event, playing a program, and where acceptance asks for it.
PAUSES = {
    "tests/python/waiting.py",
    "tests/python/capture/fake_emulator.py",
    "crates/servsim-workload/tests/it/runs.rs",
}
DRAWS = {
    "tests/python/test_coverage_of_intervals.py",
    "crates/servsim-mem/tests/it/message_machine.rs",
    "crates/servsim-model/tests/it/common/mod.rs",
}
PAUSE = re.compile(r"^\s*(?:time\.|std::thread::|thread::)?sleep\(", re.M)
DRAW = re.compile(r"default_rng\(\)|\bRandom\(\)|\bsecrets\.|\burandom\(|SystemTime::|from_os_rng|rand::rng\(")


def test_tests_wait_for_events_and_repeat_their_seeds() -> None:
    tests = {str(path.relative_to(ROOT)): path for path in _sources() if path.suffix in {".rs", ".py"}}
    tests = {name: path for name, path in tests.items() if re.match(r"tests/python/|crates/[^/]+/tests/", name)}
    assert {name for name, path in tests.items() if PAUSE.search(_text(path))} == PAUSES
    assert {name for name, path in tests.items() if DRAW.search(_text(path))} == DRAWS


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    guilty = []
    for path in _sources():
        text = _text(path)
        if PRIVATE_PATH.search(text) or f"{ROOT}/" in text:
            guilty.append(str(path.relative_to(ROOT)))
    assert guilty == []


def test_no_tracked_file_exceeds_five_mebibytes() -> None:
    assert [str(path) for path in _sources() if path.stat().st_size > 5 * 1024 * 1024] == []


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("x\n" * 400, False),
        ("x\n" * 401, True),
        ("# Over 400 lines because of its table.\n" + "x\n" * 500, False),
    ],
)
def test_the_length_rule_accepts_a_reason(text: str, long: bool) -> None:
    assert too_long(text) is long


def test_the_other_rules_recognise_what_they_forbid() -> None:
    assert UNFINISHED.search("// TO" + "DO: later")
    assert not UNFINISHED.search("// TO" + "DO(#12): later")
    assert PRIVATE_PATH.search("/ho" + "me/ada/servsim/x")
