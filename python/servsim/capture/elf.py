"""What an ELF executable exports, and whether it stands alone.

Follows the System V ABI, "Object Files", "Symbol Table" and "Program Loading" (64-bit, little-endian). Reads the
dynamic symbol table only, which stripping does not remove.
"""

import struct

from servsim.errors import EnvironmentProblem

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
_INTERP = 3
#: Offsets in the ELF header: positions of the program and section tables; size and number of their entries.
_PHOFF, _SHOFF, _PHENTSIZE, _SHENTSIZE = 0x20, 0x28, 0x36, 0x3A


def wants_loader(content: bytes) -> bool:
    """Return whether a program is linked dynamically: only a loader of the right C library can start it.

    What is no complete 64-bit ELF file wants none.
    """
    try:
        (table,) = struct.unpack_from("<Q", content, _PHOFF)
        size, count = struct.unpack_from("<HH", content, _PHENTSIZE)
        kinds = {struct.unpack_from("<I", content, table + index * size)[0] for index in range(count)}
    except struct.error:
        return False
    return content[:6] == b"\x7fELF\x02\x01" and _INTERP in kinds


def dynamic_symbols(content: bytes) -> dict[str, tuple[int, int]]:
    """Return the defined dynamic symbols: value (an address relative to the load address) and bytes.

    Raises
    ------
    EnvironmentProblem
        When the content is not a complete 64-bit ELF file.
    """
    try:
        if content[:6] != b"\x7fELF\x02\x01":
            raise ValueError
        (table,) = struct.unpack_from("<Q", content, _SHOFF)
        size, count = struct.unpack_from("<HH", content, _SHENTSIZE)
        sections = [_SECTION.unpack_from(content, table + index * size) for index in range(count)]
        symbols = {}
        for section in sections:
            if section[1] != _DYNSYM:
                continue
            names = sections[section[6]]
            start, length = section[4], section[5]
            for position in range(start, start + length, _SYMBOL.size):
                name, _, _, index, value, bytes_ = _SYMBOL.unpack_from(content, position)
                if index != 0:
                    begin = names[4] + name
                    symbols[content[begin : content.index(b"\0", begin)].decode()] = (value, bytes_)
    except (struct.error, ValueError, IndexError) as error:
        raise EnvironmentProblem("the guest's server is not a complete 64-bit ELF executable") from error
    return symbols
