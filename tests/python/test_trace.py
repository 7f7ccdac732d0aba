"""``servsim trace`` on the really captured trace that ships: figures, selections, damaged files."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "trace", *map(str, arguments)], capture_output=True, text=True, check=False)


def document(*arguments: object) -> Any:
    done = servsim(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_shipped_trace_is_a_small_real_capture() -> None:
    assert SHIPPED.stat().st_size < 5 << 20
    info = document("info", SHIPPED)
    assert info["meta"]["provenance"]["emulator"].startswith("QEMU")
    assert info["truncated"] is None
    found = document("stats", SHIPPED)["statistics"]
    names = {task["name"] for task in found["tasks"] if task["counts"]["user_instructions"]}
    assert {"postgres", "servsim-oltp"} <= names
    assert found["total"]["kernel_instructions"] > 1_000_000
    assert sum(found["transactions"].values()) == info["totals"]["transactions"]
    assert found["bytes_per_data_reference"] <= 2.0


def test_the_table_for_people_names_what_was_captured() -> None:
    done = servsim("stats", SHIPPED)
    assert done.returncode == 0
    for word in ("New-Order", "postgres", "recvfrom", "bytes per data reference"):
        assert word in done.stdout


def test_cut_sample_and_merge_give_the_stated_transactions(tmp_path: Path) -> None:
    total = document("info", SHIPPED)["totals"]["transactions"]
    head, every_other, both = tmp_path / "head.svt", tmp_path / "other.svt", tmp_path / "both.svt"
    assert document("cut", SHIPPED, "--transactions", "0:2", "-o", head)["transactions"] == 2
    kept = document("sample", SHIPPED, "--keep", 1, "--of", 2, "-o", every_other)["transactions"]
    assert kept == (total + 1) // 2
    assert document("merge", head, every_other, "-o", both)["transactions"] == 2 + kept
    assert document("stats", both)["statistics"]["total"]["user_instructions"] > 0


def test_tasks_counted_to_the_load_generator_are_no_server_any_more(tmp_path: Path) -> None:
    database, same = tmp_path / "load.svt", tmp_path / "same.svt"
    before = {(task["pid"], task["name"]): task["client"] for task in document("info", SHIPPED)["tasks"]}
    document("cut", SHIPPED, "--as-load", "postgres", "-o", database)
    after = {(task["pid"], task["name"]): task["client"] for task in document("info", database)["tasks"]}
    assert after == {task: client or task[1] == "postgres" for task, client in before.items()} != before
    # What was executed is the same; only whose it is has changed.
    document("cut", SHIPPED, "-o", same)
    total = document("stats", same)["statistics"]["total"]
    assert document("stats", database)["statistics"]["total"] == total
    done = servsim("cut", SHIPPED, "--as-load", "no-such-server", "-o", tmp_path / "x.svt")
    assert done.returncode == 2 and "no-such-server" in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cut", SHIPPED, "--transactions", "7", "-o", "x.svt"), "is not a range: write FROM:TO"),
        (("cut", SHIPPED, "--transactions", "5:5", "-o", "x.svt"), "is empty"),
        (("cut", SHIPPED, "--transactions", "90000:90001", "-o", "x.svt"), "write --transactions 9:10"),
        (("cut", SHIPPED, "--transactions", "4:99", "-o", "x.svt"), "holds 10 transactions, not those of"),
        (("cut", SHIPPED, "-o", SHIPPED), "is also an input"),
        (("cut", SHIPPED, "--time", "0:inf", "-o", "x.svt"), "is no range of a trace"),
        (("cut", SHIPPED, "--transactions", "0:1e30", "-o", "x.svt"), "is no range of a trace"),
        (("check", __file__), "is not a servsim trace"),
        (("sample", SHIPPED, "--keep", 3, "--of", 2, "-o", "x.svt"), "keeps K of every N"),
        (("info", "no-such.svt"), "No such file"),
        (("info", __file__), "is not a servsim trace"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_loses_nothing(
    arguments: tuple[object, ...], words: str, tmp_path: Path
) -> None:
    before = SHIPPED.read_bytes()
    done = subprocess.run(
        [SERVSIM, "trace", *map(str, arguments)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert SHIPPED.read_bytes() == before


@pytest.mark.parametrize("command", [("simulate",), ("classify",), ("trace", "info"), ("disk", "import")])
def test_a_trace_that_somebody_compressed_is_told_as_one(command: tuple[str, ...], tmp_path: Path) -> None:
    compressed = tmp_path / "x.svt.gz"
    compressed.write_bytes(gzip.compress(SHIPPED.read_bytes()[:100_000]))
    machine = ("-m", "foglia-2004-4p") if len(command) == 1 else ()
    done = subprocess.run(
        [SERVSIM, *command, compressed, *machine], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 2 and "decompress it" in done.stderr, done.stderr


def test_a_truncated_trace_is_read_up_to_its_last_good_chunk_and_says_so(tmp_path: Path) -> None:
    cut = tmp_path / "cut.svt"
    cut.write_bytes(SHIPPED.read_bytes()[:-40])
    done = servsim("stats", cut, "--json")
    assert done.returncode == 0
    assert "is not whole: it ends after its last good chunk" in done.stderr
    assert json.loads(done.stdout)["statistics"]["total"]["user_instructions"] > 0


def test_a_flipped_bit_is_named_with_its_place(tmp_path: Path) -> None:
    flipped = bytearray(SHIPPED.read_bytes())
    flipped[len(flipped) // 2] ^= 0x10
    path = tmp_path / "flipped.svt"
    path.write_bytes(flipped)
    done = servsim("stats", path)
    assert done.returncode == 2
    assert "is damaged at byte" in done.stderr and "capture it again" in done.stderr


def test_a_check_prints_what_is_wrong_and_exits_with_1(tmp_path: Path) -> None:
    assert document("check", SHIPPED)["findings"] == []
    assert "keep every rule" in servsim("check", SHIPPED).stdout
    short = tmp_path / "short.svt"
    short.write_bytes(SHIPPED.read_bytes()[:-40])
    done = servsim("check", short)
    assert done.returncode == 1
    assert "is not whole" in done.stdout and "capture it again" in done.stderr


def test_a_negative_process_is_an_ordinary_mistake(tmp_path: Path) -> None:
    done = servsim("cut", SHIPPED, "--pid", "-1", "-o", tmp_path / "x.svt")
    assert done.returncode == 2 and "--pid" in done.stderr


def test_a_process_that_the_trace_does_not_have_is_refused_with_those_it_has(tmp_path: Path) -> None:
    done = servsim("cut", SHIPPED, "--pid", "132", "--pid", "99999", "-o", tmp_path / "x.svt")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "is process 99999: give one of" in done.stderr and " 132, " in done.stderr


def test_a_trace_that_ends_before_its_first_reference_is_told_and_counted(tmp_path: Path) -> None:
    short = tmp_path / "short.svt"
    short.write_bytes(SHIPPED.read_bytes()[:700_000])
    done = servsim("stats", short)
    assert done.returncode == 0, done.stderr
    assert "is not whole" in done.stderr and "guest time" in done.stdout
    assert "0.000 bytes" not in done.stdout


def test_a_trace_that_needs_more_memory_than_allowed_is_refused() -> None:
    arguments = [SERVSIM, "trace", "stats", str(SHIPPED)]
    allowed = {**os.environ, "SERVSIM_FILE_MEMORY": "1 MiB"}
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=allowed)
    assert done.returncode == 2
    assert "SERVSIM_FILE_MEMORY" in done.stderr


def test_another_version_of_the_format_is_refused(tmp_path: Path) -> None:
    changed = bytearray(SHIPPED.read_bytes())
    changed[8:12] = (2).to_bytes(4, "little")
    changed[12:16] = crc32c(bytes(changed[8:12])).to_bytes(4, "little")
    path = tmp_path / "version.svt"
    path.write_bytes(changed)
    done = servsim("info", path)
    assert done.returncode == 2
    assert "has trace format version 2, this servsim reads version 1" in done.stderr


def crc32c(data: bytes) -> int:
    """CRC-32C by its definition (RFC 3720, appendix B.4): reflected polynomial 0x82f63b78."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
