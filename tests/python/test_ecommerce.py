"""ecommerce: pages and database that agree, on the real servers; and faults, made on purpose, that are named."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "capture" / "workloads" / "ecommerce"
SERVSIM = Path(sys.executable).with_name("servsim")
PLACES = f"{ROOT / 'target' / 'release'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
#: Settings of a shop that is made in seconds.
SMALL = {"items": "200", "browsers": "1", "images": "20"}
SETTINGS = {"users": "4", "set_seed": "42", "mix": "ordering", "warm_up": "40", "think_scale": "0"}
FEW = {"second_connections": "2", "utilities": "0"}


def missing() -> str | None:
    """What of the servers is not there."""
    if shutil.which("apache2", path=PLACES) is None or not Path("/usr/lib/apache2/modules/mod_perl.so").exists():
        return "Apache with mod_perl"
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return "PostgreSQL"
    perl = subprocess.run(["perl", "-MDBD::Pg", "-e", "1"], capture_output=True, check=False)
    return "DBD::Pg" if perl.returncode else None


pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed: make deps FOR=workload")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def servers() -> list[str]:
    """Processes of servers that a test has started."""
    found = subprocess.run(["pgrep", "-af", "serve|postgres|apache2"], capture_output=True, text=True, check=False)
    ours = ("./serve", "/servsim-", f"-f {FOLDER}")
    return [line for line in found.stdout.splitlines() if any(word in line for word in ours) and "pgrep" not in line]


def workload(cache: Path, step: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    sizes = [word for name, value in {**SMALL, "port": str(free_port())}.items() for word in (f"--{name}", value)]
    command = [SERVSIM, "workload", step, "ecommerce", *sizes, *words]
    environment = {**os.environ, "SERVSIM_CACHE": str(cache), **more}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


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


@pytest.fixture(scope="module")
def data(cache: Path) -> Path:
    """The data of the small shop, made once."""
    assert workload(cache, "load").returncode == 0
    return next(path.parent for path in cache.glob("workloads/ecommerce/*/pg"))


class Shop:
    """The servers of a folder, perhaps with a fault, started by its own script."""

    def __init__(self, folder: Path, data: Path, place: Path) -> None:
        self.folder, self.place, self.port = folder, place, free_port()
        words = {f"servsim_{name}": value for name, value in {**SMALL, **SETTINGS, **FEW}.items()}
        places = {"servsim_data": str(data), "servsim_run": str(place), "server_file": str(place / "server")}
        log = {"servsim_log": str(place / "log"), "servsim_native": "1", "servsim_json": "1"}
        self.environment = {**os.environ, **words, **places, **log, "PATH": PLACES, "servsim_port": str(self.port)}

    def __enter__(self) -> "Shop":
        self.place.mkdir(mode=0o755)
        with (self.place / "log").open("wb") as log:
            subprocess.run(
                [self.folder / "start"], cwd=self.folder, env=self.environment, stdout=log, stderr=log, check=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(int((self.place / "server").read_text()), signal.SIGTERM)
        wait_for(lambda: not servers())
        shutil.rmtree(self.place)

    def asked(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one of the folder's scripts."""
        environment = {**self.environment, **more}
        return subprocess.run(
            [self.folder / script], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def sql(self, text: str) -> dict[str, int]:
        """Change the database, look at every condition, and take the change back."""
        sizes = {"items": 200, "authors": 50, "customers": 2880, "orders": 2592, "new_orders": 0, "new_customers": 0}
        values = [word for name, value in sizes.items() for word in ("-v", f"{name}={value}")]
        psql = ["psql", "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", str(self.place), "-U", "postgres", *values]
        script = f"BEGIN;\n{text};\n\\i {self.folder / 'consistency.sql'}\nROLLBACK;\n"
        done = subprocess.run([*psql, "-d", "shop"], input=script, capture_output=True, text=True, check=True)
        return {line.split("\t")[0]: int(line.split("\t")[1]) for line in done.stdout.splitlines() if "\t" in line}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that the servers' account may enter."""
    yield Path("/tmp") / f"servsim-shop-{os.getpid()}"


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
    with Shop(FOLDER, data, place) as shop:
        whole = shop.sql("SELECT")
        assert set(whole) == set(BROKEN) and not any(whole.values()), whole
        for condition, change in BROKEN.items():
            found = {name for name, rows in shop.sql(change).items() if rows}
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
def test_a_shop_that_errs_is_found_out(
    data: Path, place: Path, tmp_path: Path, file: str, text: str, fault: str, told: str
) -> None:
    folder = tmp_path / "ecommerce"
    shutil.copytree(FOLDER, folder)
    for parent in (tmp_path, *list(tmp_path.parents)[:3]):
        parent.chmod(0o755)
    code = folder / "shop" / "Servsim" / "Shop" / file
    assert code.read_text().count(text) == 1
    code.write_text(code.read_text().replace(text, fault))
    with Shop(folder, data, place) as shop:
        done = shop.asked("client", servsim_transactions="400")
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_a_server_that_dies_in_the_middle_ends_the_run_with_its_name(data: Path, place: Path) -> None:
    with Shop(FOLDER, data, place) as shop:
        client = subprocess.Popen(
            [FOLDER / "client"],
            cwd=FOLDER,
            env={**shop.environment, "servsim_transactions": "1000000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        database = int((place / "pg" / "postmaster.pid").read_text().split()[0])
        os.kill(database, signal.SIGKILL)
        _, said = client.communicate(timeout=60)
        assert client.returncode == 1, said
        assert "postgres ended in the middle" in (place / "log").read_text()
        wait_for(lambda: not [line for line in servers() if "apache2" in line])
        # The first process has ended by itself: another stands for it when the shop is left.
        (place / "server").write_text(str(subprocess.Popen(["sleep", "60"]).pid))


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
    assert "mod_perl with DBD::Pg: not found; it needs the packages apache2-bin, libapache2-mod-perl2" in done.stderr
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
