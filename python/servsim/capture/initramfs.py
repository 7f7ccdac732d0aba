"""The initial memory file system of the guest: a ``newc`` cpio archive, byte for byte repeatable.

The format is that of the kernel's documentation (Documentation/driver-api/early-userspace/
buffer-format.rst). Inode numbers count up, times are zero, everything belongs to root.
"""

from dataclasses import dataclass

_DIRECTORY = 0o040755
_PROGRAM = 0o100755


@dataclass(frozen=True)
class Member:
    """A directory (``content`` None) or an executable file of the archive."""

    name: str
    content: bytes | None = None


def archive(members: list[Member]) -> bytes:
    """Return an archive with the members in order; a directory must precede what is in it."""
    parts = [
        _entry(number, member.name, _DIRECTORY if member.content is None else _PROGRAM, member.content or b"")
        for number, member in enumerate(members, start=1)
    ]
    return b"".join((*parts, _entry(0, "TRAILER!!!", 0, b"")))


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if mode == _DIRECTORY else 1
    fields = (inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + encoded) + _padded(content)


def _padded(data: bytes) -> bytes:
    """Fill up to a multiple of four bytes."""
    return data + b"\0" * (-len(data) % 4)
