"""``servsim classify``: tables, JSON and the watched line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servsim import _core
from servsim.classification import classify
from servsim.errors import UsageError

SERVSIM = Path(sys.executable).with_name("servsim")
#: Processors 0 and 1 write different words of line 0x1000 in turn.
TRACE = "0 S 1000 4 s\n1 S 1040 4 s\n0 S 1000 4 s\n1 S 1040 4 s k\n"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False)


def classified(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    trace = folder / "trace.txt"
    trace.write_text(TRACE, encoding="ascii")
    return servsim("classify", trace, "-m", "foglia-2004-4p", *arguments)


def test_false_sharing_is_found_with_its_words(tmp_path: Path) -> None:
    done = classified(tmp_path, "--json", "--sort", "false")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == "servsim.classify/1" and result["by"] == "line"
    (line,) = result["rows"]
    assert line["misses"]["false_sharing"] == {"user": 1, "kernel": 1}
    assert line["words"] == [{"offset": 0, "tasks": ["0"]}, {"offset": 64, "tasks": ["1"]}]


def test_the_table_is_aligned(tmp_path: Path) -> None:
    done = classified(tmp_path)
    rows = [line for line in done.stdout.splitlines() if line.startswith(("by line", "0x1000"))]
    assert len(rows) == 2
    assert rows[0].index("|") == rows[1].index("|")
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("  false sharing")][:1]
    assert row.split()[2:] == ["1", "1", "2", "50.0", "%"]


def test_a_watched_address_prints_each_step(tmp_path: Path) -> None:
    done = classified(tmp_path, "--watch", "0x1044")
    assert done.returncode == 0, done.stderr
    steps = done.stdout.splitlines()
    assert steps[0] == "line 0x1000: 9 steps"
    assert [" ".join(steps[i].split()) for i in (3, 4)] == [
        "1 cpu 0 cpu 0 0 user store PrWr I -> M BusRdX cold",
        "2 cpu 0 cpu 1 1 user store BusRdX M -> I",
    ]


def test_wrong_words_name_the_nearest_and_exit_with_2(tmp_path: Path) -> None:
    for option, value, nearest in [("--by", "lines", "line"), ("--sort", "flase", "false")]:
        done = classified(tmp_path, option, value)
        assert done.returncode == 2 and f"`{nearest}`" in done.stderr
    done = classified(tmp_path, "--set", "protocol.private_on_switch=flsh")
    assert done.returncode == 2 and "flush" in done.stderr
    assert classified(tmp_path, "--watch", "main").returncode == 2
    assert classified(tmp_path, "--by", "symbol").returncode == 2


def _passive(modes: dict[str, dict[str, int]]) -> int:
    return sum(modes["passive_sharing"].values())


def test_passive_sharing_is_of_tasks_that_move_and_the_answer_says_that_none_does(tmp_path: Path) -> None:
    # Three tasks with data of their own on two processors: a scheduler moves them, the order of the trace does not.
    trace = tmp_path / "three.txt"
    rows = [f"{task} S {0x1000 * (task + 1) + 128 * (i % 8):x} 4 p" for i in range(4000) for task in range(3)]
    trace.write_text("\n".join(rows) + "\n", encoding="ascii")
    common = (trace, "-m", "foglia-2004-4p", "--set", "processors=2", "--json")
    classes = json.loads(servsim("classify", *common).stdout)
    counted = json.loads(servsim("simulate", *common, "--engine", "functional").stdout)["replications"][0]
    slices = ("--set", "scheduler.time_slice=100 references")
    timed = json.loads(servsim("simulate", *common, *slices).stdout)["replications"][0]
    assert classes["engine"] == "functional" and classes["total"]["misses"] == counted["misses"]
    assert _passive(classes["total"]["misses"]) == 0 == _passive(counted["misses"])
    assert timed["migrations"] > 10 and _passive(timed["misses"]) > 10
    assert "show in `servsim simulate`, whose scheduler moves them" in servsim("classify", *common[:-1]).stdout


def test_passive_sharing_shows_where_the_trace_itself_moves_a_task(tmp_path: Path) -> None:
    trace = tmp_path / "moved.txt"
    trace.write_text("".join(f"0 S 1000 4 p @{cpu}\n" for cpu in (0, 1, 0, 1)), encoding="ascii")
    done = servsim("classify", trace, "-m", "foglia-2004-4p", "--json")
    assert done.returncode == 0, done.stderr
    assert _passive(json.loads(done.stdout)["total"]["misses"]) > 0


SHIPPED = Path(_core.__file__).with_name("data") / "quickstart.svt"


def test_relations_come_from_the_description_of_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "described.svt"
    shutil.copy(SHIPPED, trace)
    refused = servsim("classify", trace, "-m", "foglia-2004-4p", "--by", "relation")
    assert refused.returncode == 2 and "capture it again" in refused.stderr
    # All user addresses of the server: those of the program and its heap, and those of mappings and stacks.
    _core.trace_describe_shared_data(trace, "program postgres\n0 600000000000 low\n600000000000 200000000000 high\n")
    done = servsim("classify", trace, "-m", "foglia-2004-4p", "--by", "relation", "--top", 1000, "--json")
    assert done.returncode == 0, done.stderr
    by_area = json.loads(servsim("classify", trace, "-m", "foglia-2004-4p", "--json").stdout)
    names = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert {"low", "high", "(kernel text)"} <= set(names)
    whole = sum(sum(row["misses"]["total"].values()) for row in by_area["rows"])
    assert sum(sum(row["misses"]["total"].values()) for row in names.values()) == whole
    assert json.loads(servsim("trace", "info", trace, "--json").stdout)["shared_data_ranges"] == 2


def test_the_transactions_that_simulate_measures_are_classified() -> None:
    common = (SHIPPED, "-m", "foglia-2004-4p")
    found = json.loads(servsim("classify", *common, "--json").stdout)
    measured = json.loads(servsim("simulate", *common, "--json").stdout)
    assert found["window"] == measured["options"]["window"]
    done = servsim("classify", *common, "--warm-up", 2, "--transactions", "all")
    assert "classified: transactions 3 to 10 of 10 in the trace and what follows the last" in done.stdout
    assert "caches that began empty" in done.stderr
    assert servsim("classify", *common, "--warm-up", 10).returncode == 2
    watched = servsim("classify", *common, "--watch", "1000", "--warm-up", 2)
    assert watched.returncode == 2 and "leave it out" in watched.stderr
    with pytest.raises(UsageError, match="from the beginning"):
        classify(SHIPPED, "foglia-2004-4p", watch=4096, transactions="all")


def test_a_damaged_description_is_refused_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "described.svt"
    shutil.copy(SHIPPED, trace)
    _core.trace_describe_shared_data(trace, "program postgres\n10 zz item\n")
    done = servsim("classify", trace, "-m", "foglia-2004-4p", "--by", "relation")
    assert done.returncode == 2 and "line 2" in done.stderr


def test_a_machine_of_three_levels_is_classified_as_it_is_simulated(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(TRACE, encoding="ascii")
    common = (trace, "-m", "epyc-9124-cxl", "--set", "cache.line=128 B")
    classes = json.loads(servsim("classify", *common, "--json").stdout)
    counted = json.loads(servsim("simulate", *common, "--json", "--engine", "functional").stdout)["replications"][0]
    assert classes["total"]["misses"] == counted["misses"]
    assert classes["total"]["misses"]["false_sharing"] == {"user": 1, "kernel": 1}
    head = servsim("classify", *common).stdout.splitlines()[0]
    assert "16 processors, 32 KiB split caches, 1 MiB private l2, 16 MiB group l3, 128 B lines, moesi" in head
    refused = servsim("classify", *common, "--set", "prefetch.policy=next-line")
    assert refused.returncode == 2 and "leave out [tlb] and [prefetch]" in refused.stderr


def test_a_watched_line_names_the_half_of_a_split_cache(tmp_path: Path) -> None:
    steps = classified(tmp_path, "--watch", "0x1044", "--set", "cache.organisation=split").stdout.splitlines()
    assert "2 cpu 0 data cpu 1 data 1 user store BusRdX M -> I" in " ".join(steps[4].split())
