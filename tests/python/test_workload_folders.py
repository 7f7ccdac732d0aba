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


@pytest.mark.parametrize("place", GENERAL)
def test_nothing_outside_the_folder_names_its_server(place: str) -> None:
    path = ROOT / place
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in SUFFIXES]
    assert files, f"{place} is gone: is what it held still looked at?"
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().split("#[cfg(test)]")[0].splitlines(), 1)
        if WORDS.search(line) and not any(word in line for word in ALLOWED)
    ]
    assert not found, "\n".join(found)


SUFFIXES = {"", ".py", ".rs", ".c", ".h", ".txt"}


def test_the_folder_is_found_by_these_words() -> None:
    oltp = ROOT / "capture" / "workloads" / "oltp"
    named: list[Path] = [file for file in oltp.iterdir() if WORDS.search(file.read_text())]
    assert len(named) >= 6, "the words are those of the folder"
