"""Every file that servsim writes is whole or not there, wherever its writer is killed or the disk is full."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servsim.errors import EnvironmentProblem, UsageError
from servsim.files import atomic_write, atomic_writer, make_folder
from sweep_study import write_trace

ROOT = Path(__file__).resolve().parents[2]
SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = ROOT / "python" / "servsim" / "data" / "quickstart.svt"
SHIM = Path(__file__).with_name("crash_shim.c")

#: Commands that write a file: name, the source files whose writing they show, the command. ``{out}`` is the target,
#: ``{in}`` the folder of inputs.
WRITERS: dict[str, tuple[tuple[str, ...], str]] = {
    "trace cut": (("crates/servsim-trace/src/writer.rs",), "trace cut {in}/small.svt -o {out} --time 0:1"),
    "trace export": (
        ("crates/servsim-import/src/export/sink.rs",),
        "trace export {in}/short.txt -o {out} --format din",
    ),
    "trace import": (("crates/servsim-import/src/export/sink.rs",), "trace import {in}/short.txt -o {out}.raw16"),
    "checkpoint": (
        ("crates/servsim-machine/src/warm/checkpoint.rs",),
        "simulate {in}/short.txt -m foglia-2004-4p --functional-warm-up '100 references' --save-checkpoint {out}",
    ),
    "simulate": (("python/servsim/cli/printing.py",), "simulate {in}/short.txt -m foglia-2004-4p -o {out}"),
    "report": (("python/servsim/report/__init__.py",), "report {in}/result.json -o {out}"),
    "timeline perfetto": (("python/servsim/cli/timeline.py",), "timeline {in}/result.json --perfetto {out}"),
    "timeline parquet": (("python/servsim/timeline/windows.py",), "timeline {in}/result.json --parquet {out}"),
    "disk import": (("crates/servsim-py/src/disk/source.rs",), "disk import {in}/disk.csv -o {out}"),
    "disk fit": (("crates/servsim-py/src/disk/fit.rs",), "disk fit {in}/disk.csv --model unconditional -o {out}"),
    "disk simulate": (("crates/servsim-py/src/disk/written.rs",), "disk simulate {in}/disk.csv -m {in}/model -o {out}"),
    "model plot": (("python/servsim/model/plots.py",), "model solve {in}/network.toml --plot {out}"),
}

#: Writing that no command above shows, and why.
ELSEWHERE = {
    "capture/plugin/src/capture.rs": "needs the emulator; the command reads what it wrote and refuses half of it",
    "crates/servsim-files/src/lib.rs": "the writer itself",
    "crates/servsim-import/src/captured/findings.rs": "in the cache, as `checkpoint`",
    "crates/servsim-machine/src/sampling/file.rs": "as `checkpoint`",
    "crates/servsim-machine/src/replay.rs": "written when the simulator has a fault",
    "crates/servsim-py/src/files.rs": "the writer itself, for Python",
    "crates/servsim-trace/src/annotate.rs": "its own tests; needs the emulator",
    "python/servsim/capture/store.py": "folders of the guest; needs the emulator",
    "python/servsim/cli/machine.py": "as `model plot`",
    "python/servsim/cli/place.py": "as `simulate`",
    "python/servsim/cli/disk/commands.py": "several files, each as those above",
    "python/servsim/cli/disk/printing.py": "several files, each as those above",
    "python/servsim/cli/model_fit.py": "as `model plot`",
    "python/servsim/cli/model_import.py": "as `model plot`",
    "python/servsim/cli/rset.py": "as `simulate`",
    "python/servsim/cli/model_plan.py": "as `model plot`",
    "python/servsim/comparison/designs.py": "several files, each as those above",
    "python/servsim/disk/capture.py": "needs the kernel's events, as root",
    "python/servsim/files.py": "the writer itself",
    "python/servsim/monitor/export.py": "as `timeline parquet`",
    "python/servsim/monitor/plot.py": "as `model plot`",
    "python/servsim/quickstart.py": "as `simulate`",
    "python/servsim/faults.py": "as `simulate`",
    "python/servsim/hashes.py": "in the cache, as `checkpoint`",
    "python/servsim/reproduce/runs.py": "as `simulate`",
    "python/servsim/result.py": "as `simulate`",
    "python/servsim/sweep/store.py": "test_sweep.py and tests/acceptance kill whole sweeps",
    "python/servsim/sweep/tables.py": "test_sweep.py and tests/acceptance kill whole sweeps",
    "python/servsim/validation/record.py": "native runs of hours",
    "python/servsim/validation/simulated.py": "native runs of hours",
    "python/servsim/workloads/tuning.py": "as `simulate`, after native runs",
}

#: Writing by other means than the one writer, and why that is right.
OTHERWISE = {
    "crates/servsim-machine/src/drawn/passes.rs": "a test: traces for it",
    "python/servsim/capture/client.py": "a copy in the folder of an image that is being made",
    "capture/plugin/src/events.rs": "how far a capture has come, in a temporary folder",
    "crates/servsim-rset-preload/src/report.rs": "a line of each program that ends, added to what others wrote",
    "crates/servsim-rset-preload/src/sampler.rs": "renamed when it is whole, in a library that lives in other programs",
    "crates/servsim-rset/src/partitions/journal.rs": "a journal, added to and synchronised line by line",
    "crates/servsim-rset/src/partitions/step.rs": "files of the kernel",
    "crates/servsim-driver/src/control.rs": "a device",
    "crates/servsim-web/src/surge/files.rs": "a folder that is renamed when it is whole",
    "crates/servsim-web/src/tpcw/images.rs": "a folder that is renamed when it is whole",
    "python/servsim/capture/boot.py": "logs, and a folder that is renamed when it is whole",
    "python/servsim/capture/checkpoint.py": "a folder that is renamed when it is whole",
    "python/servsim/capture/control.py": "a device",
    "python/servsim/capture/facts_for_plugin.py": "a temporary folder",
    "python/servsim/capture/image.py": "a folder that is renamed when it is whole",
    "python/servsim/capture/seal.py": "a folder that is renamed when it is whole",
    "python/servsim/capture/steps.py": "logs",
    "python/servsim/capture/store.py": "a folder that is renamed when it is whole",
    "python/servsim/cli/partition.py": "a log, added to line by line",
    "python/servsim/disk/tracefs.py": "files of the kernel",
    "python/servsim/monitor/refine.py": "a temporary folder",
    "python/servsim/placement/advise.py": "a temporary folder",
    "python/servsim/reproduce/broadcasts.py": "a temporary folder",
    "python/servsim/reproduce/brock_2001/kernels.py": "a temporary folder",
    "python/servsim/reproduce/brock_2001/probes.py": "a temporary folder",
    "python/servsim/reproduce/thornock_1997/traces.py": "a temporary folder",
    "python/servsim/sweep/store.py": "a folder that is renamed when it is whole, a journal and a lock",
    "python/servsim/workloads/native.py": "a log, emptied",
    "python/servsim/validation/postgres.py": "logs",
}

ATOMIC = re.compile(
    r"\batomic_write\(|\batomic_writer\(|\bpublish_folder\(|AtomicFile::create\(|servsim_files::write\("
)
RAW = re.compile(
    r"\bFile::create|\bfs::write\b|\bfs::rename\b|OpenOptions::new"
    r"|\.write_text\(|\.write_bytes\(|open\([^)\n]*[\"'][wax]b?\+?[\"']|\.savefig\("
)


def _sources() -> dict[str, str]:
    """Return the text of everything shipped, without the tests inside Rust files."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "python/servsim", "crates", "capture/plugin"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    texts = {}
    for name in names:
        path = ROOT / name
        shipped = path.suffix == ".py" or (path.suffix == ".rs" and "/src/" in name)
        if shipped and path.exists() and path.name != "tests.rs" and "oracle" not in name:
            texts[name] = path.read_text(encoding="utf-8").split("#[cfg(test)]\nmod ")[0]
    return texts


def test_every_writer_is_tried_here_or_says_why_not() -> None:
    found = {name for name, text in _sources().items() if ATOMIC.search(text)}
    shown = {source for sources, _ in WRITERS.values() for source in sources}
    assert not shown & set(ELSEWHERE)
    assert found == shown | set(ELSEWHERE)


def test_nothing_is_written_but_by_the_one_writer() -> None:
    found = {name for name, text in _sources().items() if RAW.search(text)}
    assert found - {"crates/servsim-files/src/lib.rs"} == set(OTHERWISE)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something for every command to read."""
    folder = tmp_path_factory.mktemp("inputs")
    write_trace(folder, 600).rename(folder / "short.txt")
    rows = [f"{20_000 * i},{i % 2},{(i * 7919 % 4093) * 8},8,{20_000 * i + 4000 + 37 * (i % 11)}" for i in range(400)]
    (folder / "disk.csv").write_text("arrival_us,op,lba,sectors,completion_us\n" + "\n".join(rows) + "\n")
    (folder / "network.toml").write_text(
        '[[station]]\nname = "cpu"\ndemand = "10 ms"\n[[station]]\nname = "disk"\ndemand = "20 ms"\n'
        '[[class]]\nname = "users"\npopulation = 3\nthink = "1 s"\n'
    )
    write_trace(folder, 3000)
    for command in (
        f"trace cut {SHIPPED} -o {folder}/small.svt --time 0:1",
        f"simulate {folder}/small.txt -m foglia-2004-4p -o {folder}/result.json",
        f"disk fit {folder}/disk.csv --model mechanical --drive hp97560 -o {folder}/model",
    ):
        subprocess.run([SERVSIM, *command.split()], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def outcome(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of every command at every end."""
    if sys.platform != "linux" or (compiler := shutil.which("cc")) is None:
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("crashes")
    shim = folder / "shim.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", shim, SHIM, "-ldl"], check=True)
    commands = {}
    for number, (name, (_, command)) in enumerate(WRITERS.items()):
        place = folder / str(number)
        place.mkdir()
        target = place / ("out.raw16" if "{out}.raw16" in command else "out")
        text = command.replace("{out}", str(place / "out")).replace("{in}", str(inputs))
        commands[name] = (shlex.split(text), str(target))
    job, report = folder / "job.json", folder / "report.json"
    job.write_text(json.dumps({"folder": str(folder), "commands": commands, "report": str(report)}))
    environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"}
    runner = [sys.executable, Path(__file__).with_name("crash_runner.py"), job]
    subprocess.run(runner, check=True, env=environment, timeout=1200)
    found: dict[str, Any] = json.loads(report.read_text())
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_killed_at_any_call_leaves_the_old_file_or_the_whole_new_one(
    name: str, outcome: dict[str, Any]
) -> None:
    found, old = outcome["commands"][name], outcome["old"]
    whole = found["whole"]
    assert whole["code"] == 0, whole["said"]
    assert whole["content"] not in (old, None)
    renamed = found["calls"].index("rename ")
    for number, end in enumerate(found["killed"]):
        assert end["code"] == -9, end
        expected = old if number <= renamed else whole["content"]
        assert end["content"] == expected, f"killed at {found['calls'][number]}"
    assert found["after"]["content"] == whole["content"]
    assert len(found["after"]["names"]) == 1, "the leftovers of the killed ones are gone"


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_ends_with_3_and_leaves_the_target_as_it_was(name: str, outcome: dict[str, Any]) -> None:
    found, old = outcome["commands"][name], outcome["old"]
    renamed = found["calls"].index("rename ")
    assert found["full"]
    for number, end in enumerate(found["full"]):
        where = f"{found['calls'][number]}: {end['said']}"
        assert end["code"] == 3, where
        assert "No space left on device" in end["said"] or "no room left" in end["said"], where
        assert "Traceback" not in end["said"], where
        expected = old if number <= renamed else found["whole"]["content"]
        assert end["content"] == expected, where
        assert len(end["names"]) == 1, where


@pytest.mark.parametrize("name", WRITERS)
def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_end(name: str, outcome: dict[str, Any]) -> None:
    calls = outcome["commands"][name]["calls"]
    renamed = calls.index("rename ")
    before, after = calls[:renamed], calls[renamed + 1 :]
    assert before[-1].startswith("fsync ") and before[-1].endswith(".part")
    assert len(after) == 1 and after[0].startswith("fsync ") and not after[0].endswith(".part")


def test_an_open_file_is_nowhere_until_it_is_whole_and_leaves_nothing_when_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with pytest.raises(ZeroDivisionError), atomic_writer(target) as file:
        file.write("half")
        file.flush()
        assert not target.exists() and len(list(tmp_path.iterdir())) == 1
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    atomic_write(target, "whole")
    assert target.read_text() == "whole"


def test_what_cannot_be_written_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make its folder first"):
        atomic_write(tmp_path / "none" / "a", "")
    with pytest.raises(UsageError, match="give the name of a file"):
        atomic_write(tmp_path, "")
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(EnvironmentProblem, match="free some room"):
        atomic_write(tmp_path / "full", "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="a file has that name"):
        make_folder(tmp_path / "file" / "deep")


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        atomic_write(pipe, "through")
        assert reader.communicate(timeout=60)[0] == "through"
    assert pipe.is_fifo()
