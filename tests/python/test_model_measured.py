"""Models from simulation: parameters by hand from made-up results, and one real result on single disks."""

import json
import runpy
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from servsim.capture.folder import shipped
from servsim.cli import model_measured
from servsim.errors import UsageError
from servsim.model import measured, verify
from servsim.model.io_stations import Requests, io_work
from servsim.model.parameters import TABLES, parameters
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
        # Three users for 100,000 cycles; half of one's time is after the end of its work.
        "users": {
            "count": 3,
            "processors_cycles": 120_000,
            "devices_cycles": 40_000,
            "behind_processors_cycles": 60_000,
            "behind_devices_cycles": 20_000,
            "asleep_cycles": 10_000,
            "gone_cycles": 50_000,
        },
        "storage": {
            "disks": [
                {
                    "disk": 1,
                    "bus": 1,
                    "reads": 15,
                    "writes": 5,
                    "bytes": 20 * 512,
                    "utilization": 0.4,
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
    io = {"rate": "512 kB/s", "overhead": "100 us", "hold_on_write": "yes"}
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
    assert measured.rates_up_to(rates, 4, processors=2) == pytest.approx([120.0, 200.0, 200.0, 200.0])
    # Two tasks were seen, one was not: it has half of two processors, and all of one.
    assert measured.rates_up_to(rates[1:], 2, processors=2) == pytest.approx([100.0, 200.0])
    assert measured.rates_up_to(rates[1:], 2, processors=1) == pytest.approx([200.0, 200.0])


def test_tables_own_their_indexes_and_the_log_is_no_table() -> None:
    assert measured.table_of("order_line_pkey", TABLES) == "order_line"
    assert measured.table_of("customer_by_name", TABLES) == "customer"
    assert measured.table_of("orderly", TABLES) is None
    shares = measured.accesses_by_table(result(), TABLES)
    assert {name: share.mean for name, share in shares.items()} == pytest.approx(
        {"stock": 0.6, "order_line": 0.4, "pg_wal": 0.5}
    )


def test_configurations_place_tables_as_the_paper_does() -> None:
    assert verify.settings(2, 1, 2, ["stock", "stock_pkey", "district", "pg_class"]) == [
        "processors=2",
        "io.buses=1",
        "disk.count=2",
        "placement.relations=1: stock stock_pkey; 2: district",
        "placement.rest=1",
    ]
    # Stock lies on disk 1 of 4 and order_line on disk 3 (f4), what is no table on the first.
    shares = {"stock": 0.4, "order_line": 0.2, "pg_wal": 0.4}
    assert verify.disk_shares(shares, 4, by_table=True) == pytest.approx([0.8, 0.0, 0.2, 0.0])
    assert verify.disk_shares(shares, 4, by_table=False) == pytest.approx([0.25] * 4)


def test_parameters_split_a_buses_time_and_the_model_solves_to_the_closed_form() -> None:
    given = parameters(result(replication()), 3)
    assert (given.reads.count, given.writes.count) == pytest.approx((1.5, 0.5))
    # 20 commands of 100 us and 20 sectors at 1 ms each are 22 ms of the 30 ms that the bus was taken; it was
    # held for the 8 ms that are left while writes were positioned. Reads have the rest of 40 ms.
    assert given.transfer_s == pytest.approx(2.2e-3)
    assert (given.reads.mechanism_s, given.writes.mechanism_s) == pytest.approx((3.2e-3, 0.8e-3))
    assert given.reads.shares == pytest.approx({"stock": 0.75, "order_line": 0.25})
    assert given.writes.shares == pytest.approx({"order_line": 2 / 7, "pg_wal": 5 / 7})
    # Of 50,000 request cycles at the disk users waited for 40,000.
    assert given.awaited == pytest.approx(0.8)
    assert (given.behind_processors, given.behind_disks) == pytest.approx((0.5, 0.5))
    assert (given.asleep_s, given.present) == pytest.approx((1e-3, 2.5))
    # One customer: a transaction takes the sum of its demands and of the delays in proportion to them,
    # while a fifth of the requests takes the disk and the bus from the rest.
    one = replace(given, present=1.0)
    alone = verify.predict(one, 1, 1, by_table=False)
    at_disk, on_bus = (0.8 * d / (1 - 0.2 * d * alone) for d in (4e-3, 2.2e-3))
    assert alone == pytest.approx(1 / (1.5 / 120 + 1.5 * (at_disk + on_bus) + 1e-3), rel=1e-3)
    many = verify.predict(replace(given, present=500.0), 1, 1, by_table=False)
    assert many == pytest.approx(200.0, rel=1e-2), "bounded by the processors"


def test_requests_load_their_disks_and_writes_hold_the_bus() -> None:
    given = parameters(result(replication()), 3)
    # Stock and the log on disk 1 of 2, order_line on disk 2; 1.5 reads and 0.5 writes move 2.2 ms.
    found = verify.work_of(given, 2, 2, by_table=True).stations()
    assert found is not None
    reads, writes = (0.75, 0.25), (5 / 7, 2 / 7)
    for disk in (0, 1):
        assert found[f"disk {disk + 1}"] == pytest.approx(3.2e-3 * reads[disk] + 0.8e-3 * writes[disk])
        moved = (1.5 * reads[disk] + 0.5 * writes[disk]) / 2
        assert found[f"I/O bus {disk + 1}"] == pytest.approx(2.2e-3 * moved)
    shared = verify.work_of(given, 1, 2, by_table=True).stations()
    assert shared == pytest.approx({"disk 1": found["disk 1"], "disk 2": found["disk 2"], "I/O bus 1": 2.2e-3})
    assert sum(shared.values()) == pytest.approx(6.2e-3), "the same work, wherever it is counted"
    assert verify.work_of(given, 1, 2, by_table=True).held == pytest.approx(
        [2.2e-3 * (1.5 * r + 0.5 * w) / 2 + 0.8e-3 * w for r, w in zip(reads, writes, strict=True)]
    )
    released = verify.work_of(replace(given, write_holds=False), 1, 2, by_table=True)
    assert released.held == released.on_bus


def test_a_disk_serves_nobody_while_others_have_its_bus() -> None:
    reads, writes = Requests(1.0, 0.02, {}), Requests(0.5, 0.03, {})
    work = io_work((reads, [1.0, 0.0]), (writes, [0.0, 1.0]), 0.0015, True, 1)
    # Per transaction 1.5 ms are transferred in 2 + 0.5 tenures, 1 ms of them for the reads of disk 1; the writes of
    # disk 2 hold the bus for 30 ms. At 10 transactions/s that stops disk 1 for 30 % of the time.
    found = work.stations(10.0)
    assert found is not None
    wait = 0.0015 / 2.5 * 10 * 0.0005 / (1 - 0.015)
    assert found["disk 1"] == pytest.approx((0.02 + 2 * wait) / 0.7)
    # Writes wait once, for the transfers of reads, which hold nothing; customers of the bus are transfers only.
    once = 0.0015 / 2.5 * 10 * 0.001 / (1 - 0.015)
    assert (found["disk 2"], found["I/O bus 1"]) == pytest.approx((0.03 + 0.5 * once, 0.0015))
    assert work.stations(1 / 0.0315) is None, "the bus has no time for more"
    apart = io_work((reads, [1.0, 0.0]), (writes, [0.0, 1.0]), 0.0015, True, 2).stations(10.0)
    assert apart is not None and apart["disk 1"] == pytest.approx(0.02), "a bus for itself"


def test_waits_for_others_shrink_with_the_processors_that_they_wait_for() -> None:
    given = replace(parameters(result(replication()), 3), behind_processors=4.0, present=1.0)
    fast = replace(given, rates=tuple(4 * rate for rate in given.rates))
    slow_x, fast_x = (verify.predict(p, 1, 1, by_table=False) for p in (given, fast))
    # One customer: 5/120 s at and behind the processors become a quarter of that, nothing else changes but
    # the share of the disk that is left.
    saved = 1 / slow_x - 1 / fast_x
    assert saved == pytest.approx(0.75 * 5 / 120, rel=0.02)


def test_a_wait_behind_disks_that_no_user_is_at_is_a_delay_of_its_own() -> None:
    run = replication()
    run["users"] |= {"devices_cycles": 0, "behind_devices_cycles": 60_000}
    given = parameters(result(run), 3)
    assert (given.awaited, given.behind_disks) == (0.0, 0.0)
    assert given.asleep_s == pytest.approx(70_000 / 1e6 / 10)


def test_a_miss_is_blamed_on_the_station_that_differs() -> None:
    given = parameters(result(replication()), 3)
    own = parameters(result(replication(9000.0)), 3)
    x = verify.predict(own, 1, 1, by_table=False)
    assert verify.blame(given, own, (1, 1), False, x) == verify.DISKS


def test_verify_simulates_what_it_predicts_and_says_when_users_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], dict[str, Any]]] = []
    said: list[str] = []

    def fake(trace: str, machine: str, overrides: list[str], **options: Any) -> dict[str, Any]:
        asked.append((overrides, options))
        return result(replication(9000.0 if "processors=4" in overrides else 2000.0))

    monkeypatch.setattr(verify, "simulate", fake)
    shown: list[tuple[str, float]] = []
    found = verify.verify(
        "t",
        customers=3,
        configurations=["C1", "C4", "C8"],
        say=said.append,
        show=lambda what, share: shown.append((what, share)),
        functional_warmup=7,
    )
    assert [share for _, share in shown] == [0.0, 0.2, 0.4, 0.6, 0.8], "five runs, those that lend measurements too"
    # C1, C2 and four processors with one disk are measured in any case.
    assert [chosen[:3] for chosen, _ in asked] == [
        ["processors=1", "io.buses=1", "disk.count=1"],
        ["processors=2", "io.buses=1", "disk.count=1"],
        ["processors=4", "io.buses=1", "disk.count=1"],
        ["processors=2", "io.buses=2", "disk.count=2"],
        ["processors=4", "io.buses=1", "disk.count=4"],
    ]
    assert all(options["functional_warmup"] == 7 for _, options in asked)
    assert "C1: the trace ran out for 0.5 of 3 users; capture more" in said
    rows = {row["configuration"]: row for row in found.as_document()["rows"]}
    assert rows["C1"]["verdict"] == "calibrated" and rows["C1"]["with_own_demands"] == rows["C1"]["predicted"]
    # Only with four processors were the disks slower than on C1, which the prediction cannot know.
    assert rows["C4"]["with_own_demands"] == rows["C4"]["predicted"]
    assert rows["C8"]["with_own_demands"] < 0.9 * rows["C8"]["predicted"]


def test_bursts_are_more_requests_than_poisson_arrivals_leave() -> None:
    busy = replication()
    busy["storage"]["disks"][0] |= {"utilization": 0.75, "mean_present": 2.9}
    assert verify.crowded(result(busy)) is None
    busy["storage"]["disks"][0]["mean_present"] = 7.6
    assert verify.crowded(result(busy)) == "bursts at disk 1: 7.6 requests at 75%, a product form has 3.0"


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
    files = runpy.run_path(str(shipped("oltp") / "files"))
    catalogue_rows, mapped_files = files["catalogue_rows"], files["mapped_files"]
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
        # Every user is somewhere at any time.
        users = dict(run["users"])
        assert sum(users.values()) - users.pop("count") * run["cycles"] == run["users"]["count"]
        disk = run["storage"]["disks"][0]
        if disk["reads"]:
            assert disk["mean_response_cycles"] >= disk["mean_mechanism_cycles"]
    assert {d.station for d in measured.demands(simulated)} >= {"processors", "disk 1", "I/O bus 1"}


def test_measure_simulates_one_to_four_processors_of_a_captured_trace() -> None:
    """Figure 5 of the paper by hand: with one task more processors do not help, with more tasks they do."""
    command = [SERVSIM, "model", "measure", TRACE, "--transactions", "5", "--warm-up", "2", "--replications", "1"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["schema"] == "servsim.model.measure/1"
    rates = {k: {r["tasks"]: r for r in found} for k, found in document["service_rates"].items()}
    assert list(rates) == ["1", "2", "3", "4"]
    for found in rates.values():
        assert sum(r["share"] for r in found.values()) <= 1 + 1e-9
    best = [max(r["transactions_per_s"]["mean"] for r in rates[k].values() if r["share"] > 0.02) for k in rates]
    assert 1.3 * best[0] < best[1] <= 2.5 * best[0] and best[1] < best[3], best
    for work in document["work_by_kind"]:
        assert work["instructions"]["mean"] > work["loads"]["mean"] > 0 and work["followed"] >= 1


def test_what_measure_prints_says_what_is_hardly_known(capsys: pytest.CaptureFixture[str]) -> None:
    found = result()
    rates = {1: measured.service_rates(found), 2: measured.service_rates(found)[1:]}
    tables = measured.accesses_by_table(found, TABLES)
    model_measured._show_measured(rates, tables, measured.work_by_kind(found), 2)
    text = capsys.readouterr().out.splitlines()
    row = {line.split()[0]: line.split() for line in text if line}
    assert row["1"][1:] == ["120", "±", "0", "-"], "one task was not seen among two processors"
    assert row["stock"] == ["stock", "60.0", "±", "0.0"]
    first = [line.split(" ")[0] for line in text]
    assert first.index("order_line") < first.index("beside") < first.index("pg_wal"), "the log is no table"
    assert row["A"][:4] == ["A", "12", "2.00", "±"], "6 in each of two replications, 2,000 instructions each"
    assert any(line.endswith("hardly known: B") for line in text)


def test_the_default_pool_says_nothing_of_single_disks() -> None:
    run = simulate(TRACE, "foglia-2004-4p", transactions=2)["replications"][0]
    assert not {"storage", "processor_levels", "work_by_kind", "users"} & set(run)


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


@pytest.mark.parametrize("command", ["measure", "verify"])
def test_a_machine_with_nodes_is_refused_by_name(command: str) -> None:
    arguments = ["model", command, TRACE, "-m", "brock-2001-4x4", "--set", "node.memory=2 GiB"]
    done = subprocess.run([SERVSIM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "brock-2001-4x4 has 4 nodes, and a model is measured on 1 to 4 processors" in done.stderr, done.stderr
