"""Offsets of structure members from BTF, the type information inside a Linux kernel.

Follows the kernel's documentation, "BPF Type Format (BTF)" (Documentation/bpf/btf.rst):
a header, a section of type records and a section of strings, all little-endian here. Reads what
offsets need: structures, unions and the types that lead to them; functions and variables are
skipped over.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from servsim.errors import EnvironmentProblem

_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")

# Kinds of type records (btf.rst, section 2.2).
_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _FWD, _TYPEDEF = range(1, 9)
_VOLATILE, _CONST, _RESTRICT, _FUNC, _FUNC_PROTO, _VAR, _DATASEC, _FLOAT = range(9, 17)
_DECL_TAG, _TYPE_TAG, _ENUM64 = range(17, 20)
#: Kinds that only rename or qualify the type they refer to.
_TRANSPARENT = frozenset({_TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG})
#: Bytes behind the common record: (fixed, per element counted in `vlen`).
_TAIL = {
    _INT: (4, 0),
    _ARRAY: (12, 0),
    _STRUCT: (0, 12),
    _UNION: (0, 12),
    _ENUM: (0, 8),
    _FUNC_PROTO: (0, 8),
    _VAR: (4, 0),
    _DATASEC: (0, 12),
    _DECL_TAG: (4, 0),
    _ENUM64: (0, 12),
}


def btf_length(content: bytes) -> int:
    """Return the length in bytes that a BTF header announces, 0 when there is no header."""
    if len(content) < _HEADER.size:
        return 0
    magic, _, _, header, type_start, type_size, string_start, string_size = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        return 0
    return int(header + max(type_start + type_size, string_start + string_size))


@dataclass(frozen=True)
class _Record:
    """One type record: where its tail starts, and the fields all kinds share."""

    name: int
    kind: int
    count: int
    flag: bool
    size_or_type: int
    tail: int


@dataclass(frozen=True)
class _Member:
    """A named member: bit offset from the structure's start, bit-field width (0: none), type."""

    name: str
    bit_offset: int
    bit_width: int
    type_id: int


class Btf:
    """The types of one kernel.

    Parameters
    ----------
    content
        The bytes of ``/sys/kernel/btf/vmlinux``.

    Raises
    ------
    EnvironmentProblem
        When they are not complete BTF.
    """

    def __init__(self, content: bytes) -> None:
        length = btf_length(content)
        if not 0 < length <= len(content):
            raise EnvironmentProblem(
                "the kernel's type information (BTF) is missing or incomplete; rebuild the checkpoint"
            )
        _, _, _, header, type_start, type_size, string_start, string_size = _HEADER.unpack_from(content)
        self._content = content
        self._strings = content[header + string_start : header + string_start + string_size]
        self._records: list[_Record | None] = [None]
        try:
            self._read(header + type_start, header + type_start + type_size)
        except (struct.error, KeyError) as error:
            raise EnvironmentProblem(
                "the kernel's type information (BTF) is damaged; rebuild the checkpoint"
            ) from error
        self._by_name = self._index()

    def _read(self, position: int, end: int) -> None:
        """Read every type record; a record's index is its type id."""
        while position < end:
            name, info, size_or_type = _TYPE.unpack_from(self._content, position)
            kind, count = info >> 24 & 0x1F, info & 0xFFFF
            if not _INT <= kind <= _ENUM64:
                raise KeyError(kind)
            position += _TYPE.size
            self._records.append(_Record(name, kind, count, bool(info >> 31), size_or_type, position))
            fixed, each = _TAIL.get(kind, (0, 0))
            position += fixed + each * count

    def _index(self) -> dict[str, int]:
        """Map structure, union and typedef names to type ids; structures win over typedefs."""
        index: dict[str, int] = {}
        for kinds in ({_TYPEDEF}, {_UNION}, {_STRUCT}):
            for type_id, record in enumerate(self._records):
                if record is not None and record.kind in kinds and record.name:
                    index[self._text(record.name)] = type_id
        return index

    def _text(self, start: int) -> str:
        return self._strings[start : self._strings.index(b"\0", start)].decode()

    def size(self, structure: str) -> int:
        """Return the size of a structure or union in bytes.

        Raises
        ------
        KeyError
            When the kernel has none of that name.
        """
        return self._structure(self._by_name[structure]).size_or_type

    def offset(self, structure: str, path: str) -> int:
        """Return the byte offset of a member.

        Parameters
        ----------
        structure
            Name of a structure, union or typedef of one.
        path
            Member name, or several joined by dots for members of embedded structures. Members of
            anonymous structures and unions are found as in C.

        Raises
        ------
        KeyError
            When there is no such structure or member, or it is a bit-field that starts inside a byte.

        Examples
        --------
        ``btf.offset("bio", "bi_iter.bi_sector")``
        """
        try:
            type_id = self._by_name[structure]
        except KeyError:
            raise KeyError(f"struct {structure}") from None
        bits = 0
        for name in path.split("."):
            found = self._find(type_id, name)
            if found is None:
                raise KeyError(f"struct {structure}: {path}")
            bits += found.bit_offset
            type_id = found.type_id
        if bits % 8:
            raise KeyError(f"struct {structure}: {path} is a bit-field")
        return bits // 8

    def offsets(self, wanted: Iterable[str]) -> dict[str, int]:
        """Return byte offsets of members written ``structure.member[.member]``.

        Raises
        ------
        KeyError
            Naming the first that does not exist.
        """
        return {name: self.offset(*name.split(".", 1)) for name in wanted}

    def _structure(self, type_id: int) -> _Record:
        """Follow typedefs and qualifiers to a structure or union."""
        record = self._records[type_id]
        while record is not None and record.kind in _TRANSPARENT:
            record = self._records[record.size_or_type]
        if record is None or record.kind not in (_STRUCT, _UNION):
            raise KeyError(f"type {type_id} is not a structure")
        return record

    def _members(self, record: _Record) -> list[_Member]:
        members = []
        for index in range(record.count):
            name, type_id, offset = _TYPE.unpack_from(self._content, record.tail + index * _TYPE.size)
            # With the record's flag set, the upper byte is the width of a bit-field.
            width = offset >> 24 if record.flag else 0
            members.append(_Member(self._text(name), offset & 0xFFFFFF if record.flag else offset, width, type_id))
        return members

    def _find(self, type_id: int, name: str) -> _Member | None:
        """Find a member by name, looking into anonymous members."""
        try:
            record = self._structure(type_id)
        except KeyError:
            return None
        for member in self._members(record):
            if member.name == name:
                return member
            if not member.name:
                inner = self._find(member.type_id, name)
                if inner is not None:
                    return _Member(name, member.bit_offset + inner.bit_offset, inner.bit_width, inner.type_id)
        return None
