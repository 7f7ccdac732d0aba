"""ecommerce: pages and database that agree, on the real servers; and faults, made on purpose, that are named."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perl_tier
import pytest
from perl_tier import Servers, copy_with_fault, missing, servers
from waiting import wait_for

FOLDER = perl_tier.WORKLOADS / "ecommerce"
#: Settings of a shop that is made in seconds.
SMALL = {"items": "200", "browsers": "1", "images": "20"}
SETTINGS = {"users": "4", "set_seed": "42", "mix": "ordering", "warm_up": "40", "think_scale": "0"}
FEW = {"second_connections": "2", "pipelining": "on", "utilities": "0"}
#: What such a shop begins with.
COUNTS = {
    **{"size_items": 200, "size_authors": 50, "size_customers": 2880, "size_orders": 2592},
    **{"done_orders": 0, "done_customers": 0},
}

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed: make deps FOR=workload")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def workload(cache: Path, step: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return perl_tier.workload(cache, step, "ecommerce", SMALL, *words, **more)


def run(cache: Path, *words: str) -> dict[str, Any]:
    settings = ["--users", "4", "--warm-up", "40", "--mix", "ordering"]
    done = workload(cache, "run", *settings, "--transactions", "400", "--json", *words)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_run_answers_every_interaction_and_leaves_a_consistent_shop(cache: Path) -> None:
    report = run(cache, "--second-connections", "2")
    assert report["valid"] and report["problems"] == [] and report["transactions"] == 400
    assert report["reconciliation"]["server_requests"] == report["reconciliation"]["replies"] > 440
    assert len(report["conditions"]) == 14 and all(condition["holds"] for condition in report["conditions"])
    assert report["orders_placed"] >= report["kinds"]["Buy-Confirm"]["count"] > 20
    assert abs(report["mix"]["Buy-Confirm"]["standard_deviations"]) < 5.5
    assert report["client_cpu"]["server_seconds"] > report["client_cpu"]["client_seconds"] > 0
    wait_for(lambda: not servers())


def test_all_fourteen_interactions_occur_in_a_longer_run(cache: Path) -> None:
    # Rare ones are a thousandth of a mix, so that they are asked for by a longer run of the mix that has most of them.
    report = run(cache, "--transactions", "2500")
    assert all(kind["count"] > 0 for kind in report["kinds"].values()), report["kinds"]
    assert report["customers_entered"] > 0
    assert run(cache, "--mix", "browsing", "--transactions", "100")["options"]["mix"] == "browsing"


def test_what_browsers_ask_for_is_the_seed_s_alone(cache: Path) -> None:
    few = ("--users", "1", "--warm-up", "5", "--transactions", "50", "--seed")
    first, again, other = (run(cache, *few, seed)["request_log_hashes"] for seed in ("5", "5", "6"))
    assert first == again != other


def test_images_asked_for_in_turn_are_those_asked_for_at_once(cache: Path) -> None:
    def asked(pipelining: str) -> tuple[Any, Any]:
        report = run(cache, "--users", "1", "--transactions", "60", "--pipelining", pipelining)
        assert report["options"]["pipelining"] is (pipelining == "on")
        return report["request_log_hashes"], report["reconciliation"]

    assert asked("on") == asked("off")


@pytest.fixture(scope="module")
def data(cache: Path) -> Path:
    """The data of the small shop, made once."""
    assert workload(cache, "load").returncode == 0
    return next(path.parent for path in cache.glob("workloads/ecommerce/*/pg"))


def shop(folder: Path, data: Path, place: Path) -> Servers:
    return Servers(folder, data, place, {**SMALL, **SETTINGS, **FEW})


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' account may enter."""
    with perl_tier.place_of("shop") as place:
        yield place


#: For each condition, what breaks it and no other condition.
BROKEN = {
    "population": "DELETE FROM country WHERE co_id = 92; UPDATE address SET addr_co_id = 1 WHERE addr_co_id = 92",
    "orders": "INSERT INTO orders SELECT 9999, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, "
    "o_bill_addr_id, o_ship_addr_id, o_status FROM orders WHERE o_id = 1; INSERT INTO order_line SELECT 9999, ol_id, "
    "ol_i_id, ol_qty, ol_cost, ol_discount, '' FROM order_line WHERE ol_o_id = 1; INSERT INTO cc_xacts SELECT 9999, "
    "cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt, cx_xact_date, cx_co_id FROM cc_xacts "
    "WHERE cx_o_id = 1",
    "customers": "INSERT INTO customer (c_id, c_uname, c_passwd, c_addr_id) VALUES (3000, 'RIBABABA', 'ribababa', 1)",
    "totals": "UPDATE orders SET o_tax = o_tax + 0.01 WHERE o_id = 7",
    "lines": "UPDATE order_line SET ol_id = 9 WHERE ol_o_id = 7 AND ol_id = 1",
    "payments": "UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt + 0.01 WHERE cx_o_id = 7",
    "stock": "UPDATE item SET i_stock = 9 WHERE i_id = 3",
    "sold": "UPDATE order_line SET ol_i_id = 201 WHERE ol_o_id = 7 AND ol_id = 1",
    "authors": "UPDATE item SET i_a_id = 51 WHERE i_id = 199",
    "related": "UPDATE item SET i_related1 = i_related2 WHERE i_id = 3",
    "addresses": "UPDATE customer SET c_addr_id = 0 WHERE c_id = 3",
    "buyers": "UPDATE orders SET o_c_id = NULL WHERE o_id = 7",
    "names": "UPDATE customer SET c_uname = 'BA' || c_uname WHERE c_id = 3",
    "carts": "INSERT INTO shopping_cart_line VALUES (1, 1, 1, 1)",
}


def test_every_condition_of_the_database_fails_on_data_that_break_it_alone(data: Path, place: Path) -> None:
    with shop(FOLDER, data, place) as there:
        whole = there.broken_by("SELECT", "shop", COUNTS)
        assert set(whole) == set(BROKEN) and not any(whole.values()), whole
        for condition, change in BROKEN.items():
            found = {name for name, rows in there.broken_by(change, "shop", COUNTS).items() if rows}
            assert found == {condition}, (condition, found)


@pytest.mark.parametrize(
    ("file", "text", "fault", "told"),
    [
        ("Buy.pm", "* 825 +", "* 826 +", "comes to"),
        ("Buy.pm", "WHERE scl_sc_id = ? ORDER", "WHERE scl_sc_id > ? - 3 ORDER", "where the cart has"),
        ("Buy.pm", "$money[2], $country", "$money[0], $country", "the condition payments does not hold"),
        ("Browse.pm", "ORDER BY i_title, i_id LIMIT 50", "ORDER BY i_title, i_id LIMIT 4", "the page results promotes"),
    ],
)
def test_a_shop_that_errs_is_found_out(data: Path, place: Path, file: str, text: str, fault: str, told: str) -> None:
    copy_with_fault(FOLDER, place.parent / "ecommerce", f"perl/Servsim/Shop/{file}", text, fault)
    with shop(place.parent / "ecommerce", data, place) as there:
        done = there.asked("client", servsim_transactions="400")
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_a_server_that_dies_in_the_middle_ends_the_run_with_its_name(data: Path, place: Path) -> None:
    with shop(FOLDER, data, place) as there:
        client = subprocess.Popen(
            [FOLDER / "client"],
            cwd=FOLDER,
            env={**there.environment, "servsim_transactions": "1000000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: perl_tier.connections(there.port) >= int(SETTINGS["users"]), during=client)
        database = int((place / "pg" / "postmaster.pid").read_text().split()[0])
        os.kill(database, signal.SIGKILL)
        _, said = client.communicate(timeout=60)
        assert client.returncode == 1, said
        assert "postgres ended in the middle" in (place / "log").read_text()
        wait_for(lambda: not [line for line in servers() if "apache2" in line])
        there.ended_by_test = True


def test_an_image_that_was_changed_a_port_in_use_and_packages_that_lack_are_named(cache: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = workload(cache, "run", "--port", str(port))
        assert done.returncode == 3
        assert f"port {port} of the loopback is in use: give another with --port" in done.stderr.splitlines()[-1]
    perl = tmp_path / "perl"
    perl.write_text("#!/bin/sh\nexit 2\n")
    perl.chmod(0o755)
    done = workload(cache, "run", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 3
    assert "mod_perl with DBD::Pg: not found: apt-get install libapache2-mod-perl2 libdbd-pg-perl;" in done.stderr
    done = workload(cache, "run", "--second-connections", "9", "--users", "4")
    assert done.returncode == 2 and "4 users cannot have 9 second connections" in done.stderr
    done = workload(cache, "run", "--items", "99")
    assert done.returncode != 0 and "99 is not in 100..=10000000" in done.stderr
    assert workload(cache, "load", "--set-seed", "7").returncode == 0
    for image in cache.glob("workloads/ecommerce/*/htdocs/*/*.gif"):
        image.write_bytes(image.read_bytes()[:-1])
    done = workload(cache, "run", "--set-seed", "7")
    assert done.returncode == 1 and "is not whole: its checksum differs" in done.stderr
    wait_for(lambda: not servers())


@pytest.mark.parametrize("name", ["ls", "awk", "cp", "gzip", "rm"])
def test_a_utility_works_without_a_word_and_rests_when_the_database_is_checked(tmp_path: Path, name: str) -> None:
    environment = os.environ | {"servsim_run": str(tmp_path)}
    with (tmp_path / "said").open("w") as said:
        utility = subprocess.Popen([FOLDER / "utilities", name], env=environment, stderr=said, start_new_session=True)
    try:
        folder = tmp_path / name
        wait_for(lambda: _children(utility.pid) or any(folder.glob("*")), during=utility)
        (tmp_path / "resting").touch()
        wait_for(lambda: _children(utility.pid) == ["sleep"], during=utility)
    finally:
        os.killpg(utility.pid, signal.SIGKILL)
        utility.wait()
    assert (tmp_path / "said").read_text() == ""


def _children(process: int) -> list[str]:
    """Names of a process's children."""
    listed = subprocess.run(["ps", "-o", "comm=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.split()
