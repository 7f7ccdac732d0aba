"""``servsim simulate`` on the really captured trace that ships."""

import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import servsim
from servsim import simulation

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
MACHINE = Path(servsim.__file__).with_name("machines") / "foglia-2004-4p.toml"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False)


def simulated(*arguments: object) -> Any:
    done = servsim("simulate", SHIPPED, "--machine", "foglia-2004-4p", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def mean(result: Any, name: str) -> float:
    return float(result["summary"][name]["mean"])


@pytest.fixture(scope="module")
def four() -> Any:
    return simulated("--replications", 3)


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads() -> None:
    window = ("--warm-up", 2, "--transactions", 2, "--replications", 2)
    command = ("simulate", SHIPPED, "-m", "foglia-2004-4p", *window, "--json")
    one, two = (servsim(*command, "--threads", n) for n in (1, 2))
    assert one.stdout == two.stdout != ""
    assert servsim(*command, "--seed", 9).stdout != one.stdout


def test_a_result_says_what_its_trace_is_a_trace_of(four: Any) -> None:
    assert four["workload"]["name"].startswith("oltp")
    assert [four["workload"][key] for key in ("warehouses", "districts", "customers", "items")] == [200, 3, 30, 100]


def test_more_processors_finish_the_transactions_sooner_and_use_the_bus_more(four: Any) -> None:
    one = simulated("--set", "processors=1")
    two = simulated("--set", "processors=2")
    cycles = [mean(result, "cycles_per_transaction") for result in (one, two, four)]
    assert cycles[0] > cycles[1] > cycles[2]
    use = [mean(result, "bus_utilization") for result in (one, two, four)]
    assert use[0] < use[1] < use[2]


def test_every_figure_has_its_interval_and_count(four: Any) -> None:
    for name, figure in four["summary"].items():
        low, high = figure["interval_95"]
        assert figure["n"] == 3 and low <= figure["mean"] <= high, name
    replication = four["replications"][0]
    kinds = ("cold", "capacity", "conflict", "true_sharing", "false_sharing", "passive_sharing")
    for mode in ("user", "kernel"):
        assert sum(replication["misses"][kind][mode] for kind in kinds) == replication["misses"]["total"][mode]


def test_more_processors_than_ready_tasks_is_a_warning() -> None:
    result = simulated("--set", "processors=32")
    assert any("processors outnumber the ready tasks" in warning["text"] for warning in result["warnings"])


def test_figures_that_are_zero_share_one_line() -> None:
    done = servsim("simulate", SHIPPED, "-m", "brock-2001-4x4", "--transactions", 1, "--warm-up", 1)
    assert done.returncode == 0, done.stderr
    figures, _, rest = done.stdout.partition("0 in every run: ")
    zeros = rest.partition("\n\n")[0].replace("\n ", "")
    assert "nodes.retries" in zeros and "cycles" not in zeros
    assert " 0 (n = 1" not in figures and "nodes.data_packets" in figures


def test_the_default_window_is_the_steady_middle_of_the_trace_and_is_told() -> None:
    chosen = simulated()
    assert chosen["options"]["window"] == {
        "first": 6, "last": 8, "of": 10, "users": 5, "to_the_end": False, "chosen_by": "trace"
    }  # fmt: skip
    asked = simulated("--warm-up", 5, "--transactions", 3)
    assert asked["options"]["window"]["chosen_by"] == "options"
    assert asked["replications"] == chosen["replications"]


def test_a_window_that_reaches_behind_the_last_transaction_is_invalid_and_told_first() -> None:
    done = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--transactions", "all", "--json")
    warnings = json.loads(done.stdout)["warnings"]
    assert (warnings[0]["rank"], warnings[0]["code"]) == ("invalid", "out-of-work")
    ranks = [("invalid", "weak", "note").index(warning["rank"]) for warning in warnings]
    assert ranks == sorted(ranks)
    told = [line for line in done.stderr.splitlines() if "warning: " in line]
    assert "INVALID" in told[0] and not any("INVALID" in line for line in told[1:])


def test_more_transactions_than_the_trace_holds_are_refused_before_the_run_with_their_number() -> None:
    done = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--transactions", 5000)
    assert done.returncode == 2 and "the trace holds 10" in done.stderr
    done = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--transactions", "many")
    assert done.returncode == 2 and "or all" in done.stderr


def test_a_truncated_trace_is_simulated_with_a_warning(tmp_path: Path) -> None:
    cut = tmp_path / "cut.svt"
    cut.write_bytes(SHIPPED.read_bytes()[:-40])
    done = servsim("simulate", cut, "-m", "foglia-2004-4p", "--engine", "functional", "--json")
    assert done.returncode == 0
    assert "is not whole" in done.stderr
    assert any("is not whole" in warning["text"] for warning in json.loads(done.stdout)["warnings"])


@pytest.mark.parametrize("engine", ["timing", "functional"])
def test_a_trace_that_holds_nothing_is_refused(engine: str, tmp_path: Path) -> None:
    # What is left is no whole chunk, so not one reference.
    (tmp_path / "cut.svt").write_bytes(SHIPPED.read_bytes()[:50_000])
    for name in ("empty.raw16", "empty.txt"):
        (tmp_path / name).touch()
    for name, words in (
        ("cut.svt", "nothing was recorded before that: capture it again"),
        ("empty.raw16", "no reference in it"),
        ("empty.txt", "no reference in it"),
    ):
        done = servsim("simulate", tmp_path / name, "-m", "foglia-2004-4p", "--engine", engine)
        assert done.returncode == 2 and words in done.stderr and not done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no.svt", "-m", "foglia-2004-4p"), "there is no trace"),
        ((SHIPPED, "-m", "foglia-2005"), "shipped are"),
        ((SHIPPED, "-m", "foglia-2004-4p", "--set", "cache.size=12345 B"), "whole number of lines"),
        ((SHIPPED, "-m", "foglia-2004-4p", "--set", "cache.sise=64 KiB"), "cache.size"),
        ((SHIPPED, "-m", "foglia-2004-4p", "--set", "cache.size=64"), "KiB"),
        ((SHIPPED, "-m", "foglia-2004-4p", "--engine", "fast"), "timing, functional"),
    ],
)
def test_a_wrong_request_is_refused_with_the_remedy(arguments: tuple[object, ...], words: str) -> None:
    done = servsim("simulate", *arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_all_faults_of_a_description_come_at_once(tmp_path: Path) -> None:
    description = tmp_path / "bad.toml"
    text = MACHINE.read_text().replace('line = "', 'lime = "').replace('clock = "1 GHz"', "clock = 1000")
    description.write_text(text)
    done = servsim("simulate", SHIPPED, "-m", description)
    assert done.returncode == 2
    assert "clock" in done.stderr and "lime" in done.stderr and "bad.toml" in done.stderr


def test_ctrl_c_ends_the_simulation_at_once_with_130() -> None:
    # On a terminal it says at once that it simulates.
    terminal, theirs = pty.openpty()
    command = [SERVSIM, "simulate", SHIPPED, "-m", "foglia-2004-4p", "--replications", "500"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    told = b""
    while b"simulating" not in told:
        told += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    os.close(terminal)


def test_the_former_spelling_of_the_warm_up_still_works_and_is_not_shown() -> None:
    help_text = servsim("simulate", "--help").stdout
    assert "--warm-up" in help_text
    assert "--warmup" not in help_text
    options = ("--transactions", 2)
    assert simulated(*options, "--warm-up", 2) == simulated(*options, "--warmup", 2)
    assert simulated(*options, "--warm-up", 2)["options"]["warmup"] == 2


def test_a_trace_whose_users_wake_shared_tasks_is_not_thinned_out() -> None:
    refused = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--users", 2)
    assert refused.returncode == 2
    assert "capture the workload with 2 users instead" in refused.stderr
    assert simulated("--users", 5, "--transactions", 1)["options"]["users"] == 5


def test_page_colouring_changes_conflicts_and_no_count_of_references() -> None:
    captured, coloured = (
        simulated("--engine", "functional", "--set", f"memory.mapping={name}") for name in ("captured", "coloured")
    )
    for key in ("references", "references_by_kind", "transactions", "tasks", "distinct_lines"):
        assert captured["replications"][0][key] == coloured["replications"][0][key]
    conflicts = [result["replications"][0]["misses"]["conflict"] for result in (captured, coloured)]
    assert conflicts[0] != conflicts[1]


def test_a_long_end_after_the_last_transaction_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "end.txt"
    lines = [f"0 L {64 * i:x}" for i in range(6000)]
    trace.write_text("\n".join([*lines[:2000], "0 X sale", *lines[2000:]]) + "\n")
    words = "after the last transaction: use --transactions"
    whole = servsim("simulate", trace, "-m", "foglia-2004-4p", "--transactions", "all")
    assert words in whole.stderr and "INVALID" in whole.stderr
    assert words not in servsim("simulate", trace, "-m", "foglia-2004-4p").stderr


def test_a_trace_that_is_hashed_beside_its_run_has_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one thread, as a captured trace is, it is hashed first; the results do not differ."""
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("servsim.hashes.LEAST", 3)
    trace = tmp_path / "t.txt"
    trace.write_text("0 L 1000\n0 S 1040\n" * 50)
    runs = [simulation.simulate(trace, "foglia-2004-4p", engine="functional", threads=threads) for threads in (None, 1)]
    assert runs[0] == runs[1]
    assert runs[0]["trace"]["hash"] == "sha256:" + hashlib.sha256(trace.read_bytes()).hexdigest()
