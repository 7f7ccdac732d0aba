"""Text for people: aligned columns, digits of numbers, and text of others (names in files) made safe to show."""

import json
import math
import re
from collections.abc import Sequence

from servsim.errors import UsageError

#: What a terminal would take for a command, or cannot show: control characters but tab and line feed, and halves of
#: characters that a file name of another encoding leaves.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


#: What a line says of a failure: of compilers and linkers, of Debian's programs, of shells.
_TELLS = re.compile(r"(?i)\b(error|fatal|panicked)\b|^E: |undefined reference|cannot (open|find)|not found$")
#: So many lines of a failed program are told, and so many characters of each.
_TOLD_LINES, _TOLD_CHARACTERS = 2, 240


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    # Python keeps a byte that is not UTF-8 as a lone surrogate, with the byte in its last two digits.
    byte = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
    return f"\\x{byte:02x}" if byte < 0x100 else f"\\u{byte:04x}"


def share(text: str) -> float:
    """Return the number that a share such as ``2%`` or ``0.02`` stands for; NaN where it is no share.

    Examples
    --------
    >>> share("2%"), share("0.02"), share("two")
    (0.02, 0.02, nan)
    """
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan


def printable(text: str) -> str:
    r"""Return a text with everything that a terminal would act on, or cannot show, written as an escape.

    Names come from files, and files from anywhere.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _UNPRINTABLE.sub(_escaped, text)


def toml_string(text: str) -> str:
    r"""Return a text as TOML writes it, in quotes.

    Examples
    --------
    >>> toml_string('a "b"')
    '"a \\"b\\""'
    """
    # What JSON escapes, TOML escapes alike, and one more.
    return json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f")


def reason(output: str, *, last: bool = False) -> str:
    r"""Return why a program failed, from what it said: its first lines that tell of an error, or else its last line.

    With ``last`` the last line comes on top: a script's own word on what its programs said before.

    Examples
    --------
    >>> reason("a.c: In function 'main':\na.c:3:5: error: 'x' undeclared\n    3 | x\n1 warning generated")
    "a.c:3:5: error: 'x' undeclared"
    >>> reason("one\ntwo"), reason("E: no such package"), reason("")
    ('two', 'no such package', 'it said nothing')
    >>> reason("FATAL: address in use\nport 80 is taken: give another", last=True)
    'FATAL: address in use; port 80 is taken: give another'
    """
    said = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line.removeprefix("E: ") for line in said if _TELLS.search(line)][:_TOLD_LINES]
    if last or not telling:
        telling += [line for line in said[-1:] if line not in telling]
    told = (line if len(line) <= _TOLD_CHARACTERS else f"{line[:_TOLD_CHARACTERS]} …" for line in telling)
    return "; ".join(told) or "it said nothing"


def require_utf8(*names: str) -> None:
    """Refuse names of files that results, reports and messages could not hold.

    Raises
    ------
    UsageError
        When a name has bytes that are not UTF-8.
    """
    for name in names:
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"{name} is not UTF-8, and results and reports could not name it: rename it") from None


def decimals_for(half_width: float, most: int = 6) -> int:
    """Return the decimals, ``most`` at most, that show two significant digits of a half-width.

    Negative for hundreds and up.
    """
    return 0 if half_width <= 0 else min(most, 1 - math.floor(math.log10(half_width)))


def columns(rows: Sequence[Sequence[str]], left: int = 1, right: int | None = None) -> list[str]:
    r"""Align the columns of a table, the same on a terminal and off one; returns a line for each row.

    Cells may hold text of others: they are made printable, and nothing in them is taken for a style.

    Parameters
    ----------
    rows : sequence of sequence of str
        Rows of one length, the heading first if there is one.
    left : int, default 1
        How many columns, from the first on, are aligned to the left; the others to the right.
    right : int, optional
        How many columns, from the first on, are aligned to the right, and the others to the left: instead of ``left``.

    Examples
    --------
    >>> columns([["size", "misses"], ["64 KiB", "7"], ["[b]\x1b", "12"]])
    ['size     misses', '64 KiB        7', '[b]\\x1b      12']
    """
    if not rows:
        return []
    cells = [[printable(cell).replace("\n", "\\n").replace("\t", "\\t").rstrip() for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = []
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            room = " " * (width - _width(cell))
            to_left = number < left if right is None else number >= right
            padded.append(cell + room if to_left else room + cell)
        lines.append("  ".join(padded).rstrip())
    return lines


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # loaded only where it is needed: it takes as long as printing the table

    return cell_len(text)
