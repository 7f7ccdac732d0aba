"""The queueing model beside native runs: the arithmetic on made-up parameters, and what is refused."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.errors import UsageError
from servsim.machines import resolve
from servsim.model import native
from servsim.model.io_stations import Requests
from servsim.model.parameters import Parameters
from servsim.validation import host, plan
from servsim.validation.host import Host
from servsim.validation.native import NativeRun
from servsim.validation.record import Record

SERVSIM = Path(sys.executable).with_name("servsim")
HOST = Host((0, 1), "some processor", 48 << 10, 1 << 20, 32 << 20, 64, 1e-4, 1e-4, "15.18")
#: 100 transactions/s with one task, 110 with more; no disk, no waits for others.
NONE = Requests(0.0, 0.0, {})
BASE = Parameters((100.0, 110.0), NONE, NONE, 0.0, True, 1.0, 0.0, 0.0, 0.0, 8.0)


def record(**throughputs: list[float]) -> Record:
    runs = [
        NativeRun(name, number, value, 1.0, 1.0, [])
        for name, values in throughputs.items()
        for number, value in enumerate(values)
    ]
    return Record(HOST, runs, [])


def measured(name: str, seed: int, processors: int) -> Parameters:
    """Two processors give 198/s; the captures of two users say 132/s, of seed 2 a tenth more."""
    more = 1.1 if seed == 2 else 1.0
    of = {("base", 1): (100.0, 110.0), ("base", 2): (99.0, 198.0), ("users", 1): (120.0, 132.0)}
    return dataclasses.replace(BASE, rates=tuple(more * rate for rate in of[name, processors]))


def test_predictions_are_ratios_to_a_base_that_is_fitted_and_in_no_error() -> None:
    runs = record(base=[1000.0, 1200.0], processors=[1980.0, 2376.0], users=[1200.0, 1440.0])
    found = native.compare(runs, native.changes(), (1, 2), measured, 1e9)
    rows = {(row.name, row.demands): row for row in found.rows}
    assert list(rows) == [
        ("processors", native.FROM_BASE),
        ("users", native.FROM_BASE),
        ("users", native.FROM_OWN),
    ]
    # 1,100 natively, 110 and 121 by the model: the clock is 1100 / 115.5 times as fast.
    assert found.clock_hz == pytest.approx(1e9 * 1100 / 115.5, rel=1e-3)
    two = rows["processors", native.FROM_BASE]
    assert (two.measured.mean, two.predicted.mean) == (pytest.approx(1.98), pytest.approx(1.8, rel=1e-3))
    assert two.error_percent == pytest.approx(100 * (1.8 / 1.98 - 1), abs=0.1)
    assert two.predicted.low is not None and two.predicted.high - two.predicted.low < 1e-2, "seeds are paired"
    # Two users still keep the processor as busy as eight; their own captures know that they run faster.
    assert rows["users", native.FROM_BASE].predicted.mean == pytest.approx(1.0, rel=1e-3)
    assert rows["users", native.FROM_OWN].predicted.mean == pytest.approx(1.2, rel=1e-3)
    assert found.mean_error_percent == pytest.approx((9.1 + 100 / 6 + 0.0) / 3, abs=0.1)
    document = found.as_document()
    assert (document["schema"], len(document["rows"])) == ("servsim.model.native/1", 3)


def test_times_of_disks_do_not_go_with_the_clock() -> None:
    slow = dataclasses.replace(BASE, writes=Requests(1.0, 0.02, {"pg_wal": 1.0}), present=1.0)
    # One user: 10 ms of processor time and 20 ms at the disk.
    assert native.throughput(slow, 1, 1.0) == pytest.approx(1 / 0.030, rel=1e-3)
    assert native.throughput(slow, 1, 10.0) == pytest.approx(1 / 0.021, rel=1e-3)
    with pytest.raises(UsageError, match="bound by its disk"):
        native.fit_speed([slow], 8, 1000.0)


def test_a_record_without_the_runs_and_an_unknown_change_are_refused() -> None:
    with pytest.raises(UsageError, match="no native run of processors, users"):
        native.compare(record(base=[1.0]), native.changes(), (1,), measured, 1e9)
    with pytest.raises(UsageError, match="there is no change procesors"):
        native.changes(["procesors"])
    assert [c.name for c in native.changes(["warehouses", "users"])] == ["users", "warehouses"]
    assert not native.in_the_model(plan.CHANGES[2]), "another database is other software"
    done = subprocess.run([SERVSIM, "model", "native", "none.json"], check=False, capture_output=True, text=True)
    assert done.returncode == 2 and "none.json" in done.stderr and "Traceback" not in done.stderr


def test_the_description_of_this_host_takes_the_single_disk() -> None:
    found = resolve(host.describe(HOST, 2e9, pool=False), "this host", native.overrides(HOST, 2))
    assert (found["processors"], found["disk"]["count"], found["disk"]["write_time"]) == ("2", "1", "100 us")
    assert (found["io"]["buses"], found["io"]["hold_on_write"]) == ("1", "no")
