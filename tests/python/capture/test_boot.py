"""A guest that does not boot is one sentence, and no emulator outlives its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import fake_emulator
import pytest
from servsim.capture import seal
from servsim.capture.checkpoint import Checkpoint, boot_and_save
from servsim.capture.emulator import find_emulator
from servsim.capture.folder_settings import chosen
from servsim.capture.image import Image
from servsim.capture.run import resume
from servsim.errors import EnvironmentProblem, ServsimError
from waiting import wait_for


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    image = Image(tmp_path / "image")
    image.directory.mkdir()
    for path in (image.root, image.kernel, image.initrd):
        path.write_bytes(b"")
    seal.make(image.directory)
    qemu_img = tmp_path / "qemu-img"
    qemu_img.write_text("#!/bin/sh\ntrue\n")
    qemu_img.chmod(0o755)
    (tmp_path / "checkpoint").mkdir()
    seal.make(tmp_path / "checkpoint")
    return Checkpoint(tmp_path / "checkpoint", image, 1024)


def boot(checkpoint: Checkpoint, said: list[str]) -> None:
    boot_and_save(checkpoint, find_emulator(), chosen("oltp"), said.append, timeout_s=0.6)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


@pytest.mark.parametrize(
    ("plot", "complaint"),
    [
        (
            "hangs",
            "did not reach its checkpoint within 1 s and its last words were “booted”; its console is in /",
        ),
        (
            "full-disk",
            "the disk of the cache /.* is full, and the guest cannot write; free some room, or set SERVSIM_CACHE",
        ),
        ("bad-disk", r"the guest's disk failed to write \(Input/output error\): .*; the guest's console is in /"),
        ("powers-off", "ended before its checkpoint and its last words were “booted”; its console is in /"),
        ("dies", "the emulator did not start: qemu-system-x86_64: no such thing; all it said is in /"),
    ],
)
def test_a_guest_that_never_boots_is_one_sentence_that_names_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint, plot: str, complaint: str
) -> None:
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, plot)))
    said: list[str] = []
    with pytest.raises(ServsimError, match=complaint) as caught:
        boot(checkpoint, said)
    assert caught.value.exit_code == 3
    if plot != "full-disk":
        assert Path(str(caught.value).rpartition(" ")[2]).is_file()
    if plot != "dies":
        assert any("booted" in line for line in said)
        assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("plot", "code", "complaint"),
    [
        ("no-server", 3, "the server did not start, /.*/oltp/start failed: start: FATAL: no port is free; the guest's"),
        (
            "bad-client",
            2,
            "/oltp/client ended with exit code 2 before the checkpoint: my-client: rows must be 1 to 9; the",
        ),
        ("early-client", 1, "/oltp/client ended with exit code 0 before the checkpoint: it must go on until as many"),
    ],
)
def test_a_script_that_fails_before_the_checkpoint_is_told_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint, plot: str, code: int, complaint: str
) -> None:
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, plot)))
    with pytest.raises(ServsimError, match=complaint) as caught:
        boot(checkpoint, [])
    assert caught.value.exit_code == code
    assert Path(str(caught.value).rpartition(" ")[2]).is_file()


def test_a_run_on_a_full_disk_ends_at_once_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, "full-disk")))
    with pytest.raises(EnvironmentProblem, match="is full"):
        resume(checkpoint, 10, 1, timeout_s=600)
    assert list((tmp_path / "cache" / "guest" / "runs").iterdir()) == []


def test_a_run_from_a_damaged_checkpoint_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    checkpoint.image.root.write_bytes(b"")
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, "answers")))
    (checkpoint.directory / "state").write_bytes(b"state")
    seal.make(checkpoint.directory)
    (checkpoint.directory / "state").write_bytes(b"State")
    with pytest.raises(EnvironmentProblem, match="state is damaged"):
        resume(checkpoint, 10, 1, timeout_s=600)


def test_a_run_that_hangs_is_one_sentence_that_leaves_no_emulator_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, "dies")))
    with pytest.raises(EnvironmentProblem, match="did not start"):
        resume(checkpoint, 10, 1, timeout_s=1)
    assert list((tmp_path / "cache" / "guest" / "runs").iterdir()) == []


PARENT = """
import sys
from pathlib import Path
from servsim.capture.checkpoint import Checkpoint, boot_and_save
from servsim.capture.emulator import find_emulator
from servsim.capture.image import Image
from servsim.capture.folder_settings import chosen
folder = Path(sys.argv[1])
made = Checkpoint(folder / "checkpoint", Image(folder / "image"), 1024)
boot_and_save(made, find_emulator(), chosen("oltp"), print, timeout_s=60)
"""


@pytest.mark.parametrize("plot", ["hangs", "silent", "stubborn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_emulator_outlives_an_interrupted_or_killed_parent(
    tmp_path: Path, checkpoint: Checkpoint, plot: str, number: signal.Signals
) -> None:
    env = {**os.environ, "SERVSIM_QEMU": str(fake_emulator.install(tmp_path, plot))}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        mark = tmp_path / "pid"
        wait_for(lambda: mark.is_file() and mark.read_text())
        pid = int(mark.read_text())
        assert alive(pid)
        parent.send_signal(number)
        parent.wait(30)
        wait_for(lambda: not alive(pid))
    finally:
        parent.kill()
        parent.wait()
    assert checkpoint.directory.is_dir()
