import os
import subprocess
from pathlib import Path

import pytest
from servsim import disk
from servsim.errors import EnvironmentProblem, UsageError


def test_capture_without_tracefs_says_what_to_do(tmp_path: Path) -> None:
    from servsim.disk.capture import capture

    with pytest.raises(EnvironmentProblem, match="mount -t tracefs"):
        capture(tmp_path / "x", 0.1, method="tracefs", mounted=tmp_path)


def test_capture_into_a_folder_that_is_not_there_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    from servsim.disk.capture import capture

    for folder in ("instances", "events/block/block_rq_complete"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot write"):
        capture(tmp_path / "absent" / "x", 0.1, method="tracefs", mounted=tmp_path)


def test_a_capture_leaves_no_trace_instance(tmp_path: Path, tracefs: Path) -> None:
    from servsim.disk.capture import capture

    facts = capture(tmp_path / "x", 0.3, method="tracefs", mounted=tracefs)
    assert (facts["method"], facts["method_reason"]) == ("tracefs", None)
    assert facts["lost_events"] >= 0 and facts["seconds"] < 30
    assert not list((tracefs / "instances").glob(f"servsim-{os.getpid()}"))


def test_the_next_capture_removes_the_instances_of_killed_ones_only(tmp_path: Path) -> None:
    from servsim.disk.tracefs import _remove_abandoned

    ended = subprocess.Popen(["true"])
    ended.wait()
    kept = {f"servsim-{os.getpid()}", "somebody-else"}
    for name in {*kept, f"servsim-{ended.pid}"}:
        (tmp_path / name).mkdir()
    _remove_abandoned(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_page_of_the_ring_buffer_is_read_with_its_long_and_absolute_times() -> None:
    import struct

    from servsim.disk import ring

    def entry(kind: int, delta: int, *words: int) -> bytes:
        return struct.pack(f"={1 + len(words)}I", kind | delta << 5, *words)

    data = (
        entry(2, 5, 11, 0)  # 8 bytes, 5 ns on
        + entry(ring.TIME_EXTEND, 3, 2)  # 2 << 27 and 3 ns on
        + entry(ring.PADDING, 9, 8, 0)  # discarded: no time of its own
        + entry(0, 1, 12, 22, 0)  # length behind the heading: 12 with itself
        + entry(ring.TIME_STAMP, 7, 4)
        + entry(1, 2, 33)
    )
    first = 1_000
    page = struct.pack("=QQ", first, len(data) | 1 << 31) + data + bytes(4096 - 16 - len(data))
    found = [(time, struct.unpack_from("=I", page, at)[0]) for time, at, _ in ring.entries(page)]
    long = first + 5 + (2 << 27) + 3 + 1
    assert found == [(first + 5, 11), (long, 22), ((4 << 27) + 7 + 2, 33)]


def test_events_of_all_processors_become_lines_in_order_of_time_that_can_be_imported(tmp_path: Path) -> None:
    import io
    import struct

    from servsim.disk import ring

    def layout(name: str, number: int, fields: str) -> tuple[int, ring.Layout]:
        common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
        common += "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        common += "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
        common += "\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
        common += "\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n"
        return ring.layout_of(f"name: {name}\nID: {number}\nformat:\n{common}{fields}")

    issue = "\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;\n"
    issue += "\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n"
    issue += "\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;\n"
    issue += "\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n"
    complete = "\tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n"
    complete += "\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n"
    complete += "\tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;\n"
    layouts = dict([layout("block_rq_issue", 7, issue), layout("block_rq_complete", 8, complete)])

    def page(time_ns: int, record: bytes) -> bytes:
        data = struct.pack("=I", len(record) // 4) + record
        return struct.pack("=QQ", time_ns, len(data)) + data + bytes(4096 - 16 - len(data))

    where = struct.pack("=HHiI4xQI", 7, 0, 42, 253 << 20 | 1, 5_000_000_000, 8)
    issued = where + struct.pack("=I2x10s16sI", 4096, b"RS", b"reader", 64 | 4 << 16) + b"\0\0\0\0"
    done = b"\x08\0" + where[2:] + struct.pack("=i2x10sI", -5, b"RS", 48 | 4 << 16) + b"\0\0\0\0"
    spools = {
        0: io.BytesIO(page(3_000_001_500, done) + page(7_000_000_000, issued)),
        1: io.BytesIO(page(3_000_000_250, issued)),
    }
    text = b"".join(ring.text_of(spools, 4096, layouts))
    assert text.decode().splitlines() == [
        "<...>-42 [001] 3.000000250: block_rq_issue: 253,1 RS 4096 () 5000000000 + 8 [reader]",
        "<...>-42 [000] 3.000001500: block_rq_complete: 253,1 RS () 5000000000 + 8 [-5]",
        "<...>-42 [000] 7.000000000: block_rq_issue: 253,1 RS 4096 () 5000000000 + 8 [reader]",
    ]
    (tmp_path / "x").write_bytes(text)
    report = disk.import_trace(disk.Source(str(tmp_path / "x"), format="tracefs"), str(tmp_path / "y"))
    assert (report["requests"], report["unrecognised_lines"]) == (1, 0)


def test_what_is_captured_is_what_the_kernel_itself_writes(tmp_path: Path, tracefs: Path) -> None:
    import re

    from servsim.disk.tracefs import Instance

    def events(text: str) -> list[tuple[str, ...]]:
        pattern = r"\[(\d+)\].* (\d+\.\d{6})\d*: (block_rq_\w+): (\S+ \S+).*\) (\d+ \+ \d+) .*(\[[^]]*\])$"
        return [tuple(match) for match in re.findall(pattern, text, re.MULTILINE)]

    with Instance(tmp_path, tracefs) as instance:
        instance.record(True)
        for number in range(20):
            with (tmp_path / "written").open("wb") as file:
                file.write(bytes(4096 * (number + 1)))
                file.flush()
                os.fsync(file.fileno())
        instance.record(False)
        kernel = events((tracefs / "instances" / f"servsim-{os.getpid()}" / "trace").read_text())
        instance.copy()
        with (tmp_path / "x").open("wb") as sink:
            instance.write(sink)
    if not kernel:
        pytest.skip("files here are on no block device")
    ours = events((tmp_path / "x").read_text())

    def place(entry: tuple[str, ...]) -> tuple[str, ...]:
        return (entry[0], *entry[2:])

    assert sorted(map(place, ours)) == sorted(map(place, kernel))
    # The kernel rounds to microseconds; we cut there.
    times = [sorted(float(entry[1]) for entry in found) for found in (ours, kernel)]
    assert all(abs(a - b) < 1.5e-6 for a, b in zip(*times, strict=True))
