"""A guest of four nodes with four processors each, for what a machine of one node cannot show.

Its kernel is Debian's, taken from its package without being installed; its only program is the one under test, as
the first process. Nothing runs on the host but the emulator, which ends by itself.
"""

import compileall
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from servsim import cache
from servsim.capture import store
from servsim.capture.client import static_build
from servsim.capture.emulator import find_emulator
from servsim.capture.initramfs import Member, archive
from servsim.errors import EnvironmentProblem

ROOT = Path(__file__).resolve().parents[2]
NODES = 4
PROCESSORS_PER_NODE = 4
#: Where the guest has servsim and the packages that it needs, as in a working copy.
PACKAGES = Path("servsim/python")
#: Parts of Python's library that no program here needs.
_NOT_NEEDED = (
    "__pycache__",
    "site-packages",
    "test",
    "lib2to3",
    "ensurepip",
    "config-*",
    "pydoc_data",
    "idlelib",
    "tkinter",
)
#: Enough for everything that the checks hold at once.
MEBIBYTES_PER_NODE = 256
#: Virtual seconds are host seconds here; a busy host has been seen to need 90.
LIMIT_S = 400


def static_example(name: str) -> bytes:
    """Return an example program of a crate, linked statically: the guest has no C library."""
    try:
        command, program = static_build(ROOT, name)
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    subprocess.run(command, check=True)
    return program.read_bytes()


def with_libraries(programs: Mapping[str, Path]) -> dict[str, bytes]:
    """Return programs of the host under the guest's names, and the shared libraries that they need."""
    needed = {Path(name): path for name, path in programs.items()}
    for path in programs.values():
        listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for word in listed.split():
            if word.startswith("/"):
                needed[Path(word.lstrip("/"))] = Path(word)
    return {str(name): path.read_bytes() for name, path in needed.items()}


def with_python(folder: Path) -> dict[str, bytes]:
    """Return the host's Python, its library, servsim and what its command line needs, compiled, as in the guest."""
    interpreter = Path(os.path.realpath(sys.executable))
    tree = folder / "python"
    library = tree / "library"
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*_NOT_NEEDED))
    packages = tree / "packages"
    for place in map(Path, _packages()):
        if place.is_dir():
            shutil.copytree(place, packages / place.name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        else:
            packages.mkdir(exist_ok=True)
            shutil.copy(place, packages)
    # The archive has no times, by which a compiled file would be told to be outdated.
    compileall.compile_dir(
        tree, quiet=2, legacy=True, workers=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    places = {library: Path("usr/lib") / f"python{sys.version_info.major}.{sys.version_info.minor}", packages: PACKAGES}
    found = {
        str(place / path.relative_to(origin)): path.read_bytes()
        for origin, place in places.items()
        for path in origin.rglob("*")
        if path.is_file() and path.suffix != ".py"
    }
    needed = {"usr/bin/python3": interpreter}
    needed |= {f"usr/lib/extension{at}": path for at, path in enumerate(tree.rglob("*.so"))}
    return found | {name: content for name, content in with_libraries(needed).items() if "extension" not in name}


def _packages() -> list[str]:
    """Return where the packages lie that `servsim rset` imports."""
    told = """
import sys
from servsim.cli import main
sys.argv = ["servsim", "rset", "show"]
try:
    main()
except SystemExit:
    pass
import servsim.manager
print("packages:")
for name, module in sorted(sys.modules.items()):
    place = getattr(module, "__file__", None)
    if place and "." not in name and ("packages" in place or name == "servsim"):
        print(place.removesuffix("/__init__.py"))
"""
    said = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout
    return said.partition("packages:\n")[2].split("\n")[:-1]


def kernel() -> Path:
    """Return Debian's kernel, from the cache or from its package; skips where the package cannot be had."""
    _needs_packages()
    depends = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False)
    names = [line.split()[-1] for line in depends.stdout.splitlines() if line.strip().startswith("Depends:")]
    if not names:
        pytest.skip("the package lists hold no linux-image-amd64: run apt-get update")

    def download(partial: Path) -> None:
        tree = _unpacked(names[0], partial)
        shutil.move(next((tree / "boot").glob("vmlinuz-*")), partial / "vmlinuz")
        shutil.rmtree(tree)

    return _built(names[0], download) / "vmlinuz"


def package(name: str) -> Path:
    """Return what a package of Debian holds, without installing it; skips where it cannot be had."""
    _needs_packages()

    def download(partial: Path) -> None:
        _unpacked(name, partial)

    return _built(name, download) / "tree"


def _needs_packages() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("needs the package manager of Debian for what the guest runs")


def _unpacked(name: str, partial: Path, options: Sequence[str] = ()) -> Path:
    """Download a package into a folder and return what it holds."""
    done = subprocess.run(
        ["apt-get", *options, "download", name], cwd=partial, capture_output=True, text=True, check=False
    )
    packages = list(partial.glob("*.deb"))
    if done.returncode != 0 or not packages:
        raise EnvironmentProblem(f"apt-get cannot download {name}: {done.stderr.strip()}")
    subprocess.run(["dpkg-deb", "-x", packages[0], "tree"], cwd=partial, check=True)
    packages[0].unlink()
    return partial / "tree"


def _built(name: str, build: Callable[[Path], None]) -> Path:
    folder = cache.folder("numa-guest") / name
    try:
        store.build_once(folder, build)
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    return folder


def boot(
    folder: Path,
    files: Mapping[str, bytes],
    first: str = "/init",
    words: str = "",
    more: Sequence[str] = (),
    limit_s: int = LIMIT_S,
    removable: bool = False,
    lacking: bool = False,
    mebibytes: int = MEBIBYTES_PER_NODE,
) -> list[str]:
    """Boot the guest with files and a first program, wait until it is off, and return what it said, a line each.

    ``more`` are further words for the emulator. In a ``removable`` guest the last node's memory is a module that can be
    taken offline: what is there at the boot holds the kernel itself. In a ``lacking`` one the last node has no memory,
    and the processors of the one before it as well. Files take memory, twice while the guest boots.
    """
    try:
        emulator = find_emulator()
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    initrd, console = folder / "initrd", folder / "console"
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    places = [Member(name) for name in sorted({"dev", "proc", "sys", *folders})]
    initrd.write_bytes(archive([*places, *(Member(name, content) for name, content in files.items())]))
    command = [
        str(emulator.path),
        *_machine(removable, lacking, mebibytes),
        *more,
        "-kernel",
        str(kernel()),
        "-initrd",
        str(initrd),
    ]
    options = "console=ttyS0 panic=-1 quiet memhp_default_state=online_movable"
    command += ["-append", f"{options} rdinit={first} -- {words}", "-serial", f"file:{console}"]
    # Never with /dev/kvm: that a device is there does not mean that this kernel can use it.
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, done.stderr
    return console.read_text(errors="replace").splitlines()


def _machine(removable: bool, lacking: bool, mebibytes: int) -> list[str]:
    processors = NODES * PROCESSORS_PER_NODE
    last = NODES - 1
    words = ["-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max"]
    memory = (NODES - (removable or lacking)) * mebibytes
    words += ["-m", f"{memory},slots=1,maxmem={memory + mebibytes}M" if removable else str(memory)]
    words += ["-smp", f"{processors},sockets={NODES},cores={PROCESSORS_PER_NODE}"]
    words += ["-nodefaults", "-display", "none", "-no-reboot"]
    for node in range(NODES):
        first = (node - (lacking and node == last)) * PROCESSORS_PER_NODE
        own = f"node,nodeid={node}"
        if not (lacking and node == last):
            words += ["-object", f"memory-backend-ram,size={mebibytes}M,id=m{node}"]
            own += "" if removable and node == last else f",memdev=m{node}"
        if not (lacking and node == last - 1):
            own += f",cpus={first}-{(node + 1) * PROCESSORS_PER_NODE - 1}"
        words += ["-numa", own]
        if removable and node == last:
            words += ["-device", f"pc-dimm,memdev=m{node},node={node}"]
    for source in range(NODES):
        for to in range(source + 1, NODES):
            words += ["-numa", f"dist,src={source},dst={to},val=30"]
    return words


#: Rust's name of what programs of the Arm64 guest are compiled for: linked statically by Rust's own linker.
ARM_TARGET = "aarch64-unknown-linux-musl"
ARM_NODES = 2
_ARM_MIRROR = "http://deb.debian.org/debian"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def arm_example(name: str) -> bytes:
    """Return an example program of a crate, compiled for Arm64; skips where the compiler has no library for it."""
    try:
        (cargo, *words), program = static_build(ROOT, name)
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    told = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", ARM_TARGET], capture_output=True, text=True, check=False
    )
    if told.returncode != 0 or not any(Path(told.stdout.strip()).glob("libstd-*")):
        pytest.skip(f"the compiler has no library for Arm64: rustup target add {ARM_TARGET}")
    at = words.index("--")
    linker = ["--target", ARM_TARGET, "--config", f'target.{ARM_TARGET}.linker="rust-lld"']
    subprocess.run([cargo, *words[:at], *linker, *words[at:]], check=True)
    return (ROOT / "target" / ARM_TARGET / program.relative_to(ROOT / "target")).read_bytes()


def arm_kernel() -> Path:
    """Return Debian's kernel for Arm64; its package lists are fetched beside the host's, which stay as they are."""
    _needs_packages()
    if not _KEYRING.exists():
        pytest.skip(f"the keyring {_KEYRING} is missing; install debian-archive-keyring")

    def download(partial: Path) -> None:
        (partial / "lists" / "partial").mkdir(parents=True)
        mirror = os.environ.get("SERVSIM_MIRROR", _ARM_MIRROR)
        (partial / "sources").write_text(f"deb [arch=arm64 signed-by={_KEYRING}] {mirror} bookworm main\n")
        settings = {
            "Dir::Etc::SourceList": partial / "sources",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": partial / "lists",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Architectures::": "arm64",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        _told(["apt-get", *options, "-q", "update"], partial)
        depends = _told(["apt-cache", *options, "depends", "linux-image-arm64:arm64"], partial)
        names = [line.split()[-1] for line in depends.splitlines() if line.strip().startswith("Depends:")]
        if not names:
            raise EnvironmentProblem(f"{mirror} has no linux-image-arm64")
        tree = _unpacked(names[0], partial, options)
        shutil.move(next((tree / "boot").glob("vmlinuz-*")), partial / "vmlinuz")
        shutil.rmtree(tree)
        shutil.rmtree(partial / "lists")

    return _built("linux-image-arm64", download) / "vmlinuz"


def _told(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(f"{command[0]} cannot tell of Arm64's packages: {done.stderr.strip()}")
    return done.stdout


def boot_arm(folder: Path, program: bytes, words: str, limit_s: int = LIMIT_S) -> list[str]:
    """Boot an Arm64 guest of two nodes with four processors each, as :func:`boot` does."""
    emulator = shutil.which("qemu-system-aarch64")
    if emulator is None:
        pytest.skip("no qemu-system-aarch64: scripts/install-deps.sh acceptance")
    initrd, console = folder / "initrd", folder / "console"
    initrd.write_bytes(archive([*(Member(name) for name in ("dev", "proc", "sys")), Member("init", program)]))
    processors = ARM_NODES * PROCESSORS_PER_NODE
    command = [emulator, "-accel", "tcg,thread=multi", "-machine", "virt", "-cpu", "cortex-a72"]
    command += ["-m", str(ARM_NODES * MEBIBYTES_PER_NODE), "-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-smp", f"{processors},sockets={ARM_NODES},cores={PROCESSORS_PER_NODE}"]
    for node in range(ARM_NODES):
        first = node * PROCESSORS_PER_NODE
        command += ["-object", f"memory-backend-ram,size={MEBIBYTES_PER_NODE}M,id=m{node}"]
        command += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={first}-{first + PROCESSORS_PER_NODE - 1}"]
    command += ["-numa", "dist,src=0,dst=1,val=30", "-kernel", str(arm_kernel()), "-initrd", str(initrd)]
    command += ["-append", f"console=ttyAMA0 panic=-1 quiet rdinit=/init -- {words}", "-serial", f"file:{console}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, done.stderr
    return console.read_text(errors="replace").splitlines()
