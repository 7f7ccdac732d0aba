"""Exported symbols of an ELF executable.

Follows the System V ABI, "Object Files" and "Symbol Table" (64-bit, little-endian). Reads the
dynamic symbol table only, which stripping does not remove.
"""

import struct

from servsim.errors import EnvironmentProblem

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNSYM = 11
#: Offsets in the ELF header: section table's position; size and number of its entries.
_SHOFF, _SHENTSIZE = 0x28, 0x3A


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
