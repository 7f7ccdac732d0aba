"""Kernels: threaded scientific programs and memory tests, the program ``servsim-kernel``.

They keep no data and need no server: a run makes its own initial values and checks its own results.
"""

import json
from collections.abc import Sequence

from servsim.errors import UsageError
from servsim.workloads import driver
from servsim.workloads.base import Request

__all__ = ["Kernels"]

_PROGRAM = "servsim-kernel"
#: Options of ``servsim workload run`` that have no meaning here, and what to give instead.
_OTHERS = {"--users": "--threads", "--transactions": "--iterations", "--seconds": "--iterations"}


class Kernels:
    """The kernels."""

    summary = "FFT, ocean, water, Barnes-Hut, fast multipole, memory tests: --kernel NAME, with self-checks"

    def load(self, request: Request) -> None:
        """Refuse: there are no data."""
        raise UsageError("kernels have no data to load: go on with 'servsim workload run kernels --kernel NAME'")

    def run(self, request: Request) -> None:
        """Run the kernel that ``--kernel`` names; the scale is its size."""
        if request.settings:
            raise UsageError("kernels have no server to set anything of: leave --set out")
        kernel, words = _split(request.options)
        for word in words:
            name = word.partition("=")[0]
            if name in _OTHERS:
                raise UsageError(f"kernels do not know {name}: give {_OTHERS[name]}")
        size = [] if request.scale == "small" else ["--size", request.scale]
        as_json = ["--json"] if request.json else []
        driver.run(driver.path(_PROGRAM), [kernel, *size, *words, *as_json])

    def check(self, request: Request) -> None:
        """Refuse: nothing is left to check."""
        raise UsageError("kernels check their results at the end of every run: nothing is left to check afterwards")


def _split(options: Sequence[str]) -> tuple[str, list[str]]:
    """Take the name of the kernel out of the options."""
    words = list(options)
    for index, word in enumerate(words):
        name, separator, value = word.partition("=")
        if name != "--kernel":
            continue
        if separator:
            return _known(value), words[:index] + words[index + 1 :]
        if index + 1 < len(words):
            return _known(words[index + 1]), words[:index] + words[index + 2 :]
    raise UsageError(f"which kernel? give --kernel with one of {', '.join(_names())}")


def _known(kernel: str) -> str:
    names = _names()
    if kernel not in names:
        raise UsageError(f"there is no kernel '{kernel}'; known: {', '.join(names)}")
    return kernel


def _names() -> list[str]:
    """Return the names of the kernels, as the program lists them."""
    listed = json.loads(driver.answer(driver.path(_PROGRAM), ["list", "--json"]))
    return [kernel["name"] for kernel in listed["kernels"]]
