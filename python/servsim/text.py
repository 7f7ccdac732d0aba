"""Text of others, such as names in files, made safe to show on a terminal."""

import re

#: What a terminal would take for a command, or cannot show: control characters but tab and line feed, and halves of
#: characters that a file name of another encoding leaves.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Python keeps a byte that is not UTF-8 as a lone surrogate, with the byte in its last two digits.
    byte = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
    return f"\\x{byte:02x}" if byte < 0x100 else f"\\u{byte:04x}"


def printable(text: str) -> str:
    r"""Return a text with everything that a terminal would act on, or cannot show, written as an escape.

    Names come from files, and files from anywhere.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _UNPRINTABLE.sub(_escaped, text)
