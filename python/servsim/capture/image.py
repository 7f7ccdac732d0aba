"""The guest's disk image: Debian packages, the recipe's files, and a database loaded natively.

Two cached layers. The base is the tree of installed packages, by package list (mmdebstrap; one
minute, and a download). The image adds the recipe's files and the driver, loads the database
inside the tree with the host's processor instead of the slow emulated one, and turns the tree
into an ext4 file system with ``mke2fs -d``, so that nothing is mounted on the host.
"""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from servsim.capture import room, seal, store
from servsim.capture.driver import guest_driver
from servsim.capture.initramfs import Member, archive
from servsim.capture.settings import SUITE, GuestSettings, packages, recipe_digests, recipe_dir
from servsim.capture.steps import Report, Steps, silent
from servsim.errors import EnvironmentProblem

#: Where packages come from when ``SERVSIM_MIRROR`` names no other mirror.
MIRROR = "http://deb.debian.org/debian"
#: Free space of the image beyond its content, in bytes: log segments and growth during a capture.
_ROOM = 1536 << 20
#: Fixed identity, so that the same content gives the same file system.
_UUID = "5e2f51a1-0000-4000-8000-000000000001"
#: Files of packages that the guest never reads; they would be a third of the image, three times while it is built.
_UNREAD = (
    *(f"/usr/share/{folder}/*" for folder in ("man", "doc", "locale", "info", "i18n")),
    "/usr/lib/udev/hwdb.d/*",
    # The server compiles no queries (jit = off in the recipe), and so needs no compiler.
    "/usr/lib/postgresql/*/lib/bitcode/*",
    "/usr/lib/postgresql/*/lib/llvmjit*",
    "/usr/lib/*/libLLVM-*",
    "/usr/lib/*/libz3.so*",
    # The generic initramfs takes long to make and is not used: without the hook nobody makes it.
    "/etc/kernel/postinst.d/initramfs-tools",
)
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_DRIVERS = ("virtio_pci", "virtio_blk")
_ADMIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """A built image: a directory of the cache."""

    directory: Path

    @property
    def root(self) -> Path:
        """The raw root file system."""
        return self.directory / "root.raw"

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The initial memory file system."""
        return self.directory / "initrd.img"

    @property
    def server(self) -> Path:
        """The database server's executable, for its symbols."""
        return self.directory / "postgres"


def ensure_image(settings: GuestSettings, report: Report = silent) -> Image:
    """Return the image of these settings, building it when the cache has none.

    Parameters
    ----------
    settings
        Scale of the database.
    report
        Takes each line of progress.

    Raises
    ------
    EnvironmentProblem
        When this machine cannot build it, or a step fails; the sentence names the log.
    """
    steps = Steps(report, store.new_log("image"))
    driver = guest_driver(steps)
    inputs = {
        "schema": "servsim.guest.image/2",
        "base": _base_inputs(),
        "recipe": recipe_digests(),
        "driver": store.file_digest(driver),
        "load": settings.load_arguments(),
    }
    directory = store.guest_dir() / "image" / store.digest(inputs)
    waiting: Callable[[], None] = lambda: report("waiting for another process that builds the same image")  # noqa: E731

    def build(partial: Path) -> None:
        base = _ensure_base(steps, waiting)
        _build_image(steps, base, partial, driver, settings)
        seal.make(partial)
        store.write_json(partial / "manifest.json", {**inputs, "settings": asdict(settings)})

    if not directory.is_dir():
        _check_host(settings, report)
    store.build_once(directory, build, waiting)
    return Image(directory)


def _check_host(settings: GuestSettings, report: Report) -> None:
    """Refuse what cannot work before anything is downloaded, and say how much room it takes."""
    if platform.machine() != "x86_64":
        raise EnvironmentProblem("the guest's image is built by running its programs, which needs an x86-64 host")
    if os.geteuid() != 0:
        raise EnvironmentProblem("building the guest's image needs root; run `servsim guest build` as root")
    for program in ("mmdebstrap", "mke2fs", "unshare", "chroot", "tar"):
        if shutil.which(program, path=_path()) is None:
            raise EnvironmentProblem(f"building the guest's image needs {program}: run scripts/install-deps.sh")
    needed = room.for_image(settings, base_is_cached=_base_directory().is_dir())
    room.demand(store.guest_dir(), needed, "building the guest's image")
    report(f"image: takes up to {room.text(needed)} of {store.guest_dir()}")


def _path() -> str:
    """Return a search path that has the administrator's programs."""
    return f"{os.environ.get('PATH', '')}:{_ADMIN_PATH}"


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": _path(), "LC_ALL": "C.UTF-8"}


def _base_inputs() -> dict[str, object]:
    return {"suite": SUITE, "packages": packages(), "unread": list(_UNREAD)}


def _base_directory() -> Path:
    """Return where the archive of the installed packages is, or would be."""
    return store.guest_dir() / "base" / store.digest(_base_inputs())


def _ensure_base(steps: Steps, waiting: Callable[[], None]) -> Path:
    """Return the tar archive of the installed packages."""
    directory = _base_directory()
    apt = store.guest_dir() / "apt"
    apt.mkdir(exist_ok=True)

    def build(partial: Path) -> None:
        command: list[str | Path] = [
            *_NAMESPACES,
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            "--format=tar",
        ]
        command += [f"--include={','.join(packages())}"]
        command += [f"--dpkgopt=path-exclude={path}" for path in _UNREAD]
        # Downloaded packages are kept in the project's cache, for the next build.
        command += ["--skip=download/empty", "--skip=essential/unlink"]
        command += ['--setup-hook=mkdir -p "$1/var/cache/apt/archives"']
        command += [f"--setup-hook=sync-in '{apt}' /var/cache/apt/archives"]
        command += [f"--customize-hook=sync-out /var/cache/apt/archives '{apt}'"]
        # No cluster at installation: the recipe makes its own.
        command += ['--essential-hook=mkdir -p "$1/etc/postgresql-common"']
        no_cluster = 'echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"'
        command += [f"--essential-hook={no_cluster}"]
        command += [SUITE, partial / "base.tar", os.environ.get("SERVSIM_MIRROR", MIRROR)]
        # The tree is made inside the cache, not in /tmp, which may be small.
        steps.run("image: installing packages", command, env={**_env(), "TMPDIR": str(partial)})

    store.build_once(directory, build, waiting)
    return directory / "base.tar"


def _build_image(steps: Steps, base: Path, partial: Path, driver: Path, settings: GuestSettings) -> None:
    tree = partial / "tree"
    tree.mkdir()
    steps.run("image: unpacking", ["tar", "--numeric-owner", "-xpf", base, "-C", tree], env=_env())
    _install_recipe(tree, driver)
    load: list[str | Path] = ["chroot", tree, "/usr/share/servsim/load-database", *settings.load_arguments()]
    # Without /proc of the host's: the script mounts the tree's own.
    steps.run("image: loading the database", [*_NAMESPACES[:-1], "--", *load], env=_env())
    with steps.step("image: kernel and initial memory file system"):
        _kernel(tree, partial)
    shutil.copy2(tree / "usr/lib/postgresql/15/bin/postgres", partial / "postgres")
    _file_system(steps, tree, partial / "root.raw")
    store.remove(tree)


def _install_recipe(tree: Path, driver: Path) -> None:
    """Copy the recipe's files and the driver into the tree."""
    recipe = recipe_dir()
    shared = tree / "usr/share/servsim"
    shared.mkdir(parents=True)
    for source, target in (
        (recipe / "postgresql.conf", shared / "postgresql.conf"),
        (recipe / "load-database", shared / "load-database"),
        (recipe / "init", tree / "usr/sbin/servsim-init"),
        (driver, tree / "usr/bin/servsim-oltp"),
    ):
        shutil.copyfile(source, target)
        target.chmod(0o644 if source.suffix == ".conf" else 0o755)


def _kernel(tree: Path, partial: Path) -> None:
    """Copy the kernel, and make an archive of busybox and the disk drivers' modules."""
    kernels = sorted((tree / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise EnvironmentProblem("the guest's packages brought no kernel; see packages.txt of the recipe")
    shutil.copyfile(kernels[-1], partial / "vmlinuz")
    release = kernels[-1].name.removeprefix("vmlinuz-")
    modules = _modules(tree, release)
    members = [Member(name) for name in ("bin", "dev", "modules", "proc", "root")]
    members.append(Member("init", (recipe_dir() / "initramfs-init").read_bytes()))
    members.append(Member("bin/busybox", (tree / "bin/busybox").read_bytes()))
    members.append(Member("modules/order", "".join(f"{path.name}\n" for path in modules).encode()))
    members += [Member(f"modules/{path.name}", path.read_bytes()) for path in modules]
    (partial / "initrd.img").write_bytes(archive(members))


def _modules(tree: Path, release: str) -> list[Path]:
    """Return the files of the disk drivers' modules in the order in which they must be loaded."""
    base = tree / "lib/modules" / release
    needs: dict[str, list[str]] = {}
    for line in (base / "modules.dep").read_text().splitlines():
        module, _, rest = line.partition(":")
        needs[module] = rest.split()
    order: list[str] = []
    for driver in _DRIVERS:
        found = next((name for name in needs if Path(name).name == f"{driver}.ko"), None)
        if found is not None:
            # Debian lists dependencies so that the deepest come last.
            order += [*reversed(needs[found]), found]
    return [base / name for name in dict.fromkeys(order)]


def _file_system(steps: Steps, tree: Path, target: Path) -> None:
    """Turn the tree into a sparse ext4 file system, initialised now: no kernel thread does it later."""
    used = sum(path.lstat().st_blocks * 512 for path in tree.rglob("*"))
    with target.open("wb") as file:
        file.truncate((used * 11 // 10 + _ROOM) >> 20 << 20)
    extended = f"hash_seed={_UUID},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
    command: list[str | Path] = [
        "mke2fs",
        "-q",
        "-F",
        "-t",
        "ext4",
        "-U",
        _UUID,
        "-E",
        extended,
        "-d",
        tree,
        target,
    ]
    steps.run("image: file system", command, env=_env())
