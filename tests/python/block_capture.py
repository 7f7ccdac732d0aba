"""What tests of block captures share: the kernel's facilities, or why a test is skipped; loop devices, and load."""

import mmap
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from servsim.disk import bpf
from servsim.disk import tracefs as trace_events
from servsim.errors import EnvironmentProblem

#: Bytes of a loop device, and of the smallest request.
DEVICE, BLOCK = 16 << 20, 4096


def _done(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"`{command[0]}` does not work here: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.fixture
def tracefs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mount tracefs at a place of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting tracefs takes root")
    folder = tmp_path_factory.mktemp("tracefs")
    _done("mount", "-t", "tracefs", "tracefs", str(folder))
    try:
        trace_events.check(folder)
        yield folder
    except EnvironmentProblem as problem:
        pytest.skip(f"no trace events here: {problem}")
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def kernel_program() -> None:
    """Skip where the program cannot be loaded."""
    try:
        bpf.check()
    except EnvironmentProblem as problem:
        pytest.skip(f"no BPF here: {problem}")


@pytest.fixture
def loop_device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Make a loop device."""
    if os.geteuid() != 0:
        pytest.skip("a loop device takes root")
    image = tmp_path_factory.mktemp("loop") / "image"
    with image.open("wb") as file:
        file.truncate(DEVICE)
    path = _done("losetup", "--find", "--show", str(image))
    try:
        yield path
    finally:
        subprocess.run(["losetup", "-d", path], check=True)


def number_of(path: str) -> str:
    """Return a device's numbers as traces tell them."""
    number = Path(path).stat().st_rdev
    return f"{os.major(number)},{os.minor(number)}"


def work(path: str, requests: int, seed: int = 0) -> None:
    """Read and write past the page cache, at drawn places in drawn sizes; those of other seeds begin elsewhere."""
    draw = random.Random(seed)
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    with mmap.mmap(-1, 16 * BLOCK) as buffer, memoryview(buffer) as view:
        for _ in range(requests):
            size = BLOCK * draw.choice((1, 1, 2, 16))
            with view[:size] as part:
                (os.preadv if draw.random() < 0.7 else os.pwritev)(
                    device, [part], BLOCK * (1000 * seed + draw.randrange(1000))
                )
    os.close(device)
