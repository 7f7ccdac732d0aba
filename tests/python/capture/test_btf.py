"""Member offsets from a small type section written by hand, record by record (btf.rst)."""

import struct

import pytest
from servsim.capture.btf import Btf, btf_length
from servsim.errors import EnvironmentProblem

INT, STRUCT, UNION, TYPEDEF, CONST, ARRAY, ENUM, FUNC_PROTO = 1, 4, 5, 8, 10, 3, 6, 13


class Section:
    """Collects type records and strings; types are numbered from 1 in order of addition."""

    def __init__(self) -> None:
        self.types = b""
        self.strings = b"\0"

    def name(self, text: str) -> int:
        if not text:
            return 0
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text) - 1

    def add(self, kind: int, name: str, size: int, count: int = 0, tail: bytes = b"", flag: int = 0) -> None:
        self.types += struct.pack("<III", self.name(name), flag << 31 | kind << 24 | count, size) + tail

    def struct(self, kind: int, name: str, size: int, members: list[tuple[str, int, int]], flag: int = 0) -> None:
        tail = b"".join(struct.pack("<III", self.name(text), type_id, bits) for text, type_id, bits in members)
        self.add(kind, name, size, len(members), tail, flag)

    def bytes(self) -> bytes:
        header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(self.types), len(self.types), len(self.strings))
        return header + self.types + self.strings


@pytest.fixture
def content() -> bytes:
    section = Section()
    section.add(INT, "int", 4, tail=struct.pack("<I", 32))  # 1
    section.add(ARRAY, "", 0, tail=struct.pack("<III", 1, 1, 4))  # 2
    section.add(ENUM, "colour", 4, 2, struct.pack("<IiIi", 0, 0, 0, 1))  # 3
    section.add(FUNC_PROTO, "", 1, 1, struct.pack("<II", 0, 1))  # 4
    section.struct(STRUCT, "iter", 16, [("sector", 1, 0), ("size", 1, 64)])  # 5
    section.add(TYPEDEF, "iter_t", 5)  # 6
    section.add(CONST, "", 6)  # 7
    section.struct(UNION, "", 8, [("plain", 1, 0), ("inner", 5, 0)])  # 8
    section.struct(STRUCT, "bio", 64, [("next", 1, 0), ("", 8, 64), ("it", 7, 256), ("data", 2, 384)])  # 9
    # With the flag set, the upper byte of an offset is the width of a bit-field.
    section.struct(STRUCT, "flags", 8, [("low", 1, 3 << 24 | 0), ("high", 1, 5 << 24 | 3), ("byte", 1, 32)], flag=1)
    section.add(TYPEDEF, "bio", 1)  # a typedef of the same name, later: the structure wins
    return section.bytes()


def test_members_are_found_directly_and_through_typedefs_and_anonymous_unions(content: bytes) -> None:
    types = Btf(content)
    wanted = [
        "bio.next",
        "bio.plain",
        "bio.it.size",
        "bio.inner.size",
        "bio.data",
        "iter_t.size",
        "flags.byte",
    ]
    assert types.offsets(wanted) == {
        "bio.next": 0,
        "bio.plain": 8,
        "bio.it.size": 32 + 8,
        "bio.inner.size": 8 + 8,
        "bio.data": 48,
        "iter_t.size": 8,
        "flags.byte": 4,
    }
    assert types.size("bio") == 64


@pytest.mark.parametrize("path", ["bio.none", "none.next", "bio.next.deeper", "flags.high", "colour.red"])
def test_what_does_not_exist_is_a_key_error_that_names_it(content: bytes, path: str) -> None:
    with pytest.raises(KeyError, match=path.split(".", maxsplit=1)[0]):
        Btf(content).offsets([path])


def test_the_length_is_the_header_s_whatever_follows(content: bytes) -> None:
    assert btf_length(content + b"\0" * 100) == len(content)


def test_incomplete_or_damaged_content_is_refused(content: bytes) -> None:
    damaged = bytearray(content)
    damaged[24 + 7] = 0x1F  # the kind of the first type
    for wrong in (b"", b"\0" * 100, content[:-1], bytes(damaged)):
        with pytest.raises(EnvironmentProblem, match="BTF"):
            Btf(wrong)
