"""Where the database's files lie on the guest's disk, so that a simulator can place tables on disks.

Read from the image on the host, by debugfs(8) and from the pages of PostgreSQL's own catalogue:
nothing runs in the guest, and a capture takes no longer. What the guest allocated since the image
was built is not in it; such requests count as lying elsewhere.
"""

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from servsim.errors import EnvironmentProblem

#: The cluster in the guest.
_DATA = "/var/lib/postgresql/data"
#: Sectors of 512 bytes in a block of the image's file system (mke2fs default for its size, 4 KiB).
_SECTORS_PER_BLOCK = 8
#: First object number of a user's database (PostgreSQL, transam.h FirstNormalObjectId).
_FIRST_USER_OBJECT = 16384
#: Object number, and file until it is rewritten, of the catalogue of relations (pg_class.h).
_PG_CLASS = 1259
#: RELMAPPER_FILEMAGIC (PostgreSQL 15, relmapper.c).
_MAP_MAGIC = 0x592717
#: Page size (BLCKSZ), page header, and flag of a line pointer in use (bufpage.h, itemid.h).
_PAGE, _PAGE_HEADER, _LP_NORMAL = 8192, 24, 1
#: Offsets of relname and relfilenode in a row of pg_class (PostgreSQL 15, pg_class.h).
_NAME, _NAME_BYTES, _FILENODE = 4, 64, 88
_LISTED = re.compile(r"^/\d+/(\d+)/\d+/\d+/([^/]+)/\d*/$")
_LEAF = re.compile(r"^\s*(\d+)/\s*(\d+)\s+\d+/\s*\d+\s+\d+ -\s*\d+\s+(\d+) -\s*(\d+)\s")


def describe(image: Path, device: str) -> str:
    """Return lines ``DEVICE SECTOR SECTORS FILE [RELATION]`` for the files of the cluster, by sector.

    Parameters
    ----------
    image
        A raw ext4 file system with a PostgreSQL 15 cluster.
    device
        Name of the disk in the trace.

    Raises
    ------
    EnvironmentProblem
        When debugfs is missing, or the image is missing or damaged.
    """
    try:
        return _described(image, device)
    except (ValueError, IndexError, struct.error) as error:
        raise EnvironmentProblem(
            f"{image} is damaged: its files cannot be found; remove it with `servsim guest clean` and capture again"
        ) from error


def _described(image: Path, device: str) -> str:
    files = list(_files(image))
    relations = _relations(image, files)
    lines = []
    for file, extents in zip(files, _extents(image, files), strict=True):
        relation = relations.get(_filenode(file), "")
        for first, last in extents:
            sector, sectors = first * _SECTORS_PER_BLOCK, (last - first + 1) * _SECTORS_PER_BLOCK
            lines.append((sector, f"{device} {sector} {sectors} {file} {relation}".rstrip()))
    for first, last in next(_extents(image, ["<8>"])):
        sector, sectors = first * _SECTORS_PER_BLOCK, (last - first + 1) * _SECTORS_PER_BLOCK
        lines.append((sector, f"{device} {sector} {sectors} journal"))
    return "\n".join(line for _, line in sorted(lines))


def _debugfs(image: Path, commands: Iterable[str]) -> str:
    """Run commands of debugfs, which opens the image for reading only."""
    program = shutil.which("debugfs", path="/usr/sbin:/sbin:/usr/bin")
    if program is None:
        raise EnvironmentProblem("debugfs is missing: install e2fsprogs")
    with tempfile.NamedTemporaryFile("w", suffix=".debugfs") as file:
        file.write("\n".join(commands) + "\n")
        file.flush()
        done = subprocess.run([program, "-f", file.name, str(image)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(f"debugfs cannot read {image}: {done.stderr.strip()}")
    return done.stdout


def _files(image: Path) -> Iterator[str]:
    """Yield the files below the cluster's folder, by their path in it."""
    folders = [""]
    while folders:
        text = _debugfs(image, (f"ls -p {_DATA}/{folder}" for folder in folders))
        below: list[str] = []
        # Each command is echoed before its output.
        for folder, listing in zip(folders, re.split(r"^debugfs: .*$", text, flags=re.M)[1:], strict=True):
            for line in listing.splitlines():
                found = _LISTED.match(line)
                if found is None or found[2] in (".", ".."):
                    continue
                path = f"{folder}/{found[2]}".lstrip("/")
                if found[1].startswith("04"):
                    below.append(path)
                elif found[1].startswith("10"):
                    yield path
        folders = below


def _extents(image: Path, files: list[str]) -> Iterator[list[tuple[int, int]]]:
    """Yield the first and last block of each extent, file by file."""
    names = (file if file.startswith("<") else f"{_DATA}/{file}" for file in files)
    text = _debugfs(image, (f"dump_extents {name}" for name in names))
    for listing in re.split(r"^debugfs: .*$", text, flags=re.M)[1:]:
        found = (_LEAF.match(line) for line in listing.splitlines())
        yield [(int(m[3]), int(m[4])) for m in found if m and m[1] == m[2]]


def _filenode(file: str) -> tuple[str, int] | None:
    """Return folder and number of a relation's file, its forks and further segments included."""
    found = re.fullmatch(r"(base/\d+|global)/(\d+)(?:_\w+)?(?:\.\d+)?", file)
    return (found[1], int(found[2])) if found else None


def _content(image: Path, file: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        _debugfs(image, [f"dump {_DATA}/{file} {copy}"])
        return copy.read_bytes() if copy.exists() else b""


def _relations(image: Path, files: list[str]) -> dict[tuple[str, int] | None, str]:
    """Return the names of the relations of the users' databases, by folder and number of their files."""
    named: dict[tuple[str, int] | None, str] = {}
    for folder in sorted({file.rsplit("/", 1)[0] for file in files if file.startswith("base/")}):
        if int(folder.split("/")[1]) < _FIRST_USER_OBJECT:
            continue
        mapped = mapped_files(_content(image, f"{folder}/pg_filenode.map"))
        catalogue = _content(image, f"{folder}/{mapped.get(_PG_CLASS, _PG_CLASS)}")
        for number, name, filenode in catalogue_rows(catalogue):
            named[(folder, filenode or mapped.get(number, number))] = name
    return named


def mapped_files(content: bytes) -> dict[int, int]:
    """Return the files of the relations that pg_class does not give one, by object number."""
    if len(content) < 8 or struct.unpack_from("<I", content)[0] != _MAP_MAGIC:
        return {}
    (count,) = struct.unpack_from("<I", content, 4)
    return dict(struct.unpack_from("<II", content, 8 + 8 * index) for index in range(count))


def catalogue_rows(content: bytes) -> Iterator[tuple[int, str, int]]:
    """Yield object number, name and file number of each row of pg_class."""
    for page in range(0, len(content) - _PAGE + 1, _PAGE):
        (lower,) = struct.unpack_from("<H", content, page + 12)
        for pointer in range(page + _PAGE_HEADER, page + lower, 4):
            (item,) = struct.unpack_from("<I", content, pointer)
            if item >> 15 & 3 != _LP_NORMAL:
                continue
            row = page + (item & 0x7FFF)
            row += content[row + 22]
            (number,) = struct.unpack_from("<I", content, row)
            name = content[row + _NAME : row + _NAME + _NAME_BYTES].split(b"\0")[0].decode()
            (filenode,) = struct.unpack_from("<I", content, row + _FILENODE)
            yield number, name, filenode
