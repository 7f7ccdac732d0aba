"""The guest's disk image: Debian packages, the recipe's files, and data loaded natively.

Two cached layers. The base is the tree of installed packages, by package list (mmdebstrap; one
minute, and a download). The image adds the workload's folder and its client, loads the data
inside the tree with the host's processor instead of the slow emulated one, and turns the tree
into an ext4 file system with ``mke2fs -d``, so that nothing is mounted on the host.
"""

import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from servsim.capture import room, seal, store
from servsim.capture.client import copy_of_client
from servsim.capture.folder import Folder
from servsim.capture.folder_settings import FolderSettings
from servsim.capture.initramfs import Member, archive
from servsim.capture.recipe import SUITE, packages, recipe_digests, recipe_dir
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
    # The generic initramfs takes long to make and is not used: without the hook nobody makes it.
    "/etc/kernel/postinst.d/initramfs-tools",
)
_NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
#: Where the workload's folder lies in the guest.
_WORKLOAD = "/usr/share/servsim/workload"
#: Where its data lie there.
_DATA = "/var/lib/servsim"
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
        """The server's executable, for its symbols; not there where the workload's folder names none."""
        return self.directory / "server"


def ensure_image(settings: FolderSettings, report: Report = silent) -> Image:
    """Return the image of these settings, building it when the cache has none.

    Parameters
    ----------
    settings
        The workload and what it loads.
    report
        Takes each line of progress.

    Raises
    ------
    EnvironmentProblem
        When this machine cannot build it, or a step fails; the sentence names the log.
    """
    steps = Steps(report, store.new_log("image"))
    with store.scratch(store.guest_dir() / "runs", "client-") as beside:
        return _ensure_image(settings, report, steps, copy_of_client(settings.folder, steps, beside))


def _ensure_image(settings: FolderSettings, report: Report, steps: Steps, client: Path) -> Image:
    """Return the image of these settings and this client."""
    folder = settings.folder
    inputs = {
        "schema": "servsim.guest.image/3",
        "base": _base_inputs(folder),
        "recipe": recipe_digests(),
        "workload": folder.digests(),
        "client": store.file_digest(client),
        "load": settings.load_arguments(),
    }
    directory = store.guest_dir() / "image" / store.digest(inputs)
    waiting: Callable[[], None] = lambda: report("waiting for another process that builds the same image")  # noqa: E731

    def build(partial: Path) -> None:
        base = _ensure_base(steps, folder, waiting)
        _build_image(steps, base, partial, client, settings)
        seal.make(partial)
        store.write_json(partial / "manifest.json", {**inputs, "settings": settings.described()})

    if not directory.is_dir():
        _check_host(settings, report)
    store.build_once(directory, build, waiting)
    return Image(directory)


def _check_host(settings: FolderSettings, report: Report) -> None:
    """Refuse what cannot work before anything is downloaded, and say how much room it takes."""
    if platform.machine() != "x86_64":
        raise EnvironmentProblem("the guest's image is built by running its programs, which needs an x86-64 host")
    if os.geteuid() != 0:
        raise EnvironmentProblem("building the guest's image needs root; run `servsim guest build` as root")
    for program in ("mmdebstrap", "mke2fs", "unshare", "chroot", "tar"):
        if shutil.which(program, path=_path()) is None:
            raise EnvironmentProblem(f"building the guest's image needs {program}: run scripts/install-deps.sh")
    needed = room.for_image(settings, base_is_cached=_base_directory(settings.folder).is_dir())
    room.demand(store.guest_dir(), needed, "building the guest's image")
    report(f"image: takes up to {room.text(needed)} of {store.guest_dir()}")


def _path() -> str:
    """Return a search path that has the administrator's programs."""
    return f"{os.environ.get('PATH', '')}:{_ADMIN_PATH}"


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": _path(), "LC_ALL": "C.UTF-8"}


def _base_inputs(folder: Folder) -> dict[str, object]:
    return {
        "suite": SUITE,
        "packages": sorted({*packages(), *folder.packages}),
        "unread": [*_UNREAD, *folder.unread],
        "prepare": list(folder.prepare),
    }


def _base_directory(folder: Folder) -> Path:
    """Return where the archive of the installed packages is, or would be."""
    return store.guest_dir() / "base" / store.digest(_base_inputs(folder))


def _ensure_base(steps: Steps, folder: Folder, waiting: Callable[[], None]) -> Path:
    """Return the tar archive of the installed packages."""
    directory = _base_directory(folder)
    apt = store.guest_dir() / "apt"
    apt.mkdir(exist_ok=True)

    def installing() -> None:
        steps.report("waiting for another process that installs packages")

    def build(partial: Path) -> None:
        command: list[str | Path] = [
            *_NAMESPACES,
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            "--format=tar",
        ]
        command += [f"--include={','.join(sorted({*packages(), *folder.packages}))}"]
        command += [f"--dpkgopt=path-exclude={path}" for path in (*_UNREAD, *folder.unread)]
        # Downloaded packages are kept in the project's cache, for the next build.
        command += ["--skip=download/empty", "--skip=essential/unlink"]
        command += ['--setup-hook=mkdir -p "$1/var/cache/apt/archives"']
        command += [f"--setup-hook=sync-in '{apt}' /var/cache/apt/archives"]
        command += [f"--customize-hook=sync-out /var/cache/apt/archives '{apt}'"]
        command += [f"--essential-hook={line}" for line in folder.prepare]
        command += [SUITE, partial / "base.tar", os.environ.get("SERVSIM_MIRROR", MIRROR)]
        # Copying packages in and out fails while another installation changes the folder that holds them.
        with store.locked(directory.with_name("packages.lock"), installing):
            # The tree is made inside the cache, not in /tmp, which may be small.
            steps.run("image: installing packages", command, env={**_env(), "TMPDIR": str(partial)})

    store.build_once(directory, build, waiting)
    return directory / "base.tar"


def _build_image(steps: Steps, base: Path, partial: Path, client: Path, settings: FolderSettings) -> None:
    tree = partial / "tree"
    tree.mkdir()
    steps.run("image: unpacking", ["tar", "--numeric-owner", "-xpf", base, "-C", tree], env=_env())
    folder = settings.folder
    _install_recipe(tree, folder, client)
    if (folder.path / "load").is_file():
        (tree / _DATA.lstrip("/")).mkdir(parents=True, exist_ok=True)
        inside = ["/bin/sh", "-c", f'cd {_WORKLOAD} && exec ./load "$@"', "load"]
        load: list[str | Path] = ["chroot", tree, *inside, *settings.load_arguments()]
        # Without /proc of the host's: the script mounts the tree's own.
        environment = {**_env(), "servsim_data": _DATA}
        steps.run("image: loading the data", [*_NAMESPACES[:-1], "--", *load], env=environment)
    with steps.step("image: kernel and initial memory file system"):
        _kernel(tree, partial)
    if folder.server:
        shutil.copy2(_server(tree, folder), partial / "server")
    _file_system(steps, tree, partial / "root.raw")
    store.remove(tree)


def _server(tree: Path, folder: Folder) -> Path:
    """Return the server's executable in the tree."""
    path = tree / str(folder.server).lstrip("/")
    if not path.is_file():
        raise EnvironmentProblem(f"{folder.path / 'workload.toml'}: none of its packages brings {folder.server}")
    return path


def _install_recipe(tree: Path, folder: Folder, client: Path) -> None:
    """Copy the first program, the workload's folder and its client into the tree."""
    place = tree / _WORKLOAD.lstrip("/")
    for file in folder.files():
        target = place / file.relative_to(folder.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    for program, target in (
        (recipe_dir() / "init", tree / "usr/sbin/servsim-init"),
        (client, tree / "usr/bin" / folder.client),
    ):
        shutil.copyfile(program, target)
        target.chmod(0o755)


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
