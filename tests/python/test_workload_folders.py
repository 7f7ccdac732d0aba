"""What servsim knows of a server stands in the folder of its workload: nothing outside it names the server."""

import re
from pathlib import Path

import pytest
from servsim.cache import checkout

ROOT = checkout("tests")
#: Words that only the folder and the driver of the OLTP workload have a use for.
WORDS = re.compile(r"postgres|warehouse|LWLock|\bpg_[a-z]|tpc-?c", re.IGNORECASE)
#: Where workloads in general are built, captured, run and listed.
GENERAL = (
    *("python/servsim/capture", "python/servsim/workloads", "python/servsim/cli/capture.py"),
    *("python/servsim/cli/workload.py", "python/servsim/quickstart.py"),
    *("capture/plugin/src", "capture/guest", "capture/client", "capture/count"),
    *("crates/servsim-trace/src", "crates/servsim-core/src", "crates/servsim-driver/src"),
)
#: Lines that may: what they are an example of, or why the word is another one.
ALLOWED = (
    'such as ``"warehouses * items"``',
    "table and warehouse",  # the driver's streams of random numbers are counted by what they fill
    "TPC-C",  # names of specifications that a comment cites, and of the shipped trace
)


def named(place: str, words: re.Pattern[str]) -> list[str]:
    """Return the lines of a place that hold one of the words, outside its tests."""
    path = ROOT / place
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in SUFFIXES]
    assert files, f"{place} is gone: is what it held still looked at?"
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().split("#[cfg(test)]")[0].splitlines(), 1)
        if words.search(line) and not any(word in line for word in ALLOWED)
    ]


@pytest.mark.parametrize("place", GENERAL)
def test_nothing_outside_the_folder_names_its_server(place: str) -> None:
    found = [*named(place, WORDS), *named(place, re.compile("redis(?!t)", re.IGNORECASE))]
    assert not found, "\n".join(found)


SUFFIXES = {"", ".py", ".rs", ".c", ".h", ".txt"}


def test_the_page_tells_how_many_lines_the_example_has() -> None:
    files = sorted((ROOT / "examples" / "workloads" / "redis").iterdir())
    lines = sum(len(file.read_text().splitlines()) for file in files)
    told = re.search(r"(\d+) lines in (\d+) files", (ROOT / "docs" / "workloads.md").read_text())
    assert told is not None and (int(told[1]), int(told[2])) == (lines, len(files))


def test_the_folder_is_found_by_these_words() -> None:
    oltp = ROOT / "capture" / "workloads" / "oltp"
    found: list[Path] = [file for file in oltp.iterdir() if WORDS.search(file.read_text())]
    assert len(found) >= 6, "the words are those of the folder"
