"""The real thing, at a reduced scale: image, boot, checkpoint, and two runs from it.

Needs root and the emulator; skips elsewhere, saying why. Image and checkpoint stay in the
project's cache, so that a second run of the tests takes seconds.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import SETTINGS
from servsim.capture import Checkpoint, ensure_checkpoint, resume
from servsim.capture.emulator import Plugin
from servsim.capture.facts import lock_functions, parse_kallsyms
from servsim.capture.facts_for_plugin import member_offsets
from servsim.capture.store import file_digest, guest_dir
from servsim.errors import EnvironmentProblem

pytestmark = [pytest.mark.guest, pytest.mark.timeout(1800)]


def test_the_checkpoint_knows_its_kernel_and_its_server(checkpoint: Checkpoint) -> None:
    symbols = parse_kallsyms(checkpoint.kallsyms.read_text())
    assert symbols["__switch_to_asm"] > 1 << 63 and symbols["__per_cpu_start"] == 0
    # The offsets measured for Debian's 6.1 kernel, which the type section must give again.
    wanted = {"task_struct.__state": 24, "task_struct.pid": 2416, "task_struct.tgid": 2420, "task_struct.comm": 2976}
    assert member_offsets(checkpoint, (*wanted, "task_struct.none")) == wanted
    # Without randomisation a position-independent program is loaded here (Linux, ELF_ET_DYN_BASE).
    functions = lock_functions(checkpoint, SETTINGS.folder)
    assert [found["does"] for found in functions] == ["acquire", "release", "try", "try_or_wait"]
    assert all(0x5555_5555_4000 <= found["address"] < 0x5556_0000_0000 for found in functions)
    with pytest.raises(EnvironmentProblem, match=r"does not export no_such_function"):
        lock_functions(checkpoint, replace(SETTINGS.folder, locks={"no_such_function": "try"}))


def test_runs_from_one_checkpoint_complete_agree_and_leave_it_unchanged(checkpoint: Checkpoint) -> None:
    files = (checkpoint.state, checkpoint.overlay, checkpoint.image.root)
    before = [file_digest(path) for path in files]
    others = set((guest_dir() / "runs").glob("run-*"))
    runs = [resume(checkpoint, 40, seed, timeout_s=900, progress=print) for seed in (7, 8)]
    assert [run.result["transactions"] for run in runs] == [40, 40]
    assert all(run.result["valid"] for run in runs)
    assert all("servsim-guest: done" in run.console_log.read_text() for run in runs)
    # The consistency conditions were checked, in the guest, after the run.
    assert all(run.result["check"]["passed"] for run in runs)
    assert [file_digest(path) for path in files] == before
    assert set((guest_dir() / "runs").glob("run-*")) <= others, "nothing is left of these runs"


def test_a_second_request_for_the_checkpoint_builds_nothing(checkpoint: Checkpoint) -> None:
    said: list[str] = []
    assert ensure_checkpoint(SETTINGS, said.append).directory == checkpoint.directory
    assert all(line.startswith("building the client") for line in said), said


def test_a_plug_in_that_does_not_exist_is_one_sentence(checkpoint: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"did not start: .*nothing\.so"):
        resume(checkpoint, 1, 1, [Plugin(tmp_path / "nothing.so")])
