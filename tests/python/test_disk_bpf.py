"""The capture by a program in the kernel: choosing it, reading its rings, and, where it runs, what it notes."""

import ctypes
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_capture import number_of, work
from servsim import _core, disk
from servsim.cli import main
from servsim.disk import bpf, capture, diskstats, libbpf
from servsim.disk.tracefs import Instance
from servsim.errors import EnvironmentProblem, UsageError
from waiting import wait_for

#: Unlike any kernel's, to see that the kernel's own numbers are used.
OPERATIONS = {"REQ_OP_READ": 7, "REQ_OP_WRITE": 8, "REQ_OP_FLUSH": 9, "REQ_OP_DISCARD": 10, "REQ_OP_SECURE_ERASE": 11}
OPERATIONS |= {"REQ_OP_WRITE_ZEROES": 12, "REQ_OP_DRV_IN": 13, "REQ_OP_DRV_OUT": 14}
BITS = {"__REQ_META": 20, "__REQ_SYNC": 21, "__REQ_RAHEAD": 22, "__REQ_FUA": 23, "__REQ_PREFLUSH": 24}
WORDS = bpf.Words(OPERATIONS, BITS)


def flags(operation: str, *names: str) -> int:
    return OPERATIONS[f"REQ_OP_{operation}"] | sum(1 << BITS[f"__REQ_{name}"] for name in names)


def event(kind: int, time_ns: int, sector: int = 5_000_000_000, **more: Any) -> tuple[Any, ...]:
    values = {"serial": 1, "time_ns": time_ns, "sector": sector, "device": 253 << 20 | 1, "kind": kind, "pid": 42}
    values |= {"flags": flags("READ", "SYNC"), "bytes": 4096, "error": 0, "processor": 0, "process": b"reader"}
    return tuple((values | more)[name] for name in bpf.EVENT.names or ())


def text(*events: tuple[Any, ...]) -> list[str]:
    return b"".join(bpf.text_of(np.array(list(events), bpf.EVENT), WORDS)).decode().splitlines()


def test_flags_become_the_letters_that_the_kernel_writes() -> None:
    expected = {
        flags("READ"): b"R",
        flags("READ", "RAHEAD"): b"RA",
        flags("READ", "META", "SYNC"): b"RSM",
        flags("WRITE", "SYNC", "FUA", "PREFLUSH"): b"FWFS",
        flags("FLUSH", "PREFLUSH"): b"FF",
        flags("DISCARD", "SYNC"): b"DS",
        flags("SECURE_ERASE"): b"DE",
        flags("WRITE_ZEROES"): b"N",
    }
    assert {word: WORDS.of(word)[0] for word in expected} == expected
    assert [WORDS.of(flags(name))[1] for name in ("DRV_IN", "DRV_OUT", "READ")] == [True, True, False]


def test_records_become_the_lines_of_trace_events_in_order_of_time(tmp_path: Path) -> None:
    found = text(
        event(2, 3_000_001_500, error=10, processor=1),
        event(2, 7_000_000_000, error=-5, bytes=0, sector=2**64 - 1),
        event(1, 3_000_000_250),
        event(0, 3_000_000_020, process=b"a process"),
        event(1, 5_000_000_000, sector=2**64 - 1, bytes=0, flags=flags("FLUSH", "PREFLUSH")),
        event(1, 6_000_000_000, flags=flags("DRV_IN"), bytes=512),
        event(2, 8_000_000_000, error=17),
    )
    assert found == [
        "<...>-42 [000] 3.000000020: block_rq_insert: 253,1 RS 4096 () 5000000000 + 8 [a process]",
        "<...>-42 [000] 3.000000250: block_rq_issue: 253,1 RS 4096 () 5000000000 + 8 [reader]",
        "<...>-42 [001] 3.000001500: block_rq_complete: 253,1 RS () 5000000000 + 8 [-5]",
        "<...>-42 [000] 5.000000000: block_rq_issue: 253,1 FF 0 () 0 + 0 [reader]",
        "<...>-42 [000] 6.000000000: block_rq_issue: 253,1 N 512 () 0 + 0 [reader]",
        "<...>-42 [000] 7.000000000: block_rq_complete: 253,1 RS () 18446744073709551615 + 0 [-5]",
        "<...>-42 [000] 8.000000000: block_rq_complete: 253,1 RS () 5000000000 + 8 [-5]",
    ]
    (tmp_path / "x").write_text("\n".join(found[:3]))
    source = disk.Source(str(tmp_path / "x"), "tracefs", tracer="reader")
    columns, report = disk.load(source)
    assert (report["requests"], report["unrecognised_lines"], report["by_tracer"]) == (1, 0, 0)
    assert [int(columns[name][0]) for name in ("arrival_ns", "start_ns", "completion_ns")] == [0, 230, 1480]


class Memory(bpf.Rings):
    """Rings of two processors that no program writes to."""

    def __init__(self, places: int) -> None:
        super().__init__(Path())
        self._places, self._processors, self._spool = places, 2, io.BytesIO()
        self._rings = np.zeros((3, bpf.RING_WORDS), "u8")
        self._events = np.zeros((2, places), bpf.EVENT)

    def note(self, processor: int, number: int) -> None:
        """Finish the record with this number."""
        self._events[processor, number % self._places] = event(1, number, serial=number + 1, processor=processor)

    def reserve(self, processor: int, count: int) -> None:
        self._rings[processor, bpf.RESERVED] += count

    def taken(self) -> list[tuple[int, int]]:
        found = np.frombuffer(self._spool.getvalue(), bpf.EVENT)
        return list(zip(found["processor"].tolist(), found["time_ns"].tolist(), strict=True))


def test_a_ring_is_read_round_its_end_up_to_the_first_record_that_is_not_finished() -> None:
    rings = Memory(8)
    rings.reserve(0, 6)
    rings.reserve(1, 1)
    for number in range(6):
        rings.note(0, number)
    rings.copy(rest=True)
    assert rings.taken() == [(0, number) for number in range(6)]
    rings.reserve(0, 5)
    for number in (6, 7, 8, 10):  # 9 is being written
        rings.note(0, number)
    rings.copy(rest=True)
    assert rings.taken() == [(0, number) for number in range(9)]
    rings.note(0, 9)
    rings.note(1, 0)
    rings.copy(rest=True)
    assert rings.taken() == [*((0, number) for number in range(11)), (1, 0)]


def test_few_records_stay_in_their_ring_while_recording() -> None:
    rings = Memory(8)
    rings.reserve(0, 1)
    rings.note(0, 0)
    rings.copy()
    assert rings.taken() == []
    rings.reserve(0, 1)
    rings.note(0, 1)
    rings.copy()
    assert rings.taken() == [(0, 0), (0, 1)]


def test_the_kernels_count_leaves_out_partitions_and_devices_without_a_queue(tmp_path: Path) -> None:
    for name in ("sda/mq", "cciss!c0d0/mq", "dm-0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "counts").write_text(
        "   8       0 sda 10 1 2 3 5 4 5 6 0 7 8 9 9 9 9 9 9\n"
        "   8       1 sda1 10 1 2 3 5 4 5 6 0 7 8\n"
        " 104       0 cciss/c0d0 100 1 2 3 50 4 5 6 0 7 8\n"
        " 253       0 dm-0 10 1 2 3 5 4 5 6 0 7 8\n"
    )
    assert diskstats.completed(tmp_path / "counts", tmp_path) == {8 << 20: 15, 104 << 20: 150}


def refuse(reason: str) -> Any:
    def check(*_: object) -> None:
        raise EnvironmentProblem(reason)

    return check


def test_trace_events_stand_in_where_the_program_cannot_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("instances", "events/block/block_rq_complete"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(bpf, "check", refuse("no program here"))
    assert capture.choose("auto", tmp_path) == ("tracefs", "no program here")
    with pytest.raises(EnvironmentProblem, match="no program here"):
        capture.choose("bpf", tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"by bpf, no program here; by tracefs, .* mount -t tracefs"):
        capture.choose("auto", tmp_path / "absent")
    monkeypatch.setattr(bpf, "check", lambda: None)
    assert capture.choose("auto", tmp_path) == ("bpf", None)
    with pytest.raises(UsageError, match="choose auto, bpf or tracefs"):
        capture.choose("blktrace", tmp_path)


def run_capture(monkeypatch: pytest.MonkeyPatch, path: Path, reason: str | None) -> None:
    """Run the command with a capture that has written ``path``, and see it end well."""
    facts = {"method": "tracefs", "method_reason": reason, "seconds": 1.0, "lost_events": 0}
    facts |= {"reader_cpu_seconds": 0.1, "tracer": "servsim"}
    monkeypatch.setattr(capture, "capture", lambda *_, **__: facts)
    monkeypatch.setattr(sys, "argv", ["servsim", "disk", "capture", "-o", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_why_trace_events_stand_in_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").touch()
    run_capture(monkeypatch, tmp_path / "x", "no program here")
    told = capsys.readouterr().err.splitlines()
    assert told == ["captured through tracefs, which costs a request more than bpf: no program here"]


def test_a_host_that_neither_reads_nor_writes_is_no_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = text(event(1, 1_000, flags=flags("DISCARD")), event(2, 2_000, flags=flags("DISCARD")))
    (tmp_path / "x").write_text("\n".join(lines))
    run_capture(monkeypatch, tmp_path / "x", None)
    captured = capsys.readouterr()
    assert captured.out.startswith("0 requests in 1.0 s by tracefs")
    assert "1 operations that neither read nor write" in captured.err


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libbpf, "LIBRARY", "libbpf-that-is-absent.so.1")
    libbpf.library.cache_clear()
    try:
        with pytest.raises(EnvironmentProblem, match="apt-get install libbpf1"):
            bpf.check()
    finally:
        libbpf.library.cache_clear()
    monkeypatch.setattr(bpf.Words, "of_this_kernel", lambda: WORDS)
    monkeypatch.setattr(_core, "disk_capture_program", lambda: None)
    with pytest.raises(EnvironmentProblem, match="apt-get install clang libbpf-dev"):
        bpf.check()


def test_the_program_is_compiled_where_there_is_a_compiler_for_it() -> None:
    if shutil.which("clang") is None or not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("clang or libbpf-dev is not installed")
    program = _core.disk_capture_program()
    assert program is not None and program.startswith(b"\x7fELF")


def both(tmp_path: Path, tracefs: Path, path: str) -> tuple[dict[str, list[str]], int]:
    """Return what each method tells of the same requests of a device, and the events bpf has lost."""
    with bpf.Rings(tmp_path) as program, Instance(tmp_path, tracefs) as instance:
        methods: dict[str, Any] = {"bpf": program, "tracefs": instance}
        for method in methods.values():
            method.record(True)
        threads = [threading.Thread(target=work, args=(path, 500, seed)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = {}
        for name, method in methods.items():
            method.record(False)
            method.copy(rest=True)
            with (tmp_path / name).open("wb") as sink:
                method.write(sink)
            lines = (tmp_path / name).read_text().splitlines()
            told[name] = [line for line in lines if f": {number_of(path)} " in line]
        return told, program.lost_events()


@pytest.mark.usefixtures("kernel_program")
def test_both_methods_tell_the_same_of_requests_they_see_together(
    tmp_path: Path, tracefs: Path, loop_device: str
) -> None:
    told, lost = both(tmp_path, tracefs, loop_device)
    facts = {name: Counter(" ".join(line.split()[:2] + line.split()[3:]) for line in told[name]) for name in told}
    assert facts["bpf"].total() > 3000
    assert facts["bpf"] - facts["tracefs"] == Counter()
    # A kernel may not run the program in the context of certain processes: that is counted.
    missing = facts["tracefs"] - facts["bpf"]
    assert sum(count for line, count in missing.items() if "block_rq_complete" in line) <= lost
    if missing:
        pytest.skip(f"times are not compared: this kernel withheld {missing.total()} events, {lost} counted")
    # The two stand one after the other in the kernel, so they disagree by little, whatever interrupts a few of them.
    columns = [
        disk.load(disk.Source(str(tmp_path / name), "tracefs", device=number_of(loop_device), tracer="python"))
        for name in told
    ]
    assert columns[0][1]["requests"] == columns[1][1]["requests"] == 2000
    orders = [np.lexsort([trace[key] for key in ("arrival_ns", "is_write", "sectors", "lba")]) for trace, _ in columns]
    for key in ("arrival_ns", "start_ns", "completion_ns"):
        one, other = (trace[key][order].astype(np.int64) for (trace, _), order in zip(columns, orders, strict=True))
        assert np.median(np.abs(one - other - np.median(one - other))) < 5_000


@pytest.mark.usefixtures("kernel_program")
def test_events_that_find_their_ring_full_are_counted(tmp_path: Path, loop_device: str) -> None:
    with bpf.Rings(tmp_path, places=128) as rings:
        rings.record(True)
        work(loop_device, 1000)
        rings.record(False)
        rings.copy(rest=True)
        sink = io.BytesIO()
        rings.write(sink)
        kept = sink.getvalue().count(b"\n")
        assert 0 < kept <= 64 * (os.cpu_count() or 1)
        assert kept + rings.lost_events() >= 2000


@pytest.mark.usefixtures("kernel_program")
def test_what_the_kernel_counted_and_the_file_lacks_is_lost(
    tmp_path: Path, loop_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    major, minor = map(int, number_of(loop_device).split(","))
    counts = iter([Counter({major << 20 | minor: 5}), Counter({major << 20 | minor: 5 + 1000 + 77})])
    monkeypatch.setattr(bpf, "completed", lambda: next(counts))
    with bpf.Rings(tmp_path) as rings:
        rings.record(True)
        work(loop_device, 1000)
        rings.record(False)
        rings.copy(rest=True)
        # More where this kernel itself withheld some.
        assert rings.lost_events() >= 77
        sink = io.BytesIO()
        rings.write(sink)
        seen = sink.getvalue().count(f"block_rq_complete: {number_of(loop_device)} ".encode())
        assert rings.lost_events() == 1000 + 77 - seen


def programs_in_the_kernel() -> set[int]:
    """Return the numbers of the capture's programs, whoever loaded them."""
    library = ctypes.CDLL(libbpf.LIBRARY)
    number, found = ctypes.c_uint32(0), set()
    while library.bpf_prog_get_next_id(number, ctypes.byref(number)) == 0:
        descriptor = library.bpf_prog_get_fd_by_id(number)
        if descriptor < 0:
            continue
        facts, size = ctypes.create_string_buffer(256), ctypes.c_uint32(256)
        library.bpf_obj_get_info_by_fd(descriptor, facts, ctypes.byref(size))
        os.close(descriptor)
        # The name in struct bpf_prog_info (Linux, uapi/linux/bpf.h).
        if struct.unpack_from("16s", facts, 64)[0].startswith(b"servsim_"):
            found.add(number.value)
    return found


@pytest.mark.usefixtures("kernel_program")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_in_the_kernel_however_a_capture_ends(tmp_path: Path, ending: signal.Signals) -> None:
    wait_for(lambda: not programs_in_the_kernel())
    code = "from servsim.cli import main; main()"
    arguments = ["disk", "capture", "-o", str(tmp_path / "x"), "--seconds", "600", "--method", "bpf", "--json"]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            # The output has another name until it is whole.
            wait_for(lambda: len(programs_in_the_kernel()) == 3 and any(tmp_path.iterdir()))
            # Attached, it waits between two looks.
            wait_for(lambda: "nanosleep" in Path(f"/proc/{process.pid}/wchan").read_text())
            process.send_signal(ending)
            told, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    wait_for(lambda: not programs_in_the_kernel())
    if ending == signal.SIGINT:
        assert process.returncode == 0
        assert json.loads(told)["method"] == "bpf"
