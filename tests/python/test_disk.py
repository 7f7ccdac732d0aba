import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servsim import disk
from servsim.disk.plots import evaluation_svg
from servsim.errors import EnvironmentProblem, UsageError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A FCFS disk: sequential requests take 1 ms, jumps 5 to 9 ms."""
    rng = np.random.default_rng(1)
    now = free = 0
    lba = 0
    lines = ["arrival_us,op,lba,sectors,completion_us"]
    for _ in range(3000):
        now += int(rng.exponential(12_000))
        jump = rng.random() < 0.7
        lba = int(rng.integers(0, 1_000_000)) * 8 if jump else lba + 8
        free = max(now, free) + (int(rng.integers(5000, 9000)) if jump else 1000)
        lines.append(f"{now},{int(rng.random() < 0.4)},{lba},8,{free}")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines))
    return path


def test_columns_are_numpy_arrays_in_arrival_order(trace: Path) -> None:
    columns, report = disk.load(str(trace))
    assert report["requests"] == 3000
    assert columns["arrival_ns"][0] == 0
    assert (np.diff(columns["arrival_ns"].astype(np.int64)) >= 0).all()
    assert columns["is_write"].dtype == bool


def test_a_model_is_fitted_judged_run_and_used_to_reorganise(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    fitted = disk.fit(str(trace), model)
    assert fitted["devices"][0]["server"]["discipline"] == "fcfs"
    assert disk.info(model)["devices"][0]["kind"] == "forest"
    entry = disk.evaluate(str(trace))["devices"][0]
    assert entry["crps_skill"] > 0.5
    assert abs(entry["free_running"]["mean_error_percent"]) < 10
    assert evaluation_svg(entry).startswith("<svg")
    slow = disk.simulate(str(trace), model, load=1.3)
    assert slow.response_ns.mean() > disk.simulate(str(trace), model).response_ns.mean()
    assert (disk.simulate(str(trace), model, load=1.3).response_ns == slow.response_ns).all()
    result, maps = disk.reorganize(str(trace), blocks=50)
    assert [entry["policy"] for entry in result["results"]] == ["hot-block", "organ-pipe"]
    path = tmp_path / "map"
    path.write_text(maps[0][2])
    assert disk.simulate(str(trace), model, map_path=str(path)).summary["remapped"] == str(path)


def test_streamed_and_in_memory_fits_are_the_same_model(trace: Path, tmp_path: Path) -> None:
    binary = tmp_path / "t.ssd"
    disk.import_trace(str(trace), str(binary))
    one, other = tmp_path / "a", tmp_path / "b"
    disk.fit(str(trace), str(one))
    disk.fit(str(binary), str(other))
    assert one.read_bytes() == other.read_bytes()


def test_mistakes_are_told_in_one_sentence(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `forest`"):
        disk.fit(str(trace), kind="forrest")
    with pytest.raises(UsageError, match="train share"):
        disk.fit(str(trace), train=2)
    with pytest.raises(UsageError, match="not a usable model file"):
        disk.simulate(str(trace), str(trace))
    with pytest.raises(UsageError, match="cannot open"):
        disk.load(str(tmp_path / "absent"))


def test_capture_without_tracefs_says_what_to_do(tmp_path: Path) -> None:
    from servsim.disk.capture import capture

    with pytest.raises(EnvironmentProblem, match="mount -t tracefs"):
        capture(tmp_path / "x", 0.1, tracefs=tmp_path)


def test_the_command_prints_versioned_json(trace: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from servsim.cli import main; main()",
        "disk",
        "evaluate",
        str(trace),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["schema"] == "servsim.disk.evaluate/1"


SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def _servsim(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from servsim.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_requests_of_a_guest_are_those_its_trace_counts() -> None:
    columns, report = disk.load(str(SHIPPED))
    done = _servsim("trace", "stats", str(SHIPPED), "--json")
    counted = json.loads(done.stdout)["statistics"]
    assert report["format"] == "svt"
    assert report["requests"] == counted["io_reads"] + counted["io_writes"] > 0
    assert report["zero_length"] == counted["io_flushes"]
    write, size = columns["is_write"], columns["sectors"].astype(np.int64) * 512
    assert size[~write].sum() == counted["io_read_bytes"]
    assert size[write].sum() == counted["io_written_bytes"]
    assert (columns["completion_ns"] > columns["arrival_ns"]).all()
    named, _ = disk.load(disk.Source(str(SHIPPED), format="svt"))
    assert (named["lba"] == columns["lba"]).all()


def test_sets_share_the_work_as_their_level_says(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    disk.fit(str(trace), model)
    one = disk.simulate(str(trace), model).summary["devices"][0]["figures"]
    requests = disk.import_trace(str(trace))["requests"]
    means = {}
    for spec in ("stripe:4", "raid1:2", "disk0=raid5:5,unit=64KiB"):
        run = disk.simulate(str(trace), model, sets=[spec])
        figures = run.summary["devices"][0]["figures"]
        assert len(run.response_ns) == requests and (run.response_ns > 0).all()
        means[spec] = figures["simulated_mean_ms"]
        reads, writes = (sum(member[kind] for member in figures["members"]) for kind in ("reads", "writes"))
        if spec == "raid1:2":
            assert reads + writes / 2 == requests
    assert means["stripe:4"] < one["simulated_mean_ms"]
    done = _servsim("disk", "simulate", str(trace), "-m", model, "--set", "raid5:5,unit=64KiB")
    assert done.stdout.count("drive ") == 5, done.stderr


def test_mistakes_about_sets_and_caches_are_told_with_a_remedy(trace: Path, tmp_path: Path) -> None:
    model, paper = str(tmp_path / "m.ssdm"), str(tmp_path / "p.ssdm")
    disk.fit(str(trace), model)
    disk.fit(str(trace), paper, kind="paper")
    for arguments, message in (
        ({"sets": ["raid7:5"]}, "accepted: raid0"),
        ({"sets": ["sda=raid1:2"]}, "the trace has disk0"),
        ({"sets": ["raid1:2"], "mode": "open"}, "queue of its own"),
    ):
        with pytest.raises(UsageError, match=message):
            disk.simulate(str(trace), model, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="physical service times"):
        disk.simulate(str(trace), paper, sets=["raid1:2"])
    with pytest.raises(UsageError, match="only a mechanical model"):
        disk.fit(str(trace), kind="forest", read_ahead=True)
    with pytest.raises(UsageError, match="no cache"):
        disk.fit("", kind="mechanical", drive="hp335h", write_cache="write-back")
    with pytest.raises(UsageError, match="write-back, write-through"):
        disk.fit("", kind="mechanical", drive="hp97560", write_cache="back")


def test_a_write_back_drive_answers_sooner(trace: Path, tmp_path: Path) -> None:
    means = {}
    for cache in ("write-back", "write-through"):
        model = str(tmp_path / cache)
        disk.fit("", model, kind="mechanical", drive="hp97560", write_cache=cache)
        run = disk.simulate(str(trace), model, allow_other_device=True)
        means[cache] = run.summary["devices"][0]["figures"]["simulated_mean_ms"]
    assert means["write-back"] < 0.9 * means["write-through"]


def test_capture_into_a_folder_that_is_not_there_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    from servsim.disk.capture import capture

    for folder in ("instances", "events/block/block_rq_complete"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot write"):
        capture(tmp_path / "absent" / "x", 0.1, tracefs=tmp_path)


def test_capture_records_what_a_loop_device_does(tmp_path: Path) -> None:
    from servsim.disk.capture import capture, check

    try:
        check()
    except EnvironmentProblem as problem:
        pytest.skip(f"block requests cannot be captured here: {problem}")
    facts = capture(tmp_path / "x", 0.3)
    assert facts["lost_events"] >= 0 and facts["seconds"] < 30
    assert not list(Path("/sys/kernel/tracing/instances").glob(f"servsim-{os.getpid()}"))


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
    text = b"".join(ring.lines(spools, 4096, layouts))
    assert text.decode().splitlines() == [
        "<...>-42 [001] 3.000000250: block_rq_issue: 253,1 RS 4096 () 5000000000 + 8 [reader]",
        "<...>-42 [000] 3.000001500: block_rq_complete: 253,1 RS () 5000000000 + 8 [-5]",
        "<...>-42 [000] 7.000000000: block_rq_issue: 253,1 RS 4096 () 5000000000 + 8 [reader]",
    ]
    (tmp_path / "x").write_bytes(text)
    report = disk.import_trace(disk.Source(str(tmp_path / "x"), format="tracefs"), str(tmp_path / "y"))
    assert (report["requests"], report["unrecognised_lines"]) == (1, 0)


def test_what_is_captured_is_what_the_kernel_itself_writes(tmp_path: Path) -> None:
    import re

    from servsim.disk.capture import TRACEFS, Instance, check

    try:
        check()
    except EnvironmentProblem as problem:
        pytest.skip(f"block requests cannot be captured here: {problem}")

    def events(text: str) -> list[tuple[str, ...]]:
        pattern = r"\[(\d+)\].* (\d+\.\d{6})\d*: (block_rq_\w+): (\S+ \S+).*\) (\d+ \+ \d+) .*(\[[^]]*\])$"
        return [tuple(match) for match in re.findall(pattern, text, re.MULTILINE)]

    with Instance(tmp_path) as instance:
        instance.record(True)
        for number in range(20):
            with (tmp_path / "written").open("wb") as file:
                file.write(bytes(4096 * (number + 1)))
                file.flush()
                os.fsync(file.fileno())
        instance.record(False)
        kernel = events((TRACEFS / "instances" / f"servsim-{os.getpid()}" / "trace").read_text())
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


DATA = Path(os.environ.get("SERVSIM_DATA", Path(__file__).parents[3] / "shared" / "data")) / "disk"


@pytest.mark.acceptance
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no disk traces in {DATA}")
@pytest.mark.parametrize("order", ["fcfs", "sstf"])
def test_given_pairs_are_predicted_within_five_points(order: str) -> None:
    before, after = (str(DATA / f"cheetah9LP_{order}_hot_low_{which}.csv") for which in ("orig", "hot"))

    def mean(path: str) -> float:
        columns, _ = disk.load(path)
        return float((columns["completion_ns"] - columns["arrival_ns"]).mean())

    truth = 100 * (mean(after) / mean(before) - 1)
    result, _ = disk.reorganize(before, policies=["hot-block"])
    assert abs(result["results"][0]["prediction"]["change_percent"] - truth) < 5
