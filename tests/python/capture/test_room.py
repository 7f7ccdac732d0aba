"""What needs room says how much before it begins, and refuses what cannot end."""

from collections import namedtuple
from pathlib import Path

import pytest
from servsim.capture import record as recording
from servsim.capture import room
from servsim.capture.boot import emulator_running
from servsim.capture.emulator import Emulator, Machine
from servsim.capture.folder_settings import chosen
from servsim.capture.steps import silent
from servsim.errors import EnvironmentProblem

MIB = room.MIB
#: What a build from nothing took at its peak, what stayed, and the default checkpoint, in MiB (du).
PEAK, CHECKPOINT = 1486, 402


def test_what_was_measured_is_demanded_with_a_margin_that_is_not_waste() -> None:
    default = chosen("oltp")
    for needed, measured in (
        (room.for_image(default, base_is_cached=False), PEAK),
        (room.for_checkpoint(default), CHECKPOINT),
    ):
        assert 1.05 * measured * MIB < needed < 1.4 * measured * MIB


def test_a_larger_database_and_memory_need_more_and_what_is_cached_needs_none() -> None:
    small, large = chosen("oltp"), chosen("oltp", warehouses=400, items=1000, memory_mib=2048)
    # 200 more warehouses of 1,000 items in place of 100: 400,000 stock rows and 18,000 customers, twice.
    assert room.for_image(large, base_is_cached=False) - room.for_image(small, base_is_cached=False) > 300 * MIB
    assert room.for_checkpoint(large) > 1.8 * room.for_checkpoint(small)
    kinds = ({"base", "image", "checkpoint"}, {"base", "image"}, {"base"}, set[str]())
    needs = [room.for_everything(small, cached) for cached in kinds]
    assert needs[0] == 0 and needs == sorted(needs) and len(set(needs)) == 4


def _full(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: usage(free))


def test_too_little_room_is_refused_with_both_figures_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _full(monkeypatch, 100 * MIB)
    with pytest.raises(EnvironmentProblem, match=r"a job needs 200 MiB in .* has 100 MiB free: .*SERVSIM_CACHE"):
        room.demand(tmp_path, 200 * MIB, "a job")
    room.demand(tmp_path, 50 * MIB, "a job")


def test_a_guest_that_memory_cannot_hold_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(room, "MEMINFO", meminfo)
    meminfo.write_text("MemTotal:  4194304 kB\nMemAvailable:     921600 kB\n")
    machine = Machine(*[tmp_path / "none"] * 6, 901)
    refused = pytest.raises(
        EnvironmentProblem, match=r"needs 901 MiB of memory, and this host has 900 MiB.*memory_mib=N"
    )
    with refused, emulator_running(Emulator(tmp_path, "10"), machine, tmp_path / "log", silent):
        pass
    room.demand_memory(900 * MIB)
    meminfo.write_text("MemTotal:  4194304 kB\n")
    room.demand_memory(901 * MIB)


def test_a_capture_that_has_no_room_for_its_trace_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _full(monkeypatch, 10 * MIB)
    monkeypatch.setattr(recording, "plugin_path", lambda: tmp_path)
    with pytest.raises(EnvironmentProblem, match=r"a trace of 1,000 transactions needs 381 MiB.*name another with -o"):
        recording.record(None, None, {}, 1000, 1, tmp_path / "deep" / "t.svt")  # type: ignore[arg-type]
