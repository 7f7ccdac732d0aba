"""Placement files and monitor programs through the command line: what they do to a run, and wrong ones refused."""

import json
import subprocess
import sys
from collections import Counter
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from servsim import Trace
from servsim.errors import UsageError
from servsim.simulation import simulate

SERVSIM = Path(sys.executable).with_name("servsim")
MACHINE = """name = "four"
processors = 4
[perturbation]
memory_delay = "0 cycles"
[cache]
size = "4 KiB"
associativity = 2
line = "64 B"
[interconnect]
kind = "network"
[node]
count = 4
threads = "pinned"
"""
PROGRAM = '[[filter]]\nstart = "0x100000"\nsize = "4 MiB"\ngranularity = "4 KiB"\ntypes = "read"\n'
#: Pages of each task, and lines of a page.
PAGES, LINES = 8, 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A machine of four nodes, and a trace of four tasks that each read pages of their own."""
    steps = [
        f"{task} L {0x10_0000 * (task + 1) + step * 64:x} 4 p" for step in range(PAGES * LINES) for task in range(4)
    ]
    (tmp_path / "t.txt").write_text("\n".join(steps) + "\n")
    (tmp_path / "four.toml").write_text(MACHINE)
    (tmp_path / "p.toml").write_text('node = 2\n[[page]]\naddresses = "0x100000..0x101000"\nnode = 4\n')
    (tmp_path / "m.toml").write_text(PROGRAM)
    return tmp_path


def servsim(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [SERVSIM, "simulate", "t.txt", "-m", "four.toml", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def read_from(result: Any) -> list[int]:
    """Lines read from the memory of each node."""
    lines = [0] * 4
    for pair in result["replications"][0]["nodes"]["pairs"]:
        lines[pair["to"] - 1] += pair["memory_reads"]
    return lines


def test_a_placement_file_moves_pages_and_is_kept_with_the_result(folder: Path) -> None:
    done = servsim(folder, "--placement", "p.toml", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert read_from(result) == [0, (4 * PAGES - 1) * LINES, 0, LINES]
    placement = result["options"]["placement"]
    assert placement["pages"] == [1]
    assert placement["text"] == (folder / "p.toml").read_text()
    own = simulate(folder / "t.txt", folder / "four.toml")
    assert read_from(own) == [PAGES * LINES] * 4, "without a file each page lies where it is touched first"


def test_a_monitor_counts_in_every_replication_and_changes_nothing(folder: Path) -> None:
    options = ("--placement", "p.toml", "--replications", 2, "--json")
    plain = json.loads(servsim(folder, *options).stdout)
    done = servsim(folder, *options, "--monitor", "m.toml", "-o", "r.json")
    assert done.returncode == 0, done.stderr
    watched = json.loads((folder / "r.json").read_text())
    assert json.loads(done.stdout) == watched
    for replication in watched["replications"]:
        histogram = replication.pop("monitor")["histogram"]
        # Nothing is remote to node 2 but what lies in node 4, which has a page of node 1's task.
        pages = [(node, address) for node, address in zip(histogram["node"], histogram["address"], strict=True)]
        assert len(pages) == 3 * PAGES and (1, "0x100000") in pages and 2 not in histogram["node"]
        assert set(histogram["count"]) == {LINES}
        assert set(histogram["processor"]) == {None}, "a card knows no processors"
    assert watched == plain


def test_parts_of_the_measured_transactions_are_counted_apart(tmp_path: Path) -> None:
    program = 'mode = "simulator"\n[[filter]]\nstart = "0x0"\nsize = "1 TiB"\ngranularity = "2 MiB"\n'

    def counted(parts: int, transactions: int) -> list[Counter[tuple[Any, ...]]]:
        (tmp_path / "m.toml").write_text(f"parts = {parts}\n{program}")
        window = {"warmup": 0, "transactions": transactions}
        result = simulate(Trace.example().path, "brock-2001-2x4", monitor=tmp_path / "m.toml", **window)
        histogram = result["replications"][0]["monitor"]["histogram"]
        found: list[Counter[tuple[Any, ...]]] = [Counter() for _ in range(parts)]
        rows = zip(*(histogram[name] for name in ("node", "processor", "address", "count")), strict=True)
        for part, (*counter, count) in zip(histogram.get("part", repeat(1)), rows, strict=False):
            found[part - 1][tuple(counter)] += count
        return found

    first, second = counted(2, 3)
    assert first + second == counted(1, 3)[0]
    # The first part ends with the first transaction, as a run of that alone does.
    assert first == counted(1, 1)[0] and second.total() > 0


WRONG = [
    ("--placement", 'node = "two"\n', "there is no two; this machine has 1 to 4"),
    ("--placement", "node = 9\n", "there is no 9; this machine has 1 to 4"),
    ("--placement", "node = \n", "line 1"),
    ("--placement", 'policy = "local"\n', "use first-touch"),
    ("--placement", 'policy = "stripped"\n', "did you mean `striped`?"),
    ("--placement", '[[page]]\nrelation = "item"\nnode = 1\n', "only captured traces tell"),
    ("--placement", '[[thread]]\ntask = "nobody"\nnode = 1\n', "the trace has no task `nobody`"),
    ("--monitor", "", "there is none, so nothing would be counted"),
    ("--monitor", PROGRAM.replace("4 KiB", "3 KiB"), "a power of two from 32 B to 2 MiB"),
    ("--monitor", PROGRAM.replace("4 KiB", "32 B"), "finer than the machine's lines of 64 B"),
    ("--monitor", PROGRAM.replace("0x100000", "0x100001"), "must be multiples of the granularity"),
    ("--monitor", PROGRAM.replace("4 MiB", "4 GiB"), "the monitor has 524288"),
    ("--monitor", PROGRAM * 33, "33 filters; the monitor has 32"),
    ("--monitor", 'mode = "spy"\n' + PROGRAM, "accepted are card, simulator"),
    ("--monitor", 'mode = "simulator"\nparts = 3\n' + PROGRAM, "and this run measures no number of them; leave out"),
]


@pytest.mark.parametrize(("option", "text", "words"), WRONG)
def test_a_wrong_file_is_one_sentence_and_writes_nothing(folder: Path, option: str, text: str, words: str) -> None:
    (folder / "wrong.toml").write_text(text)
    refused = servsim(folder, option, "wrong.toml", "-o", "r.json")
    assert refused.returncode == 2, refused.stdout
    assert words in refused.stderr and "wrong.toml" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (folder / "r.json").exists()


@pytest.mark.parametrize("option", ["--placement", "--monitor"])
def test_what_is_no_file_or_has_no_nodes_to_apply_to_is_refused(folder: Path, option: str) -> None:
    missing = servsim(folder, option, "none.toml")
    assert (missing.returncode, "cannot read none.toml: No such file" in missing.stderr) == (2, True), missing.stderr
    directory = servsim(folder, option, folder)
    assert (directory.returncode, "Is a directory" in directory.stderr) == (2, True), directory.stderr
    (folder / "bytes.toml").write_bytes(b"node = 1\n\xff\xfe\n")
    assert servsim(folder, option, "bytes.toml").returncode == 2
    file = folder / ("p.toml" if option == "--placement" else "m.toml")
    name = option.removeprefix("--")
    with pytest.raises(UsageError, match=r"node\.count"):
        simulate(folder / "t.txt", "foglia-2004-4p", **{name: file})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the functional engine knows no nodes"):
        simulate(folder / "t.txt", folder / "four.toml", engine="functional", **{name: file})  # type: ignore[arg-type]
    each = servsim(folder, "--engine", "functional", "--each", "cache.size=4KiB,8KiB", option, file)
    assert each.returncode == 2
    assert f"leave out {option}, or run the machines one by one" in each.stderr
