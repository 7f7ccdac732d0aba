"""What this host offers servsim: programs, privileges, room; and what to install for the rest.

Each check is one function that returns a `Finding`; the list at the end is the order of ``servsim
doctor``. Nothing is installed here. Versions follow the emulator's release notes: plug-ins
can read guest memory since QEMU 10.0 (plug-in interface 4), which Debian 12 has in backports.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from servsim.cache import location, repository

#: Oldest emulator whose plug-in interface can read guest memory.
EMULATOR = "qemu-system-x86_64"  # or what SERVSIM_QEMU names
OLDEST_EMULATOR = (10, 0)

#: Memory that the emulated guest and the simulator need together, in GiB.
MEMORY_GIB = 4


@dataclass(frozen=True)
class Finding:
    """One thing looked for.

    Attributes
    ----------
    name : str
        What was looked for.
    ok : bool
        Whether it is there and usable.
    found : str
        What was found, in a few words.
    purpose : str
        What servsim needs it for.
    remedy : str
        What to do when it is missing; empty when all is well.
    required : bool
        Whether the main job (capture, simulate, report) needs it.
    """

    name: str
    ok: bool
    found: str
    purpose: str
    remedy: str
    required: bool


def shipped_trace() -> Path | None:
    """Return the small, really captured trace that ships with servsim, or None when it is missing."""
    path = Path(str(files("servsim"))) / "data" / "quickstart.svt"
    return path if path.is_file() else None


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def native_module() -> Finding:
    """Look for the compiled module, which everything needs."""
    purpose, remedy = "traces, simulation", "run `make build`"
    try:
        from servsim import __version__
    except ImportError as error:
        return Finding("native module", False, str(error), purpose, remedy, True)
    python = ".".join(map(str, sys.version_info[:3]))
    return Finding("native module", True, f"servsim {__version__}, Python {python}", purpose, "", True)


def recipe() -> Finding:
    """Look for the guest's recipe and the capture plug-in's sources, which only a checkout has."""
    copy = repository() or os.environ.get("SERVSIM_RECIPE")
    remedy = "" if copy else "clone servsim's repository and run `make build` there"
    found = str(copy) if copy else "this is an installed package"
    return Finding("checkout", copy is not None, found, "capturing a workload, running one natively", remedy, True)


@cache
def emulator() -> Finding:
    """Look for an emulator that is new enough and loads plug-ins."""
    purpose = "capturing a workload"
    install = "install qemu-system-x86 (Debian 12: `apt-get install -t bookworm-backports qemu-system-x86`)"
    name = os.environ.get("SERVSIM_QEMU", EMULATOR)
    path = shutil.which(name)
    if path is None:
        return Finding("emulator", False, f"{name} is missing", purpose, install, True)
    match = re.search(r"version (\d+)\.(\d+)[\d.]*", _output(path, "--version"))
    if match is None:
        return Finding("emulator", False, f"{name} does not run", purpose, install, True)
    version = match[0].removeprefix("version ")
    if (int(match[1]), int(match[2])) < OLDEST_EMULATOR:
        return Finding("emulator", False, f"QEMU {version} is too old (10.0 or later)", purpose, install, True)
    if "-plugin" not in _output(path, "-help"):
        return Finding("emulator", False, f"QEMU {version} cannot load plug-ins", purpose, install, True)
    return Finding("emulator", True, f"QEMU {version}, loads plug-ins", purpose, "", True)


def root() -> Finding:
    """Look for the privilege that building the guest image takes."""
    ok = os.geteuid() == 0
    remedy = "" if ok else "run as root, for example `sudo make quickstart`"
    return Finding("root", ok, "yes" if ok else "no", "building the guest image", remedy, True)


def image_tools() -> Finding:
    """Look for the programs that make a guest image from packages."""
    purpose = "building the guest image"
    makers = [name for name in ("mmdebstrap", "debootstrap") if shutil.which(name)]
    missing = ([] if makers else ["mmdebstrap"]) + ([] if shutil.which("mke2fs") else ["e2fsprogs"])
    if missing:
        remedy = f"`apt-get install {' '.join(missing)}`"
        return Finding("image tools", False, f"missing: {', '.join(missing)}", purpose, remedy, True)
    return Finding("image tools", True, f"{makers[0]}, mke2fs", purpose, "", True)


def _cached_kinds(guest: Path) -> set[str]:
    """Return which parts of a guest the cache holds, of whatever settings."""
    kinds = ("base", "image", "checkpoint")
    return {kind for kind in kinds if any(path.is_dir() and not path.suffix for path in (guest / kind).glob("*"))}


def room() -> Finding:
    """Look for room on the disk of the cache folder."""
    folder = location()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        remedy = "set SERVSIM_CACHE to a folder you may write to"
        return Finding("room on disk", False, f"{folder} cannot be written", "guest image, traces", remedy, True)
    from servsim.capture.folder_settings import chosen
    from servsim.capture.room import for_everything, text

    free = shutil.disk_usage(there).free
    needed = for_everything(chosen("oltp"), _cached_kinds(folder / "guest")) if repository() else 0
    ok = free >= needed
    remedy = "" if ok else f"free {text(needed)}, or set SERVSIM_CACHE to a folder with room"
    found = f"{text(free)} free for {folder}" + (f", {text(needed)} needed" if needed else "")
    return Finding("room on disk", ok, found, "guest image, checkpoint, traces", remedy, True)


def memory() -> Finding:
    """Look for available memory."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) / 2**20
    except (OSError, StopIteration, ValueError):
        return Finding("memory", True, "unknown on this system", "guest, simulator", "", False)
    ok = available >= MEMORY_GIB
    remedy = "" if ok else f"end other programs: {MEMORY_GIB} GiB should be available"
    return Finding("memory", ok, f"{available:.1f} GiB available", "guest, simulator", remedy, False)


def shipped() -> Finding:
    """Look for the trace that stands in where nothing can be captured."""
    path = shipped_trace()
    remedy = "" if path else "reinstall servsim, or fetch python/servsim/data/quickstart.svt from its repository"
    found = f"{path.stat().st_size / 2**20:.1f} MiB" if path else "missing"
    return Finding("shipped trace", path is not None, found, "quickstart without a capture", remedy, False)


def database() -> Finding:
    """Look for a native PostgreSQL server."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    path = str(places[-1]) if places else shutil.which("postgres")
    if path is None:
        remedy = "`make deps FOR=workload`, or install postgresql"
        return Finding("PostgreSQL", False, "missing", "running the workload natively", remedy, False)
    version = _output(path, "--version").strip().removeprefix("postgres (PostgreSQL) ")
    return Finding("PostgreSQL", True, version, "running the workload natively", "", False)


def block_capture() -> Finding:
    """Look for a way to record the block requests of this host."""
    from servsim.disk.capture import choose
    from servsim.errors import EnvironmentProblem

    purpose = "recording the disk requests of this host"
    try:
        method, reason = choose()
    except EnvironmentProblem as problem:
        return Finding("block capture", False, "not possible here", purpose, str(problem), False)
    return Finding("block capture", True, f"by {method}" + (f": {reason}" if reason else ""), purpose, "", False)


def rust() -> Finding:
    """Look for the Rust compiler."""
    version = _output("cargo", "--version").split()
    if len(version) < 2:
        remedy = "install Rust 1.85 or later from https://rustup.rs"
        return Finding("Rust", False, "cargo is missing", "building from source", remedy, False)
    return Finding("Rust", True, f"cargo {version[1]}", "building from source", "", False)


#: Every check, in the order they are shown.
CHECKS: tuple[Callable[[], Finding], ...] = (
    native_module,
    recipe,
    root,
    emulator,
    image_tools,
    room,
    memory,
    shipped,
    database,
    block_capture,
    rust,
)


def examine() -> list[Finding]:
    """Run every check."""
    return [check() for check in CHECKS]


def capture_obstacle() -> str | None:
    """Return in a few words why nothing can be captured here, or None when it can."""
    for check in (recipe, root, emulator, image_tools, room):
        finding = check()
        if not finding.ok:
            found = "servsim is not run by root" if finding.name == "root" else finding.found
            return f"{found} ({finding.remedy})"
    return None


def as_document(findings: list[Finding]) -> dict[str, Any]:
    """Return findings as the document ``servsim.doctor/1``."""
    ready = all(finding.ok for finding in findings if finding.required)
    return {
        "schema": "servsim.doctor/1",
        "ready": ready,
        "findings": [asdict(finding) for finding in findings],
    }
