"""Text for a terminal: aligned columns, and text of others, such as names in files, made safe to show."""

import re
from collections.abc import Sequence
from typing import Literal

from servsim.errors import UsageError

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
    # Loaded here: a command that prints no table does not wait for it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return []
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for number in range(len(rows[0])):
        side: Literal["left", "right"] = "left" if (number < left if right is None else number >= right) else "right"
        table.add_column(justify=side, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell).replace("\n", "\\n").replace("\t", "\\t")) for cell in row))
    console = Console(width=100_000, color_system=None, force_terminal=False, legacy_windows=False, _environ={})
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]
