"""The emulator is found and checked, and its command line says what captures depend on."""

from pathlib import Path

import fake_emulator
import pytest
from servsim.capture.emulator import Emulator, Machine, Plugin, command_line, find_emulator
from servsim.errors import EnvironmentProblem, UsageError

HERE = Path("/x")
MACHINE = Machine(HERE / "vmlinuz", HERE / "initrd", HERE / "root", HERE / "overlay", HERE / "ctl", HERE / "con", 1024)
EMULATOR = Emulator(HERE / "qemu", "10.0.2")


def test_a_good_emulator_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_emulator.install(tmp_path)
    monkeypatch.delenv("SERVSIM_QEMU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_emulator() == Emulator(program, "10.0.2")


def test_a_missing_emulator_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVSIM_QEMU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match=r"was not found: install it with scripts/install-deps\.sh"):
        find_emulator()


@pytest.mark.parametrize(
    ("version", "help_text", "complaint"),
    [
        ("7.2.17", "-plugin file", r"version 7\.2\.17, but capture needs 10\.0 or newer: install it"),
        ("9.2", "-plugin file", r"version 9\.2, but"),
        ("10.0.2", "-device name", "built without plug-ins: install it"),
        ("?", "-plugin file", "does not tell its version"),
    ],
)
def test_an_unsuitable_emulator_is_one_sentence_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, help_text: str, complaint: str
) -> None:
    monkeypatch.setenv("SERVSIM_QEMU", str(fake_emulator.install(tmp_path, version=version, help_text=help_text)))
    with pytest.raises(EnvironmentProblem, match=complaint) as caught:
        find_emulator()
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def value(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_the_machine_is_emulated_with_a_clock_that_counts_instructions() -> None:
    command = command_line(EMULATOR, MACHINE, 5)
    assert value(command, "-accel") == "tcg"
    assert value(command, "-icount") == "shift=0,sleep=on"
    assert value(command, "-smp") == "1,maxcpus=16"
    assert value(command, "-cpu") == "max,la57=off,erms=off,fsrm=off"
    words = value(command, "-append").split()
    assert {"nokaslr", "norandmaps", "mitigations=off", "tsc=reliable"} <= set(words)
    assert "-incoming" not in command
    assert "-plugin" not in command
    assert "snapshot=on" not in " ".join(command)


def test_a_resumed_machine_differs_only_by_what_leaves_the_checkpoint_unchanged() -> None:
    plugin = Plugin(HERE / "a,b.so", (("out", "t,1"),))
    booted = command_line(EMULATOR, MACHINE, 5)
    resumed = command_line(EMULATOR, MACHINE, 5, incoming=HERE / "state", plugins=(plugin,))
    assert resumed[-4:] == ["-incoming", "file:/x/state", "-plugin", "file=/x/a,,b.so,out=t,,1"]
    changed = [(one, other) for one, other in zip(booted, resumed, strict=False) if one != other]
    assert [(one + ",snapshot=on", other) for one, other in changed] == [(other, other) for _, other in changed]
    assert len(changed) == 1


@pytest.mark.parametrize("memory", [0, 255, 2049])
def test_memory_that_would_not_be_one_block_is_refused(memory: int) -> None:
    machine = Machine(HERE, HERE, HERE, HERE, HERE, HERE, memory)
    with pytest.raises(UsageError, match="256 to 2048 MiB"):
        command_line(EMULATOR, machine, 5)
