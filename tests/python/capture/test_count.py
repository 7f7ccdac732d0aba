"""The counting plug-in, run by a stand-in for the emulator: whose instructions and references it counts.

The plug-in is C and checks captures; a figure of its own that is off looks like a fault of the capture.
"""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servsim.capture.count import compare
from servsim.cli.capture import _counted_twice

HERE = Path(__file__).parent
COUNT = HERE.parents[2] / "capture" / "count" / "count.c"

USER, KERNEL, SWITCH = "1000", "ffffffff81000000", "ffffffff81003270"
START, STOP = f"{USER} 2 0 0 m 2", f"{USER} 2 0 0 m 3"
#: Work of whoever runs: instructions, loads, stores.
WORK = (f"{USER} 100 30 20", f"{KERNEL} 10 3 2")
CLIENT, SERVER = 1, 11


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the plug-in and the stand-in as one program."""
    made = tmp_path_factory.mktemp("count") / "count"
    sources = [str(HERE / "one_processor.c"), str(COUNT)]
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", *sources, "-o", str(made)], check=True)
    return made


def counted(program: Path, tmp_path: Path, *blocks: str, client: str = "client") -> dict[str, list[int]]:
    """Run blocks between the marks; return instructions, loads and stores of user and kernel, of each group."""
    out = tmp_path / "counts.json"
    arguments = [f"out={out}", f"switch=0x{SWITCH}", "pid=1", "comm=2", f"client={client}"]
    text = "\n".join((*WORK, START, *blocks, STOP, *WORK)) + "\n"
    subprocess.run([program, *arguments], input=text, text=True, check=True)
    document = json.loads(out.read_text())
    return {group: list(document[group].values()) for group in ("measured", "client", "idle")}


def switch(before: int, after: int, *, cut: bool = False) -> list[str]:
    """Return the switch of the kernel: one block, or two where the emulator cuts it short."""
    tasks = f"s {before} {after}"
    if not cut:
        return [f"{SWITCH} 11 2 8 {tasks}"]
    return [f"{SWITCH} 7 0 7 {tasks}", f"{int(SWITCH, 16) + 21:x} 4 2 1"]


def test_what_runs_behind_the_block_of_a_switch_is_the_next_task_s(program: Path, tmp_path: Path) -> None:
    blocks = [*WORK, *switch(CLIENT, SERVER), *WORK, *switch(SERVER, 0), *WORK, *switch(0, CLIENT)]
    found = counted(program, tmp_path, *blocks)
    assert found["measured"] == [100, 30, 20, 10 + 11, 3 + 2, 2 + 8]
    assert found["idle"] == [100, 30, 20, 10 + 11, 3 + 2, 2 + 8]
    assert found["client"] == found["measured"], "its own switch away, and no mark"


@pytest.mark.parametrize(("cut", "kernel"), [("to", [10 + 4 + 11, 3 + 2 + 2, 2 + 1 + 8]), ("from", [10 + 7, 3, 2 + 7])])
def test_a_switch_that_the_emulator_cuts_short_ends_where_its_first_block_does(
    cut: str, kernel: list[int], program: Path, tmp_path: Path
) -> None:
    to_it = switch(CLIENT, SERVER, cut=cut == "to")
    found = counted(program, tmp_path, *to_it, *WORK, *switch(SERVER, CLIENT, cut=cut == "from"), *WORK)
    assert found["measured"] == [100, 30, 20, *kernel]


def test_a_program_that_marks_itself_is_measured_from_the_first_block_on(program: Path, tmp_path: Path) -> None:
    found = counted(program, tmp_path, *WORK, client="")
    assert found["measured"] == [100, 30, 20, 10, 3, 2] and not any(found["client"])


def test_one_instruction_too_many_is_no_agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = tmp_path / "counts.json"
    figures = {"user_instructions": 525_946_567, "kernel_instructions": 49_431_419}
    counts.write_text(json.dumps({"measured": figures, "transactions": 60}))

    def agree(**more: int) -> Any:
        current = {name: count + more.get(name, 0) for name, count in figures.items()}
        marked = {"while_server_current": current, "transactions": {"1": 60 + more.get("transactions", 0)}}
        text = json.dumps({"statistics": marked})
        monkeypatch.setattr("servsim._core", SimpleNamespace(trace_stats=lambda _: text))
        return compare(tmp_path / "trace.svt", counts)["agree"]

    assert agree()
    assert not agree(kernel_instructions=4) and not agree(user_instructions=-1) and not agree(transactions=1)


def test_it_is_told_which_part_of_all_that_ran_was_counted_twice() -> None:
    counts = {"instructions": (30, 7), "loads": (10, 2), "stores": (4, 1)}
    figures = {
        f"{mode}_{kind}": {"trace": both[at], "independent": both[at], "relative_difference": 0.0}
        for kind, both in counts.items()
        for at, mode in enumerate(("user", "kernel"))
    }
    first, *rest = _counted_twice({"verify": {"figures": figures}})
    assert "37 of these instructions and 17 of these data references, those of the server" in first
    assert len(rest) == 6 and rest[0] == "user instructions: trace 30, independent 30, difference 0.0000 %"
