"""The two traces of the study, and what Table 1 says of a trace."""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servsim import disk

#: Packaged block traces: the disk of a virtual machine on which software was being built, and pgbench
#: on PostgreSQL; docs/parts/disk.md says how they were made.
SERVER, BENCHMARK = "build-server-disk.csv.xz", "pgbench-disk.csv.xz"


@dataclass(frozen=True)
class Printed:
    """What the paper prints of a trace: Table 1, then the errors of section 3.2.2."""

    name: str
    requests: int
    reads: int
    writes: int
    sectors_read: int
    sectors_written: int
    hours: float
    error_ms: float
    error_percent: float


PEL_ZD = Printed("PEL-ZD", 117_759, 34_095, 83_664, 272_760, 547_629, 0.94, 0.200, 0.31)
CSL_29 = Printed("CSL-29", 23_650_978, 6_678_672, 16_972_306, 53_429_376, 91_181_192, 704.19, 0.125, 0.35)


@dataclass(frozen=True)
class Measured:
    """A trace of ours, beside the one of the paper that it stands for.

    Attributes
    ----------
    what : str
        What was traced.
    paper : Printed
        The paper's trace.
    source : Source
        Where the trace is.
    columns : dict of numpy.ndarray
        As from :func:`servsim.disk.load`, device by device.
    devices : list of str
        Names of its devices.
    """

    what: str
    paper: Printed
    source: disk.Source
    columns: dict[str, npt.NDArray[Any]]
    devices: list[str]

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.columns["lba"])

    @property
    def response_ms(self) -> npt.NDArray[np.float64]:
        """Response times, ms, device by device in order of arrival."""
        waited: npt.NDArray[np.float64] = (self.columns["completion_ns"] - self.columns["arrival_ns"]) / 1e6
        return waited

    def table_1(self) -> str:
        """Return the row of Table 1."""
        write, sectors = self.columns["is_write"], self.columns["sectors"].astype(np.int64)
        hours = float(self.columns["completion_ns"].max()) / 3.6e12
        return (
            f"{self.requests:,} requests, {int((~write).sum()):,} reads, {int(write.sum()):,} writes, "
            f"{int(sectors[~write].sum()):,} sectors read, {int(sectors[write].sum()):,} written, {hours:.3f} hours, "
            f"{len(self.devices)} device(s)"
        )


def measured(what: str, paper: Printed, source: disk.Source) -> Measured:
    """Read a trace and put its requests in the order in which simulations return theirs."""
    columns, report = disk.load(source)
    order = np.argsort(columns["device"], kind="stable")
    return Measured(what, paper, source, {name: values[order] for name, values in columns.items()}, report["devices"])


@contextmanager
def both(given: Path | None) -> Iterator[list[Measured]]:
    """Yield the server's and the benchmark's trace; ``given`` replaces the server's."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        if given is not None:
            found.append(measured(f"{given.name}, given", CSL_29, disk.Source(str(given))))
        else:
            found.append(measured("the disk of a build server", CSL_29, _unpacked(SERVER, folder)))
        found.append(measured("pgbench on PostgreSQL", PEL_ZD, _unpacked(BENCHMARK, folder)))
        yield found


def _unpacked(name: str, folder: str) -> disk.Source:
    path = Path(folder) / name.removesuffix(".xz")
    path.write_bytes(lzma.decompress((files("servsim") / "data" / name).read_bytes()))
    return disk.Source(str(path))
