"""Checkpoints: a guest booted, loaded, warmed up and saved at an instruction of its own choice.

The driver in the guest writes to the port of the pvpanic device once its users are connected,
warm and quiet; the emulator, told to pause on that event, stops behind that very instruction.
Then its state goes to a file (``migrate file:``), and with the copy-on-write layer of the root
disk beside it every capture starts from there. Resuming leaves both unchanged.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.capture import control, ending, room, seal, store
from servsim.capture.boot import Running, emulator_running
from servsim.capture.emulator import Emulator, Machine, command_line, find_emulator
from servsim.capture.folder_settings import FolderSettings
from servsim.capture.image import Image, ensure_image
from servsim.capture.steps import Report, silent
from servsim.errors import EnvironmentProblem

#: Seconds of the host allowed for boot and warm-up; they take two minutes on a quiet machine.
BOOT_TIMEOUT_S = 3600.0
#: Seconds allowed for saving the state.
_SAVE_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Checkpoint:
    """A saved guest: a directory of the cache, and the image it stands on."""

    directory: Path
    image: Image
    memory_mib: int

    @property
    def state(self) -> Path:
        """The machine's saved state."""
        return self.directory / "state"

    @property
    def overlay(self) -> Path:
        """What the guest wrote to its root disk before the checkpoint."""
        return self.directory / "overlay.qcow2"

    @property
    def kallsyms(self) -> Path:
        """Addresses of all kernel symbols: the guest's ``/proc/kallsyms``."""
        return self.directory / "kallsyms"

    @property
    def btf(self) -> Path:
        """Types of the kernel: the guest's ``/sys/kernel/btf/vmlinux``."""
        return self.directory / "btf"

    @property
    def maps(self) -> Path:
        """The server's ``/proc/PID/maps``."""
        return self.directory / "maps"

    def warm_up(self) -> dict[str, Any] | None:
        """How the warm-up went: the client's report, where it was to go on until the server settled."""
        try:
            made_of = json.loads((self.directory / "manifest.json").read_text())
            report = made_of["warm_up"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EnvironmentProblem(
                f"{self.directory / 'manifest.json'} is damaged; remove it with `servsim guest clean` and capture again"
            ) from error
        return report if isinstance(report, dict) else None

    def machine(self, control_disk: Path, console: Path) -> Machine:
        """Return the emulated machine, with a control disk and a console of one's own."""
        return _machine(self.image, self.overlay, control_disk, console, self.memory_mib)


def _machine(
    image: Image,
    overlay: Path,
    control_disk: Path,
    console: Path,
    memory_mib: int,
    words: tuple[str, ...] = (),
) -> Machine:
    return Machine(image.kernel, image.initrd, image.root, overlay, control_disk, console, memory_mib, words)


def _inputs(image: Image, emulator: Emulator, settings: FolderSettings) -> dict[str, Any]:
    """Return everything a checkpoint depends on; the machine by its own command line."""
    here = Path()
    plain = Image(here)
    machine = _machine(plain, here, here, here, settings.memory_mib, settings.kernel_words())
    return {
        "schema": "servsim.guest.checkpoint/3",
        "image": image.directory.name,
        "emulator": emulator.version,
        "machine": command_line(Emulator(here, emulator.version), machine, 0),
    }


def checkpoint_of(image: Image, emulator: Emulator, settings: FolderSettings) -> Checkpoint:
    """Return where the checkpoint of these inputs is, or would be."""
    directory = store.guest_dir() / "checkpoint" / store.digest(_inputs(image, emulator, settings))
    return Checkpoint(directory, image, settings.memory_mib)


def ensure_checkpoint(
    settings: FolderSettings, report: Report = silent, timeout_s: float = BOOT_TIMEOUT_S
) -> Checkpoint:
    """Return the checkpoint of these settings, building image and checkpoint when the cache has none.

    Parameters
    ----------
    settings
        Scale, load and memory of the guest.
    report
        Takes each line of progress.
    timeout_s
        Seconds of the host allowed for the boot.

    Raises
    ------
    EnvironmentProblem
        When the emulator is missing or too old, the image cannot be built, or the guest does not
        reach its checkpoint; the sentence names the log.
    """
    emulator = find_emulator()
    image = ensure_image(settings, report)
    checkpoint = checkpoint_of(image, emulator, settings)
    waiting: Callable[[], None] = lambda: report("waiting for another process that boots the same guest")  # noqa: E731

    def build(partial: Path) -> None:
        room.demand(store.guest_dir(), room.for_checkpoint(settings), "the guest's checkpoint")
        began = time.monotonic()
        made = Checkpoint(partial, image, settings.memory_mib)
        warm_up = boot_and_save(made, emulator, settings, report, timeout_s)
        seal.make(partial)
        manifest = _inputs(image, emulator, settings)
        seconds = round(time.monotonic() - began, 1)
        made_of = {"settings": settings.described(), "warm_up": warm_up, "seconds": seconds}
        store.write_json(partial / "manifest.json", {**manifest, **made_of})

    if not store.build_once(checkpoint.directory, build, waiting):
        seal.check_sizes(checkpoint.directory)
    seal.check_sizes(image.directory)
    return checkpoint


def boot_and_save(
    checkpoint: Checkpoint, emulator: Emulator, settings: FolderSettings, report: Report, timeout_s: float
) -> dict[str, Any] | None:
    """Boot the guest, wait until it stops itself, and save it into the checkpoint's directory.

    Returns
    -------
    dict or None
        How the warm-up went (`servsim.capture.warmth`), where it was to go on until the server settled.

    Raises
    ------
    EnvironmentProblem
        When the guest ends or hangs before its checkpoint; the sentence names the console's log.
    """
    console = store.new_log("boot-console")
    disk = checkpoint.directory / "control.raw"
    control.create(disk)
    _create_overlay(checkpoint, emulator)
    machine = _machine(
        checkpoint.image, checkpoint.overlay, disk, console, settings.memory_mib, settings.kernel_words()
    )
    began = time.monotonic()
    report("guest: booting …")
    with emulator_running(emulator, machine, store.new_log("boot-emulator"), report) as running:
        event = running.wait_event(("GUEST_PANICKED", "SHUTDOWN"), timeout_s)
        if event is None:
            raise EnvironmentProblem(
                f"the guest did not reach its checkpoint within {timeout_s:.0f} s and "
                f"{running.last_words()}; "
                f"its console is in {console}"
            )
        if event != "GUEST_PANICKED":
            raise ending.before_checkpoint(running, disk, settings.folder)
        report(f"guest: warm after {time.monotonic() - began:.1f} s, saving …")
        _save(running, checkpoint.state)
    for name, content in control.read_facts(disk).items():
        (checkpoint.directory / name).write_bytes(content)
    warm_up = control.read_warm_up(disk)
    disk.unlink()
    size = checkpoint.state.stat().st_size >> 20
    report(f"guest: checkpoint of {size} MiB after {time.monotonic() - began:.1f} s")
    return warm_up


def _create_overlay(checkpoint: Checkpoint, emulator: Emulator) -> None:
    """Create an empty copy-on-write layer; what it stands on is named when it is opened."""
    beside = emulator.path.with_name("qemu-img")
    program = str(beside) if beside.is_file() else shutil.which("qemu-img")
    if program is None:
        raise EnvironmentProblem("the checkpoint needs qemu-img: run scripts/install-deps.sh")
    size = checkpoint.image.root.stat().st_size
    command = [program, "create", "-q", "-f", "qcow2", str(checkpoint.overlay), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(f"the checkpoint's disk could not be created: {done.stderr.strip()}")


def _save(running: Running, state: Path) -> None:
    """Write the paused machine's state to a file and end the emulator."""
    qmp = running.qmp
    # The default limits the bandwidth as if to a network.
    qmp.command("migrate-set-parameters", max_bandwidth=1 << 40)
    qmp.command("migrate", uri=f"file:{state}")
    deadline = time.monotonic() + _SAVE_TIMEOUT_S
    while (answer := qmp.command("query-migrate")).get("status") != "completed":
        if answer.get("status") in ("failed", "cancelled") or time.monotonic() > deadline:
            reason = answer.get("error-desc", "it took too long")
            raise EnvironmentProblem(f"the guest's state could not be saved ({reason}); is the cache's disk full?")
        time.sleep(0.05)
    qmp.command("quit")
    running.process.wait(60)
