"""Disk traces as they are read: columns, compressed files, pipes, and the requests of a guest."""

import bz2
import gzip
import json
import lzma
import tarfile
from pathlib import Path

import numpy as np
import pytest
from disk_command import servsim, write_trace
from servsim import disk
from servsim.errors import UsageError

SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def test_columns_are_numpy_arrays_in_arrival_order(tmp_path: Path) -> None:
    trace = write_trace(tmp_path)
    columns, report = disk.load(str(trace))
    assert report["requests"] == 3000
    assert columns["arrival_ns"][0] == 0
    assert (np.diff(columns["arrival_ns"].astype(np.int64)) >= 0).all()
    assert columns["is_write"].dtype == bool


def test_compressed_traces_are_read_as_they_are_and_pipes_too(tmp_path: Path) -> None:
    trace = write_trace(tmp_path)
    plain = disk.import_trace(str(trace))
    for compress, extension in ((gzip.compress, "gz"), (bz2.compress, "bz2"), (lzma.compress, "xz")):
        packed = tmp_path / f"requests.csv.{extension}"
        packed.write_bytes(compress(trace.read_bytes()))
        assert disk.import_trace(str(packed)) == plain
        cut = tmp_path / f"cut.csv.{extension}"
        cut.write_bytes(packed.read_bytes()[:-50])
        with pytest.raises(UsageError, match="damaged or cut short"):
            disk.import_trace(str(cut))
    several = tmp_path / "several.tar"
    with tarfile.open(several, "w") as archive:
        archive.add(trace, "requests.csv")
    with pytest.raises(UsageError, match="a tar archive; unpack it"):
        disk.import_trace(str(several))
    piped = servsim("disk", "import", "/dev/stdin", "--format", "csv", "--json", given=trace.read_text())
    assert json.loads(piped.stdout)["requests"] == plain["requests"]


def test_the_requests_of_a_guest_are_those_its_trace_counts() -> None:
    columns, report = disk.load(str(SHIPPED))
    done = servsim("trace", "stats", str(SHIPPED), "--json")
    counted = json.loads(done.stdout)["statistics"]
    assert report["format"] == "svt"
    assert report["requests"] == counted["io_reads"] + counted["io_writes"] > 0
    assert report["zero_length"] == counted["io_flushes"]
    write, size = columns["is_write"], columns["sectors"].astype(np.int64) * 512
    assert size[~write].sum() == counted["io_read_bytes"]
    assert size[write].sum() == counted["io_written_bytes"]
    assert (columns["completion_ns"] > columns["arrival_ns"]).all()
    named, _ = disk.load(disk.Source(str(SHIPPED), format="svt"))
    assert (named["lba"] == columns["lba"]).all()
