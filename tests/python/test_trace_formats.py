"""``servsim trace formats|export|import``, and foreign traces as input of ``servsim simulate``."""

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"

LACKEY = "==1== Lackey\nI  00400000,3\n L 00001000,8\nI  00400003,4\n M 0000103c,8\n==1== \n"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False)


def document(*arguments: object) -> Any:
    done = servsim(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def counts(trace: Path, *more: object) -> Any:
    """Return what the functional engine counts, the order of the trace kept."""
    found = document("simulate", trace, "-m", "foglia-2004-4p", "--engine", "functional", *more)
    only = found["replications"][0]
    return {key: only[key] for key in ("misses", "bus", "coherence", "distinct_lines", "references_by_kind")}


@pytest.fixture
def lackey(tmp_path: Path) -> Path:
    path = tmp_path / "small.lackey"
    path.write_text(LACKEY)
    return path


def test_formats_are_listed_with_what_they_hold_and_lack_wherever_one_is_named() -> None:
    found = document("trace", "formats")
    names = {entry["name"] for entry in found["formats"]}
    assert {"servsim", "text", "raw16", "din", "lackey", "champsim", "drmemtrace"} <= names
    assert all(entry["extensions"] and entry["holds"] and entry["lacks"] for entry in found["formats"])
    table = servsim("trace", "formats").stdout
    assert all(name in table for name in names)
    for command in (["simulate"], ["trace", "import"], ["trace", "export"]):
        text = " ".join(servsim(*command, "--help").stdout.replace("│", " ").split())
        assert "drmemtrace" in text, command


@pytest.mark.parametrize("name", ["small.din", "small.txt", "small.raw16", "small.din.xz", "again.lackey.gz"])
def test_an_export_counts_as_the_trace_itself(lackey: Path, name: str) -> None:
    output = lackey.with_name(name)
    written = document("trace", "export", lackey, "-o", output)
    assert written["references"] == 5
    assert written["file_bytes"] == output.stat().st_size
    assert counts(output) == counts(lackey)


def test_what_a_format_cannot_hold_is_said_once_on_stderr(lackey: Path) -> None:
    done = servsim("trace", "export", lackey, "--format", "champsim", "-o", lackey.with_name("small.trace"))
    assert done.returncode == 0
    assert done.stderr.count("not in champsim:") == 1
    assert "the size of 5 references" in done.stderr
    assert done.stdout == ""


def test_only_fetches_or_only_data_are_written_on_request(lackey: Path) -> None:
    for only, expected in (("fetch", 2), ("data", 3)):
        written = document("trace", "export", lackey, "--only", only, "-o", lackey.with_name(f"{only}.din"))
        assert written["references"] == expected


def test_an_exported_capture_counts_as_the_capture(tmp_path: Path) -> None:
    part, raw = tmp_path / "part.svt", tmp_path / "part.raw16"
    assert servsim("trace", "cut", SHIPPED, "--transactions", "0:2", "-o", part).returncode == 0
    done = servsim("trace", "export", part, "--processors", 4, "-o", raw)
    assert done.returncode == 0, done.stderr
    assert "the ends of 2 transactions" in done.stderr
    ours, theirs = counts(part), counts(raw)
    # The second half of an access to two scattered pages is a reference of its own in raw16.
    del ours["references_by_kind"], theirs["references_by_kind"]
    # The capture knows private pages from its mappings, raw16 does not: kinds of sharing differ.
    assert together(ours) == together(theirs)


def together(found: dict[str, Any]) -> dict[str, Any]:
    """Return counts with the kinds of sharing added up."""
    for key in ("misses", "coherence"):
        kinds = found[key]
        parts = [kinds.pop(f"{kind}_sharing") for kind in ("true", "false", "passive")]
        kinds["sharing"] = {mode: sum(part[mode] for part in parts) for mode in ("user", "kernel")}
    return found


def test_import_checks_a_trace_and_keeps_it(lackey: Path) -> None:
    output = lackey.with_name("kept.raw16")
    assert servsim("trace", "import", lackey, "-o", output).returncode == 0
    assert counts(output) == counts(lackey)
    assert output.stat().st_size == 5 * 16


def drmemtrace(folder: Path) -> Path:
    """Write a trace of two threads and return its directory."""
    for tid in (70, 71):
        records = [(25, 0, 6), (22, 4, tid), (24, 4, 7), (28, 2, 100 + tid)]
        for number in range(500):
            records += [(10, 4, 0x400000 + 4 * number), (number % 2, 8, 0x9000 + 64 * (number % 50) + tid)]
        packed = b"".join(struct.pack("<HHQ", *record) for record in [*records, (26, 0, 0)])
        path = folder / "drmemtrace.app.dir" / "trace" / f"drmemtrace.app.{tid}.0001.trace.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(packed))
    return folder / "drmemtrace.app.dir"


def test_threads_of_a_drmemtrace_directory_are_scheduled(tmp_path: Path) -> None:
    trace = drmemtrace(tmp_path)
    found = document("simulate", trace, "-m", "foglia-2004-4p")
    only = found["replications"][0]
    assert {task["name"] for task in only["tasks"]} == {"process 7, thread 70", "process 7, thread 71"}
    assert only["instructions"] == 1000
    assert sum(processor["busy_user"] > 0 for processor in only["processors"]) == 2
    assert found["trace"]["hash"].startswith("sha256:")
    assert only["coherence"]["total"]["user"] > 0, "the threads share their lines"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trace", "export", "{t}", "-o", "{d}/x.unknown"), "does not tell a format: say --format text|raw16"),
        (("trace", "export", "{t}", "--format", "dni", "-o", "{d}/x"), "did you mean `din`?"),
        (("trace", "export", "{t}", "--only", "loads", "-o", "{d}/x.din"), "accepted are all, fetch, data"),
        (("trace", "export", "{t}", "--from", "din", "-o", "{d}/x.din"), "is this a din trace?"),
        (("trace", "export", "{t}", "--format", "din", "-o", "{t}"), "is also an input"),
        (("trace", "export", "{t}", "-o", "{d}/no/such/x.din"), "No such file"),
        (("trace", "import", "{t}", "-o", "{d}/x.din"), "kept as *.raw16 or *.txt"),
        (("trace", "import", "{d}", "-o", "{d}/x.txt"), "no *.trace or *.memtrace file"),
        (("simulate", "{t}", "-m", "foglia-2004-4p", "--format", "lackeys"), "did you mean `lackey`?"),
    ],
)
def test_a_wrong_request_is_one_sentence(lackey: Path, arguments: tuple[str, ...], words: str) -> None:
    before = {path.name: path.read_bytes() for path in lackey.parent.iterdir()}
    done = servsim(*(argument.format(t=lackey, d=lackey.parent) for argument in arguments))
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("servsim: ")
    assert done.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in lackey.parent.iterdir()} == before
