"""Texts that people give us, JSON and TOML among them: read here and nowhere else.

Libraries accept more than anything can work with: nesting without end, numbers of thousands of digits, halves of
characters. All of that is refused here with a `ValueError`, whose text is the end of a sentence about the file.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from servsim.errors import UsageError
from servsim.limits import LARGEST_COUNT
from servsim.text import printable

#: No number beyond this is a figure.
LARGEST = 1e18
#: Bytes of a text; results, which are no longer than their windows, have no such bound.
LARGEST_TEXT = 64 << 20
#: Nesting that no document of ours comes near.
_DEEPEST = 32


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put the file's name before what is wrong with its text, which names the line.

    Raises
    ------
    UsageError
        When what is done within does, with the name.
    """
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None


def text_of(path: str | Path, *, missing: str = "", errors: Literal["strict", "replace"] = "strict") -> str:
    """Return the text of a file that somebody wrote.

    Parameters
    ----------
    path
        The file.
    missing
        What to say when there is no such file; the system's reason without it.
    errors
        "replace" where the reader names bytes that are not UTF-8 by their line.

    Raises
    ------
    UsageError
        When it is missing, no file, larger than any text of its kind, or not UTF-8.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_TEXT + 1)
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            raise UsageError(missing) from None
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file that can be read") from None
    except ValueError:
        raise UsageError(f"no file can be named {str(path)!r}: name one that can be read") from None
    if len(content) > LARGEST_TEXT:
        raise UsageError(f"{path} is larger than {LARGEST_TEXT >> 20} MiB, which no text of its kind is; name another")
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read {path}: byte {error.start} is not UTF-8; save it as UTF-8 text") from None


def read_json(text: bytes | str) -> object:
    """Read JSON whose numbers and texts anything here can work with.

    Raises
    ------
    ValueError
        For what is not JSON, for NaN and infinities, numbers beyond any counter, halves of characters, and nesting
        deeper than any document of ours.

    Examples
    --------
    >>> read_json('{"cycles": NaN}')
    Traceback (most recent call last):
        ...
    ValueError: NaN is no number of JSON
    """

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no number of JSON")

    def whole(digits: str) -> int:
        # The library's own refusal of very long ones is advice to programmers.
        return int(digits) if len(digits) < 40 else 2 * LARGEST_COUNT

    try:
        document: object = json.loads(text, parse_constant=refuse, parse_int=whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check(document)
    return document


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML whose numbers and texts anything here can work with.

    Raises
    ------
    ValueError
        For what is not TOML, and otherwise as `read_json`.

    Examples
    --------
    >>> read_toml("seeds = 0x" + 40 * "f")
    Traceback (most recent call last):
        ...
    ValueError: seeds: a number is beyond any counter
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        # The library lets through what Python says of decimal numbers with thousands of digits.
        raise ValueError("a number is beyond any counter") from None
    _check(document)
    return document


def is_plain(value: object) -> bool:
    """Say whether a value is text or a number, as a setting is."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check(document: object) -> None:
    fault = _fault(document, 0)
    if fault is not None:
        what, *place = fault
        raise ValueError(f"{'.'.join(map(printable, reversed(place)))}: {what}" if place else what)


def _fault(value: object, depth: int) -> list[str] | None:
    """Return what is wrong with a part, and then where it is from the inside out; None when it is sound."""
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            if fault := _fault(key, depth + 1):
                return fault
            if fault := _fault(part, depth + 1):
                return [*fault, str(key)]
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return ["a text holds half a character"]
    elif isinstance(value, float) and not (isfinite(value) and abs(value) <= LARGEST):
        return ["a number is beyond any figure"]
    elif isinstance(value, int) and abs(value) > LARGEST_COUNT:
        return ["a number is beyond any counter"]
    return None
