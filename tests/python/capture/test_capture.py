"""The real thing: PostgreSQL captured in the guest, compared with an independent count, replayed.

Needs root and the emulator; skips elsewhere, saying why.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import SETTINGS
from servsim import _core
from servsim.capture import Checkpoint
from servsim.capture.count import compare, counting_plugin
from servsim.capture.record import Captured
from servsim.capture.workload import capture
from servsim.errors import EnvironmentProblem
from servsim.trace.syscalls import SYSCALL_NAMES
from waiting import wait_for

pytestmark = [pytest.mark.guest, pytest.mark.timeout(1800)]

TRANSACTIONS = 40
#: Another than that of the load, so that they are not mistaken for one another.
SEED = 9


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("count") / "counts.json"


@pytest.fixture(scope="module")
def captured(checkpoint: Checkpoint, counts: Path, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """One capture, watched by the counting plug-in."""
    output = tmp_path_factory.mktemp("trace") / "oltp.svt"
    return capture(
        TRANSACTIONS,
        output,
        progress=print,
        seed=SEED,
        settings=SETTINGS,
        observers=lambda at: [counting_plugin(at, counts, "servsim-oltp")],
    )


def test_marks_replies_and_server_agree(captured: Captured) -> None:
    assert captured.summary["totals"]["transactions"] == TRANSACTIONS
    assert captured.driver["transactions"] == TRANSACTIONS
    assert captured.driver["valid"], "client, server and rows agree"
    assert captured.driver["check"]["passed"], "the consistency conditions hold"


def test_an_independent_count_of_the_same_run_agrees(captured: Captured, counts: Path) -> None:
    found = compare(captured.trace, counts)
    assert found["agree"], found
    assert all(figure["trace"] == figure["independent"] > 0 for figure in found["figures"].values()), "to the unit"


def test_the_capture_is_consistent_with_itself(captured: Captured) -> None:
    summary = captured.summary
    assert summary["inconsistent_switches"] == 0
    assert summary["stray_accesses"] == 0
    assert summary["checked_translations"] > 1000
    assert summary["stale_translations"] == 0


def test_a_captured_reference_takes_less_than_a_byte(captured: Captured) -> None:
    assert captured.as_document()["bytes_per_data_reference"] < 1.0


def test_the_trace_shows_tasks_calls_disk_and_locks(captured: Captured) -> None:
    found = json.loads(_core.trace_stats(captured.trace))["statistics"]
    servers = [task for task in found["tasks"] if task["name"] == "postgres" and task["transactions"] == 0]
    clients = [task for task in found["tasks"] if task["client"]]
    assert len(servers) >= SETTINGS.users
    assert {task["name"] for task in clients} == {"servsim-oltp"}
    ending = [task["transactions"] for task in clients if task["transactions"]]
    assert (len(ending), sum(ending)) == (SETTINGS.users, TRANSACTIONS), "every user has a thread of its own"
    assert "clone" not in calls(found) and "clone3" not in calls(found), "and all had one before the start mark"
    assert found["total"]["kernel_instructions"] > 0.02 * found["total"]["user_instructions"]
    assert found["syscalls"] and found["interrupts"]
    assert found["io_writes"] > 0, "every commit is flushed to the disk"
    assert found["lock_acquires"] > 1000
    surplus = found["lock_releases"] - found["lock_acquires"]
    assert abs(surplus) < 0.01 * found["lock_acquires"], "a lock is taken as often as it is given up"


def test_the_server_was_warm_and_the_trace_says_so(captured: Captured) -> None:
    found = json.loads(_core.trace_stats(captured.trace))["statistics"]
    assert found["io_reads"] <= 0.1 * TRANSACTIONS, "the database was in memory"
    provenance = json.loads(_core.trace_info(captured.trace))["meta"]["provenance"]
    assert re.match(
        r"settled after [\d,]+ transactions: [\d.]+ M instructions of the server and 0\.0", provenance["warm_up"]
    )
    assert provenance["scale"].startswith("20 warehouses of 3 districts of 30 customers, 100 items (TPC-C: 10 ")
    assert (provenance["seed"], provenance["settings"]["data_seed"]) == (SEED, SETTINGS.values()["data_seed"])


def calls(found: dict[str, Any]) -> set[str]:
    """Return the names of the system calls of a trace."""
    return {SYSCALL_NAMES.get(int(number), number) for number in found["syscalls"]}


def test_the_functional_engine_touches_exactly_the_recorded_references(captured: Captured) -> None:
    from servsim.simulation import simulate

    result = simulate(captured.trace, "foglia-2004-4p", engine="functional")
    stated = json.loads(_core.trace_stats(captured.trace))["statistics"]
    tasks = result["replications"][0]["tasks"]
    assert [task["name"] for task in tasks] == [task["name"] for task in stated["tasks"]]
    kinds = (("fetch", "instructions"), ("load", "loads"), ("store", "stores"))
    for touched, recorded in zip(tasks, stated["tasks"], strict=True):
        for mode in ("user", "kernel"):
            for kind, name in kinds:
                assert touched[kind][mode] == recorded["counts"][f"{mode}_{name}"], (touched, recorded)


def test_misses_are_told_by_relation_and_structure(captured: Captured) -> None:
    from servsim.classification import classify

    result = classify(captured.trace, "foglia-2004-4p", by="relation", top=1000, transactions="all")
    names = {row["name"] for row in result["rows"]}
    tables = {"warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"}
    assert tables <= names, "every table of the workload is touched, and known in its buffer"
    assert {"Buffer Descriptors", "XLOG Ctl", "Proc Header", "LOCK hash"} <= names
    shared = sum(sum(row["misses"]["total"].values()) for row in result["rows"] if row["name"] == "(shared memory)")
    every = sum(sum(row["misses"]["total"].values()) for row in result["rows"])
    assert shared < 0.02 * every, "almost all of shared memory has a name"


def test_a_full_disk_leaves_nothing_and_says_so(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(EnvironmentProblem, match="MiB free"):
            capture(TRANSACTIONS, small / "t.svt", SETTINGS)
        # There may have been room when it began.
        monkeypatch.setattr("servsim.capture.room.demand", lambda *_: None)
        with pytest.raises(EnvironmentProblem, match="No space left on device"):
            capture(TRANSACTIONS, small / "t.svt", SETTINGS)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_ctrl_c_leaves_neither_emulator_nor_trace(checkpoint: Checkpoint, tmp_path: Path) -> None:
    script = (
        # A shell that runs the tests in the background has them ignore the signal, and so would this process.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from pathlib import Path; from servsim.capture.workload import capture; "
        "from servsim.capture.folder_settings import chosen; "
        f"capture(5000, Path({str(tmp_path / 't.svt')!r}), chosen('oltp', **{dict(SETTINGS.given)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)
    wait_for(lambda: list(tmp_path.glob(".t.svt.capture-*/.t.svt.*.part")), during=process, seconds=300)
    emulators = children(process.pid)
    assert emulators
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in emulators)
    assert list(tmp_path.iterdir()) == []


def children(parent: int) -> list[int]:
    """Return the processes whose parent this is."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found
