"""The workload commands: a real server is started, used, and never left behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from servsim import cache
from servsim.errors import CheckFailed, EnvironmentProblem
from servsim.workloads import driver
from waiting import wait_for

SERVSIM = Path(sys.executable).with_name("servsim")
SCALE = "3x3x30x100"
POSTGRES = Path("/usr/lib/postgresql/15/bin/postgres")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A cache folder that the server's account can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="servsim-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def loaded(home: Path) -> Path:
    done = servsim(home, "load", "oltp", "--scale", SCALE, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "servsim.workload.load/1"
    return home


def command(*words: str) -> list[str]:
    return [str(SERVSIM), "workload", *words]


def servsim(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SERVSIM_CACHE": str(home), **more}
    return subprocess.run(command(*words), env=environment, capture_output=True, text=True, check=False)


def servers(home: Path) -> list[int]:
    """Server processes whose command line names a folder of this test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"postgres") and any(str(home).encode() in word for word in words):
            found.append(int(entry.parent.name))
    return found


def transactions_under_way(home: Path) -> bool:
    """Return whether a session of the server executes a procedure; a server process says in its title what it does."""
    try:
        sessions = [Path(f"/proc/{pid}/task/{pid}/children").read_text().split() for pid in servers(home)]
        titles = [Path(f"/proc/{pid}/cmdline").read_bytes() for children in sessions for pid in children]
    except OSError:  # one has just ended
        return False
    return any(b"[local] CALL" in title for title in titles)


def test_a_loaded_workload_runs_checks_and_leaves_no_server(loaded: Path) -> None:
    done = servsim(loaded, "run", "oltp", "--scale", SCALE, "--users", "3", "--transactions", "300", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["valid"], report["transactions"]) == (0, True, 300), done.stderr
    assert report["notice"] == "TPC-C-derived, not TPC-C; not comparable"
    assert 0 < report["client_cpu"]["share"] < 1
    done = servsim(loaded, "check", "oltp", "--scale", SCALE)
    assert done.returncode == 0 and done.stdout.count(" ok: ") == 11, done.stdout + done.stderr
    assert servers(loaded) == []


def test_the_engine_in_the_client_needs_no_server(home: Path) -> None:
    words = ("oltp-sqlite", "--scale", SCALE, "--users", "3")
    done = servsim(home, "run", *words, "--transactions", "200", "--set", "synchronous=OFF", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["valid"], report["engine"], report["transactions"]) == (True, "SQLite", 200)
    # Client and engine are one process: neither has a share of the other's time.
    assert report["client_cpu"]["share"] is None
    done = servsim(home, "check", *words)
    assert done.returncode == 0 and done.stdout.count(" ok: ") == 11, done.stdout + done.stderr
    done = servsim(home, "run", *words, "--set", "shared_buffers=1MB")
    assert done.returncode == 2 and 'has no pragma "shared_buffers"' in done.stderr, done.stderr


def test_a_violated_condition_is_a_failed_check(loaded: Path) -> None:
    run = servsim(loaded, "run", "oltp", "--scale", SCALE, "--users", "1", "--transactions", "60")
    assert run.returncode == 0
    # After deliveries condition 11 no longer holds, which only `--after load` asks for.
    done = servsim(loaded, "check", "oltp", "--scale", SCALE, "--after", "load")
    assert done.returncode == 1
    assert "servsim: consistency condition 3.3.2.11" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_server_and_no_damage(loaded: Path, ending: signal.Signals) -> None:
    words = command("run", "oltp", "--scale", SCALE, "--seconds", "60")
    environment = {**os.environ, "SERVSIM_CACHE": str(loaded)}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    wait_for(lambda: transactions_under_way(loaded), during=process)
    if ending == signal.SIGINT:
        os.killpg(process.pid, ending)  # as a terminal does
    else:
        process.kill()
    code = process.wait(30)
    assert code == (130 if ending == signal.SIGINT else -signal.SIGKILL)
    wait_for(lambda: not servers(loaded))
    assert servsim(loaded, "check", "oltp", "--scale", SCALE).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run", "olpt"], 2, "known: board, ecommerce, javaserver, kernels, oltp"),
        (["run", "oltp", "--scale", "huge"], 2, "small"),
        (["run", "oltp", "--set", "work_mem"], 2, "KEY=VALUE"),
        (["load", "oltp", "--scale", "3x3x31x100"], 2, "multiple of 3"),
        (["run", "oltp", "--scale", SCALE, "--mix", "wat"], 2, "is none of: deck, weighted"),
        (["run", "oltp", "--scale", SCALE, "--set", "work_men=1MB"], 3, "work_men"),
    ],
)
def test_wrong_input_gets_one_sentence_and_its_code(loaded: Path, words: list[str], code: int, message: str) -> None:
    done = servsim(loaded, *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert servers(loaded) == []


def test_a_server_that_dies_in_the_middle_makes_the_run_invalid_and_says_so(loaded: Path) -> None:
    words = command("run", "oltp", "--scale", SCALE, "--seconds", "60", "--json")
    environment = {**os.environ, "SERVSIM_CACHE": str(loaded)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: transactions_under_way(loaded), during=process)
    os.kill(min(servers(loaded)), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "the server ended in the middle of the run" in err, err
    assert not out or json.loads(out)["valid"] is False, "a report of it cannot be taken for one of a whole run"
    wait_for(lambda: not servers(loaded))


def test_of_many_problems_the_first_and_their_number_are_told(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text('#!/bin/sh\nfor user in $(seq $1); do echo "said: user $user: it broke" >&2; done; exit 1\n')
    said.chmod(0o755)
    for users, told in ((2, "user 1: it broke; user 2: it broke"), (8, "user 1: it broke; and 7 problems more, which")):
        with pytest.raises(CheckFailed, match=told):
            driver.run(said, [str(users)])


def test_a_port_in_use_is_told_with_the_way_out(loaded: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = servsim(loaded, "run", "oltp", "--scale", SCALE, "--connection", "tcp", "--port", port)
    assert done.returncode == 3
    assert f"port {port} of the loopback is in use: give another with --port" in done.stderr
    assert servers(loaded) == []


def test_a_build_of_ones_own_runs_in_place_of_the_packages(loaded: Path) -> None:
    # Its programs tell that they were asked, and are those of the package otherwise.
    own = Path(tempfile.mkdtemp(prefix="servsim-own-", dir="/tmp"))
    own.chmod(0o755)
    (own / "bin").mkdir()
    for program in Path("/usr/lib/postgresql/15/bin").iterdir():
        (own / "bin" / program.name).symlink_to(program)
    (own / "bin" / "postgres").unlink()
    (own / "bin" / "postgres").write_text(f'#!/bin/sh\necho asked >"$0.asked"\nexec {POSTGRES} "$@"\n')
    (own / "bin" / "postgres").chmod(0o777)
    (own / "bin").chmod(0o777)
    words = ("run", "oltp", "--scale", SCALE, "--postgres", str(own), "--users", "1", "--transactions", "20")
    try:
        done = servsim(loaded, *words)
        assert done.returncode == 0, done.stderr
        assert (own / "bin" / "postgres.asked").is_file()
    finally:
        shutil.rmtree(own)


def test_a_missing_postgresql_names_the_package(home: Path) -> None:
    done = servsim(home, "load", "oltp", "--scale", "1x1x3x15", "--postgres", "/nonexistent")
    assert done.returncode == 3
    assert "apt-get install postgresql-15" in done.stderr


def test_a_missing_driver_names_the_build_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    with pytest.raises(EnvironmentProblem, match="make build"):
        driver.path("servsim-nothing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another account")
def test_a_cache_the_server_may_not_enter_is_refused_with_the_remedy(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    done = servsim(closed, "load", "oltp", "--scale", "1x1x3x15")
    assert done.returncode == 3
    assert "set SERVSIM_CACHE" in done.stderr


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "elsewhere"))
    assert cache.folder("a", "b") == tmp_path / "elsewhere" / "a" / "b"
    monkeypatch.delenv("SERVSIM_CACHE")
    repository = cache.repository()
    assert repository is not None
    assert cache.folder() == repository / ".cache" / "servsim"


def test_list_names_every_workload(home: Path) -> None:
    done = servsim(home, "list", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "servsim.workload.list/1"
    of_web = {"board", "ecommerce", "staticweb", "webmix"}
    assert set(document["workloads"]) == {*of_web, "javaserver", "kernels", "oltp", "oltp-sqlite"}


def test_what_a_driver_says_under_its_name_is_shown_where_it_succeeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "driver"
    program.write_text('#!/bin/sh\necho "driver: warm-up over" >&2\nexit $1\n')
    program.chmod(0o755)
    driver.run(program, ["0"])
    assert capsys.readouterr().err == "driver: warm-up over\n"
    with pytest.raises(CheckFailed, match=r"\Awarm-up over\Z"):
        driver.run(program, ["1"])
    assert capsys.readouterr().err == ""
