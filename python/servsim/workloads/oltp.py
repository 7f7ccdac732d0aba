"""OLTP: PostgreSQL under TPC-C-derived transactions, driven by the program ``servsim-oltp``.

Each scale has its own database cluster in the cache, kept between commands; the server runs only
while a command does.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servsim import cache
from servsim.errors import UsageError
from servsim.workloads import driver, postgres
from servsim.workloads.base import Request

__all__ = ["PRESETS", "Oltp", "canonical"]

#: Warehouses, districts per warehouse, customers per district and items of the named scales:
#: TPC-C clause 1.2.1 with one warehouse; Alameldeen et al. 2003; the latter reduced to 200 warehouses.
PRESETS: dict[str, tuple[int, int, int, int]] = {
    "spec": (1, 10, 3000, 100_000),
    "paper": (4000, 3, 30, 100),
    "small": (200, 3, 30, 100),
}

_SIZES = ("--warehouses", "--districts", "--customers", "--items")


def canonical(scale: str) -> tuple[int, ...]:
    """Return warehouses, districts, customers and items of a named or written-out scale.

    Examples
    --------
    >>> canonical("paper")
    (4000, 3, 30, 100)
    >>> canonical("10x10x3000x100000")
    (10, 10, 3000, 100000)
    """
    if scale in PRESETS:
        return PRESETS[scale]
    if not re.fullmatch(r"[0-9]{1,7}(x[0-9]{1,7}){3}", scale):
        raise UsageError(
            f"'{scale}' is no scale: give {', '.join(PRESETS)}, or WAREHOUSESxDISTRICTSxCUSTOMERSxITEMS "
            "such as 10x10x3000x100000"
        )
    return tuple(int(part) for part in scale.split("x"))


class Oltp:
    """The OLTP workload."""

    summary = "PostgreSQL 15, TPC-C-derived (not TPC-C): orders, payments, deliveries at any scale"

    def load(self, request: Request) -> None:
        """Make a fresh cluster of the scale and fill it."""
        sizes = canonical(_scale(request))
        program = driver.path("servsim-oltp")
        data = _cluster(_scale(request))
        scratch = data.with_name(data.name + ".loading")
        for old in (scratch, data):
            postgres.remove(old)
        options = [word for key, size in zip(_SIZES, sizes, strict=True) for word in (key, str(size))]
        try:
            postgres.create(scratch)
            with postgres.serve(scratch, request.settings) as socket:
                driver.run(program, _words("load", socket, request, options))
            # Only a complete database gets the name that `run` looks for.
            scratch.rename(data)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def run(self, request: Request) -> None:
        """Run transactions."""
        self._use("run", request)

    def check(self, request: Request) -> None:
        """Check the twelve consistency conditions."""
        self._use("check", request)

    def _use(self, step: str, request: Request) -> None:
        program = driver.path("servsim-oltp")
        with _running(request) as socket:
            driver.run(program, _words(step, socket, request))


def _words(step: str, socket: Path, request: Request, more: Sequence[str] = ()) -> list[str | Path]:
    json = ["--json"] if request.json else []
    orders = {"--transactions": request.transactions, "--seed": request.seed}
    given = [word for name, value in orders.items() if value is not None for word in (name, str(value))]
    return [step, "--host", socket, *more, *given, *request.options, *json]


def _scale(request: Request) -> str:
    return request.scale or "small"


def _cluster(scale: str) -> Path:
    name = "x".join(map(str, canonical(scale)))
    return cache.folder("workloads", "oltp", name) / "data"


@contextmanager
def _running(request: Request) -> Iterator[Path]:
    data = _cluster(_scale(request))
    if not data.is_dir():
        raise UsageError(
            f"scale {_scale(request)} is not loaded: run 'servsim workload load oltp --scale {_scale(request)}' first"
        )
    with postgres.serve(data, request.settings) as socket:
        yield socket
