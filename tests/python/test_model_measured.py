"""Models from simulation: parameters by hand from made-up results, and one real result on single disks."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servsim.capture.files import catalogue_rows, mapped_files
from servsim.errors import UsageError
from servsim.model import measured, verify
from servsim.simulation import simulate

SERVSIM = Path(sys.executable).with_name("servsim")
TRACE = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"


def replication(mechanism: float = 2000.0) -> dict[str, Any]:
    """Ten transactions in 100,000 cycles of 1 MHz on one processor, two kinds, one disk on one bus."""
    kind = {"loads": 0, "stores": 0, "disk_writes": 0}
    return {
        "transactions": 10,
        "cycles": 100_000,
        "instructions": 50_000,
        "processors": [{"busy_user": 40_000, "memory_stall": 20_000, "idle": 40_000}],
        "bus": {"read": 300, "write": 200, "cache_to_cache": 99},
        "bus_busy_cycles": 10_000,
        "mean_ready_tasks": 1.2,
        "storage": {
            "disks": [
                {
                    "disk": 1,
                    "bus": 1,
                    "reads": 15,
                    "writes": 5,
                    "bytes": 20 * 512,
                    "mean_mechanism_cycles": mechanism,
                    "mean_present": 0.5,
                }
            ],
            "buses": [{"bus": 1, "tenures": 35, "busy_cycles": 30_000}],
            "accesses": [
                {"name": "stock_pkey", "reads": 6, "writes": 0},
                {"name": "order_line", "reads": 2, "writes": 2},
                {"name": "pg_wal", "reads": 0, "writes": 5},
            ],
        },
        "processor_levels": {
            "cycles": [30_000, 50_000, 20_000, 10],
            "departures": [0, 20, 10, 0],
            "instructions": [0, 30_000, 20_000, 5],
        },
        "work_by_kind": [
            {"kind": "A", "transactions": 6, "instructions": 12_000, "disk_reads": 6, **kind},
            {"kind": "B", "transactions": 1, "instructions": 9_000, "disk_reads": 4, **kind},
        ],
    }


def result(*runs: dict[str, Any]) -> dict[str, Any]:
    io = {"rate": "512 kB/s", "overhead": "100 us"}
    return {"machine": {"clock": "1 MHz", "io": io}, "replications": list(runs or (replication(), replication(2200.0)))}


def test_demands_are_visits_times_service_with_intervals_and_notes() -> None:
    found = {(d.station, d.kind): d for d in measured.demands(result())}
    cpu = found["processors", measured.EVERY].demand_s
    assert cpu is not None and cpu.mean == pytest.approx(60_000 / 10 / 1e6) and cpu.n == 2
    disk = found["disk 1", measured.EVERY]
    assert disk.visits is not None and disk.visits.mean == 2.0
    assert disk.demand_s is not None and disk.demand_s.mean == pytest.approx(2 * 2100e-6)
    assert disk.demand_s.low is not None and disk.demand_s.low < disk.demand_s.mean
    bus = found["I/O bus 1", measured.EVERY].demand_s
    assert bus is not None and bus.mean == pytest.approx(3e-3)
    memory = found["memory bus", measured.EVERY].visits
    assert memory is not None and memory.mean == 50.0
    # Kind A: 2,000 instructions at 60,000 cycles per 50,000 instructions.
    of_a = found["processors", "A"].demand_s
    assert of_a is not None and of_a.mean == pytest.approx(2000 * 1.2e-6)
    few = found["disk 1", "B"]
    assert few.demand_s is None and "2 were followed" in few.note
    # Of 2 requests per transaction the followed ones handed in 10 / 7.
    rest = found["disks", measured.BACKGROUND].visits
    assert rest is not None and rest.mean == pytest.approx(2 - 10 / 7)


def test_a_pool_of_disks_and_missing_transactions_are_refused_with_the_remedy() -> None:
    pool = replication()
    del pool["storage"]
    with pytest.raises(UsageError, match=r"disk\.count=1"):
        measured.demands(result(pool))
    with pytest.raises(UsageError, match="without transactions"):
        measured.demands(result({**replication(), "transactions": 0}))


def test_service_rates_are_work_over_time_and_gaps_are_bridged() -> None:
    rates = measured.service_rates(result())
    assert [rate.tasks for rate in rates] == [1, 2], "three tasks lasted too briefly"
    # 30,000 instructions in 50,000 cycles, 5,000 a transaction, 1 MHz.
    assert rates[0].transactions_per_s.mean == pytest.approx(30_000 / 50_000 / 5_000 * 1e6)
    assert rates[1].transactions_per_s.mean == pytest.approx(200.0)
    assert rates[1].departures == 20
    assert rates[1].departures_per_cycle.mean == pytest.approx(10 / 20_000)
    assert measured.rates_up_to(rates, 4) == pytest.approx([120.0, 200.0, 200.0, 200.0])
    assert measured.rates_up_to(rates[1:], 2) == pytest.approx([100.0, 200.0])


def test_tables_own_their_indexes_and_the_log_is_no_table() -> None:
    assert measured.table_of("order_line_pkey", verify.TABLES) == "order_line"
    assert measured.table_of("customer_by_name", verify.TABLES) == "customer"
    assert measured.table_of("orderly", verify.TABLES) is None
    shares = measured.accesses_by_table(result(), verify.TABLES)
    assert {name: share.mean for name, share in shares.items()} == pytest.approx(
        {"stock": 0.6, "order_line": 0.4, "pg_wal": 0.5}
    )


def test_configurations_place_tables_as_the_paper_does() -> None:
    assert verify.settings(2, 1, 2, ["stock", "stock_pkey", "district", "pg_class"]) == [
        "processors=2",
        "io.buses=1",
        "disk.count=2",
        "placement.relations=1: stock stock_pkey; 2: district",
    ]
    # Stock lies on disk 1 of 4 and order_line on disk 3 (f4); the log is striped.
    shares = {"stock": 0.4, "order_line": 0.2, "pg_wal": 0.4}
    assert verify.disk_shares(shares, 4, by_table=True) == pytest.approx([0.5, 0.1, 0.3, 0.1])
    assert verify.disk_shares(shares, 4, by_table=False) == pytest.approx([0.25] * 4)


def test_parameters_split_a_buses_time_and_the_model_solves_to_the_closed_form() -> None:
    given = verify.parameters(result(replication()), 3)
    assert (given.requests, given.mechanism_s) == pytest.approx((2.0, 4e-3))
    # 20 commands of 100 us and 20 sectors at 1 ms each are 22 ms of the 30 ms.
    assert (given.transfer_s, given.held_s) == pytest.approx((2.2e-3, 0.8e-3))
    assert given.elsewhere_s == pytest.approx((3 - 1.2 - 0.5) * 0.1 / 10)
    # One customer: a transaction takes the sum of its demands.
    alone = verify.predict(given, 1, 1, 1, by_table=False)
    assert alone == pytest.approx(1 / (1 / 120 + 4e-3 + 2.2e-3 + given.elsewhere_s))
    shared = verify.predict(given, 1, 2, 1, by_table=False)
    assert shared == pytest.approx(alone), "the same work, wherever it is counted"
    many = verify.predict(given, 1, 1, 200, by_table=False)
    assert many == pytest.approx(200.0, rel=1e-3), "bounded by the processors"


def test_a_miss_is_blamed_on_the_station_that_differs() -> None:
    given = verify.parameters(result(replication()), 3)
    own = verify.parameters(result(replication(9000.0)), 3)
    x = verify.predict(own, 1, 1, 3, by_table=False)
    assert verify.blame(given, own, (1, 1), 3, False, x) == verify.DISKS


def test_a_catalogue_page_gives_names_and_files_of_live_rows() -> None:
    page = bytearray(8192)
    row = bytearray(24 + 92)
    row[22] = 24
    struct.pack_into("<I", row, 24, 16400)
    row[28:33] = b"stock"
    struct.pack_into("<I", row, 24 + 88, 16455)
    page[8000 : 8000 + len(row)] = row
    struct.pack_into("<H", page, 12, 24 + 8)
    struct.pack_into("<I", page, 24, 8000 | 1 << 15 | len(row) << 17)
    struct.pack_into("<I", page, 28, 7000 | 3 << 15)
    assert list(catalogue_rows(bytes(page))) == [(16400, "stock", 16455)]
    assert mapped_files(struct.pack("<IIII", 0x592717, 1, 1259, 77)) == {1259: 77}
    assert mapped_files(b"short") == {}


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return simulate(TRACE, "du-2001", transactions=4, replications=2)


def test_a_real_result_tells_disks_buses_levels_and_kinds(simulated: dict[str, Any]) -> None:
    summary = simulated["summary"]
    assert 0 <= summary["disk.1.utilization"]["mean"] <= 1
    assert 0 <= summary["io_bus.1.utilization"]["mean"] <= 1
    for run in simulated["replications"]:
        levels = run["processor_levels"]
        assert sum(levels["cycles"]) == run["cycles"], "some number of tasks is there at any time"
        disk = run["storage"]["disks"][0]
        if disk["reads"]:
            assert disk["mean_response_cycles"] >= disk["mean_mechanism_cycles"]
    assert {d.station for d in measured.demands(simulated)} >= {"processors", "disk 1", "I/O bus 1"}


def test_the_default_pool_says_nothing_of_single_disks() -> None:
    run = simulate(TRACE, "foglia-2004-4p", transactions=2)["replications"][0]
    assert not {"storage", "processor_levels", "work_by_kind"} & set(run)


def test_fit_reads_a_result_and_the_report_shows_its_disks(simulated: dict[str, Any], tmp_path: Path) -> None:
    file, page = tmp_path / "r.json", tmp_path / "r.html"
    file.write_text(json.dumps(simulated))
    done = subprocess.run([SERVSIM, "model", "fit", file, "--json"], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["schema"] == "servsim.model.demands/1"
    assert any(d["station"] == "I/O bus 1" for d in document["demands"])
    subprocess.run([SERVSIM, "report", file, "-o", page], check=True, capture_output=True)
    assert "Disks and I/O buses" in page.read_text()


def test_placing_an_unknown_relation_is_refused_with_all_faults() -> None:
    with pytest.raises(UsageError) as error:
        simulate(TRACE, "du-2001", overrides=["placement.relations=1: stok", "disk.model=none.sdm"], transactions=1)
    assert "relations lie" in str(error.value) and "disk.model" in str(error.value)
