"""Numbers that callers give, refused in one sentence before the native module cannot even take them."""

from math import isfinite
from typing import TypeGuard

from servsim.errors import UsageError

#: No counter holds more.
LARGEST_COUNT = 2**63
#: Seeds of runs follow one another, and none of them is larger than a counter.
LARGEST_SEED = 2**62
#: Most of what is made one after the other: iterations, replications, customers.
MANY = 1_000_000


def is_whole(value: object, least: int, most: int = LARGEST_COUNT) -> TypeGuard[int]:
    """Say whether a value is a whole number from ``least`` to ``most``; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def whole(name: str, value: object, least: int, most: int = LARGEST_COUNT) -> None:
    """Refuse what is no whole number from ``least`` to ``most``; None is an option that was not given.

    Raises
    ------
    UsageError
        When it is none.
    """
    if value is not None and not is_whole(value, least, most):
        raise UsageError(f"{name} is {value!r}: give a whole number from {least} to {most}")


def finite(name: str, *values: float | None) -> None:
    """Refuse what is not finite; None is an option that was not given.

    Raises
    ------
    UsageError
        When one is not.
    """
    for value in values:
        if value is not None and not isfinite(value):
            raise UsageError(f"{name} is {value}: give a finite number")
