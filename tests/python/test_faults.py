"""A fault of the simulator ends with 70 and leaves a description that repeats it."""

import shlex
import subprocess
import sys
from pathlib import Path

SERVSIM = Path(sys.executable).with_name("servsim")
#: A request between nodes takes longer than this, so that the run takes it for one that is stuck.
STUCK = ["--set", "node.deadlock_threshold=50 cycles", "--warm-up", "0"]


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([SERVSIM, *arguments], capture_output=True, text=True, check=False, cwd=folder)


def test_a_request_that_is_stuck_ends_with_70_and_a_file_that_repeats_it(tmp_path: Path) -> None:
    lines = "".join(f"{task} L {0x1000 + 32 * line:x} 4 s\n" for line in range(50) for task in (0, 1))
    (tmp_path / "a trace.txt").write_text(lines + "0 X 0\n1 X 0\n")
    machine = ["-m", "brock-2001-2x4", "--set", "node.placement=striped", *STUCK]
    done = run(tmp_path, "simulate", "a trace.txt", *machine)
    assert done.returncode == 70, done.stderr
    assert "is not complete after" in done.stderr and "Traceback" not in done.stderr.split("servsim:")[-1]
    (file,) = tmp_path.glob("servsim-fault-*.toml")
    text = file.read_text()
    assert "GetS of node" in text, "the messages of the line"
    command = next(line.removeprefix("#   ") for line in text.splitlines() if "servsim simulate" in line)
    assert command in done.stderr
    again = run(tmp_path, *shlex.split(command)[1:])
    assert again.returncode == 70
    reported = [line for line in done.stderr.splitlines() if "is not complete after" in line]
    assert reported[-1] in again.stderr, "the same request at the same time"


def test_a_folder_that_takes_no_file_still_tells_the_fault(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"0 L {0x1000 * page:x} 4 s\n" for page in range(9)) + "0 X 0\n")
    nowhere = tmp_path / "gone"
    nowhere.mkdir()
    code = (
        f"import os, sys; os.chdir({str(nowhere)!r}); os.rmdir({str(nowhere)!r})\n"
        "from servsim.cli import run\n"
        f"sys.argv = ['servsim', 'simulate', {str(tmp_path / 't.txt')!r}, '-m', 'brock-2001-2x4', '--set', "
        f"'node.placement=striped', *{STUCK!r}]\nsys.exit(run())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 70 and "could not be written" in done.stderr, done.stderr
