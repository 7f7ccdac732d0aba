"""staticweb on Apache: books that balance, another client that agrees, and faults that are named."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "capture" / "workloads" / "staticweb"
SERVSIM = Path(sys.executable).with_name("servsim")
SURGE = ROOT / "target" / "release" / "servsim-surge"
PLACES = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

pytestmark = pytest.mark.skipif(
    shutil.which("apache2", path=PLACES) is None, reason="Apache is not installed: make deps FOR=workload"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache that the server's account may enter: the folders of pytest are for one account only."""
    place = Path("/tmp") / f"servsim-staticweb-{os.getpid()}"
    place.mkdir(mode=0o755)
    yield place
    shutil.rmtree(place)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def workload(cache: Path, step: str, *words: str) -> subprocess.CompletedProcess[str]:
    size = ["--files", "200", "--megabytes", "4.5", "--port", str(free_port())]
    command = [SERVSIM, "workload", step, "staticweb", *size, *words]
    environment = {**os.environ, "SERVSIM_CACHE": str(cache)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def run(cache: Path, *words: str) -> dict[str, Any]:
    done = workload(cache, "run", "--users", "4", "--warm-up", "300", "--transactions", "900", "--json", *words)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def servers() -> list[str]:
    """Apache's processes with the folder's configuration."""
    found = subprocess.run(["pgrep", "-af", f"apache2 -f {FOLDER}"], capture_output=True, text=True, check=False)
    return found.stdout.splitlines()


@pytest.mark.parametrize("mpm", ["event", "worker", "prefork"])
def test_the_books_of_server_and_users_balance_however_apache_serves(cache: Path, mpm: str) -> None:
    report = run(cache, "--mpm", mpm, "--sendfile", "on" if mpm == "worker" else "off")
    assert report["valid"] and report["problems"] == []
    assert report["transactions"] == 900
    assert report["reconciliation"]["server_requests"] == report["reconciliation"]["replies"] >= 1204
    assert report["kinds"]["Page"]["latency_ms"]["p99"] >= report["kinds"]["Page"]["latency_ms"]["p50"] > 0
    assert report["client_cpu"]["client_seconds"] > 0 and report["client_cpu"]["server_seconds"] is not None
    wait_for(lambda: not servers())


def test_a_set_that_was_changed_fails_its_check_and_every_run(cache: Path) -> None:
    assert workload(cache, "check", "--set-seed", "7").returncode == 0
    files = sorted(cache.glob("workloads/staticweb/*/htdocs/00/00000.html"))
    changed = [path for path in files if '"seed":7' in (path.parents[2] / "catalogue.csv").read_text()]
    assert len(changed) == 1
    for path in changed[0].parent.iterdir():
        content = path.read_bytes()
        path.write_bytes(b"!" + content[1:])
    checked = workload(cache, "check", "--set-seed", "7")
    assert checked.returncode == 1 and "the condition contents does not hold" in checked.stderr
    ran = workload(cache, "run", "--set-seed", "7")
    assert ran.returncode == 1 and "is not what was written: its checksum differs" in ran.stderr
    wait_for(lambda: not servers())


def test_a_port_in_use_and_a_set_that_cannot_be_are_each_one_sentence(cache: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = workload(cache, "run", "--port", str(port))
        assert done.returncode == 3
        assert f"port {port} of the loopback is in use: give another with --port" in done.stderr.splitlines()[-1]
    done = workload(cache, "run", "--megabytes", "1")
    assert done.returncode == 2
    assert "200 files cannot hold 1000000 bytes with the published sizes" in done.stderr
    assert servers() == []


@pytest.mark.skipif(shutil.which("h2load") is None, reason="h2load is not installed: make deps FOR=test")
def test_another_client_reads_the_same_bytes_per_request(cache: Path, tmp_path: Path) -> None:
    workload(cache, "load")
    sets = [path.parent for path in cache.glob("workloads/staticweb/*/catalogue.csv")]
    root = next(path for path in sets if '"seed":42' in (path / "catalogue.csv").read_text())
    place = cache / "run"
    place.mkdir()
    place.chmod(0o777)
    port = free_port()
    settings = {"users": "4", "mpm": "event", "processes": "2", "sendfile": "off", "port": str(port)}
    words = {f"servsim_{name}": value for name, value in settings.items()}
    places = {"servsim_native": "1", "servsim_data": str(root), "servsim_run": str(place)}
    server_file = place / "server"
    environment = {**os.environ, **words, **places, "server_file": str(server_file), "PATH": PLACES}
    subprocess.run(
        [FOLDER / "start"],
        cwd=FOLDER,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    try:
        paths = subprocess.run([SURGE, "requests", "--root", root], capture_output=True, text=True, check=True).stdout
        urls = tmp_path / "urls"
        urls.write_text("".join(f"http://127.0.0.1:{port}{path}\n" for path in paths.split()))
        count = len(paths.split())
        command = ["h2load", "--h1", "-t1", "-c1", "-n", str(count), "-i", urls]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"{count} succeeded" in told
        theirs = int(re.findall(r"\((\d+)\) data", told)[0]) / count
        # One user asks for the whole round, wherever it begins.
        address = f"127.0.0.1:{port}"
        run = [SURGE, "run", "--root", root, "--address", address, "--users", "1", "--warm-up", "1", "--json"]
        done = subprocess.run([*run, "--transactions", str(count)], capture_output=True, text=True, check=True)
        ours = json.loads(done.stdout)["bytes_per_transaction"]
        assert abs(ours / theirs - 1) < 0.01, (ours, theirs)
    finally:
        os.kill(int(server_file.read_text()), 15)
        wait_for(lambda: not servers())
