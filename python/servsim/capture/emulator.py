"""The emulator: finding it, checking it, and the command line of the captured machine.

The machine is described once, here, and is the same for the boot that makes a checkpoint and
for every capture that resumes from it. Choices and their reasons:

* ``-accel tcg`` always: only translated code can be instrumented.
* ``-icount shift=0,sleep=on``: one instruction is one virtual nanosecond while anything runs, so
  that timer interrupts come per instruction and not per host second; while everything waits for a
  disk, time passes as on the host. ``sleep=off`` would jump to the next timer at every such wait,
  and then again as often as the host is slow: see docs/adr/0104.
* one processor of sixteen possible: the simulator spreads tasks over processors itself, but the
  kernel must keep its lock prefixes and per-processor areas.
* no five-level paging (moves the direct map), no fast string operations (one callback per byte).
* at most 2 GiB, so that guest RAM is one block below the PCI hole.
* ``-seed``: RDRAND and the boot entropy are the same in every boot.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servsim.errors import EnvironmentProblem, UsageError

#: First version whose packaged build has the plug-in interface needed (register and memory reads).
OLDEST = (10, 0)
#: Least guest memory in which Debian starts a server, and the largest that stays one block below the PCI hole of `pc`.
LEAST_MEMORY_MIB, MOST_MEMORY_MIB = 256, 2048

#: Kernel command line. Fixed addresses (`nokaslr norandmaps`), no mitigations a simulated machine
#: would not have, the time-stamp counter as clock, a panic that ends the emulator.
KERNEL_WORDS = (
    "console=ttyS0",
    "nokaslr",
    "norandmaps",
    "mitigations=off",
    "tsc=reliable",
    "clocksource=tsc",
    "panic=-1",
    "quiet",
    "loglevel=4",
)

_REMEDY = "install it with scripts/install-deps.sh, or name one in SERVSIM_QEMU"


@dataclass(frozen=True)
class Emulator:
    """A usable emulator.

    Attributes
    ----------
    path
        The executable.
    version
        Its version as printed, for example ``10.0.2``.
    """

    path: Path
    version: str


def find_emulator() -> Emulator:
    """Find ``qemu-system-x86_64`` and check that it is new enough and takes plug-ins.

    Returns
    -------
    Emulator
        The one ``SERVSIM_QEMU`` names, else the first on ``PATH``.

    Raises
    ------
    EnvironmentProblem
        When there is none, it is too old, or it was built without plug-ins.
    """
    name = os.environ.get("SERVSIM_QEMU", "qemu-system-x86_64")
    found = shutil.which(name)
    if found is None:
        raise EnvironmentProblem(f"the emulator {name} was not found: {_REMEDY}")
    return _checked(Path(found))


@cache
def _checked(path: Path) -> Emulator:
    words = _say(path, "--version")
    match = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", words)
    if match is None:
        raise EnvironmentProblem(f"{path} does not tell its version: {_REMEDY}")
    version = match.group(0).removeprefix("version ")
    if (int(match.group(1)), int(match.group(2))) < OLDEST:
        raise EnvironmentProblem(
            f"the emulator {path} is version {version}, but capture needs {OLDEST[0]}.{OLDEST[1]} or newer: {_REMEDY}"
        )
    if "-plugin" not in _say(path, "-help"):
        raise EnvironmentProblem(f"the emulator {path} was built without plug-ins: {_REMEDY}")
    return Emulator(path, version)


def _say(path: Path, option: str) -> str:
    """Return what the emulator prints for an option."""
    try:
        done = subprocess.run([path, option], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"the emulator {path} does not run ({error}): {_REMEDY}") from error
    return done.stdout


@dataclass(frozen=True)
class Plugin:
    """A plug-in to load, with its arguments in order."""

    path: Path
    arguments: tuple[tuple[str, str], ...] = ()

    def option(self) -> str:
        """Return the value of ``-plugin``; a comma inside a value is doubled, as the emulator wants."""
        parts = [f"file={_escape(self.path)}"]
        parts += [f"{key}={_escape(value)}" for key, value in self.arguments]
        return ",".join(parts)


@dataclass(frozen=True)
class Machine:
    """The files and sizes of one emulated machine.

    Attributes
    ----------
    kernel, initrd, image
        Kernel, initial memory file system and raw root disk; never written.
    overlay
        Copy-on-write layer over ``image`` (qcow2).
    control
        Raw control disk.
    console
        File that takes the console's output.
    memory_mib
        Guest memory in MiB.
    kernel_words
        Words appended to the kernel's command line.
    """

    kernel: Path
    initrd: Path
    image: Path
    overlay: Path
    control: Path
    console: Path
    memory_mib: int
    kernel_words: tuple[str, ...] = ()


def command_line(
    emulator: Emulator,
    machine: Machine,
    control_fd: int,
    *,
    incoming: Path | None = None,
    plugins: Sequence[Plugin] = (),
) -> list[str]:
    """Return the emulator's command line.

    Parameters
    ----------
    emulator, machine
        What to run.
    control_fd
        File descriptor, inherited by the emulator, of its control connection.
    incoming
        Saved state to start from instead of the kernel's entry; the overlay is then left
        unchanged, so that many may start from it at once.
    plugins
        Instrumentation to load.
    """
    if not LEAST_MEMORY_MIB <= machine.memory_mib <= MOST_MEMORY_MIB:
        raise UsageError(f"guest memory must be {LEAST_MEMORY_MIB} to {MOST_MEMORY_MIB} MiB, not {machine.memory_mib}")
    words = " ".join((*KERNEL_WORDS, *machine.kernel_words))
    root = (
        f"if=none,id=root,cache=unsafe,driver=qcow2,file.driver=file,file.filename={_escape(machine.overlay)},"
        f"backing.driver=raw,backing.file.driver=file,backing.file.filename={_escape(machine.image)}"
    )
    if incoming is not None:
        root += ",snapshot=on"
    command = [
        str(emulator.path),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "pc,usb=off,vmport=off,hpet=off,graphics=off"),
        *("-accel", "tcg", "-cpu", "max,la57=off,erms=off,fsrm=off"),
        *("-smp", "1,maxcpus=16", "-m", str(machine.memory_mib)),
        *("-icount", "shift=0,sleep=on", "-seed", "1"),
        *("-rtc", "base=2026-01-01T00:00:00,clock=vm"),
        *("-kernel", str(machine.kernel), "-initrd", str(machine.initrd), "-append", words),
        *("-drive", root, "-device", "virtio-blk-pci,drive=root,addr=4"),
        *("-drive", f"if=none,id=control,cache=unsafe,format=raw,file={_escape(machine.control)}"),
        *("-device", "virtio-blk-pci,drive=control,addr=5"),
        *("-chardev", f"file,id=console,path={_escape(machine.console)}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=qmp,fd={control_fd}", "-mon", "chardev=qmp,mode=control"),
        *("-device", "pvpanic", "-action", "panic=pause,reboot=shutdown"),
    ]
    if incoming is not None:
        command += ["-incoming", f"file:{_escape(incoming)}"]
    for plugin in plugins:
        command += ["-plugin", plugin.option()]
    return command


def _escape(value: str | Path) -> str:
    """Double the commas of an option's value."""
    return str(value).replace(",", ",,")
