"""Amounts as descriptions write them: a number and a unit."""

import re

#: Units of sizes, in bytes.
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

#: Units of a clock, in hertz.
HERTZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}

#: Units of time but for processor cycles, in seconds.
SECONDS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}

_COUNTED = {"": 1.0, "%": 0.01, "cycle": 1.0, "cycles": 1.0}
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")


def bytes_of(text: str) -> int:
    """Return a size such as ``512 KiB`` in bytes.

    Raises
    ------
    ValueError, KeyError
        For a text that is none.
    """
    number, unit = text.split()
    return int(float(number) * BYTES[unit])


def amount(text: str) -> float | None:
    """Return what orders a value beside others of its kind: its number in the unit's base; None of words.

    Examples
    --------
    >>> amount("2 MiB"), amount("512 KiB"), amount("4"), amount("mesi")
    (2097152.0, 524288.0, 4.0, None)
    """
    found = _AMOUNT.fullmatch(text.strip())
    scales = {**BYTES, **HERTZ, **SECONDS, **_COUNTED}
    return float(found[1]) * scales[found[2]] if found and found[2] in scales else None
