"""The Java server: the same operations in every run, checks that can fail, refusals with a remedy."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.capture.folder import shipped

SERVSIM = Path(sys.executable).with_name("servsim")
SOURCES = shipped("javaserver") / "java"
SPOILT = Path(__file__).parent / "javaserver" / "Spoilt.java"

needs_java = pytest.mark.skipif(
    shutil.which("javac") is None, reason="needs OpenJDK 17: apt-get install openjdk-17-jdk-headless"
)


def servsim(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SERVSIM_CACHE": str(cache)}
    command = [SERVSIM, "workload", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(cache: Path, *words: str) -> dict[str, object]:
    done = servsim(cache, "run", "javaserver", "--scale", "3x500", "--json", *words)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


@needs_java
def test_the_operations_are_the_same_in_every_run_and_follow_the_seed(compiled: Path) -> None:
    first, again = (run(compiled, "--transactions", "3000", "--seed", "7") for _ in range(2))
    assert first["valid"] is True and first["schema"] == "servsim.workload.javaserver/1"
    assert first["operation_logs"] == again["operation_logs"]
    assert first["requests"] == again["requests"]
    other = run(compiled, "--transactions", "3000", "--seed", "8")
    assert not set(map(str, first["operation_logs"])) & set(map(str, other["operation_logs"]))  # type: ignore[call-overload]


@needs_java
def test_the_mix_is_that_of_the_deck(compiled: Path) -> None:
    # Three warehouses deal a hundred decks of 33 each; before, each has made 690 orders and 60 deliveries.
    report = run(compiled, "--transactions", str(3 * 3300), "--warm-up", "0")
    assert report["requests"] == {
        "new_order": 3 * (1000 + 690),
        "payment": 3 * 1000,
        "order_status": 3 * 100,
        "delivery": 3 * (100 + 60),
        "stock_level": 3 * 100,
        "customer_report": 3 * 1000,
    }


@needs_java
def test_every_request_is_marked_by_the_library(compiled: Path) -> None:
    report = run(compiled, "--transactions", "1000", "--warm-up", "501")
    assert report["marks"] == {"asked": 1503, "executed": 1503}
    program = next((compiled / "guest" / "client").glob("*/javaserver"))
    words = ["java", "-cp", program, "Main", "--warehouses", "1", "--items", "100", "--marks", "/nonexistent.so"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--marks /nonexistent.so cannot be loaded" in done.stderr, done.stderr


@needs_java
def test_a_warehouse_of_the_paper_s_size_holds_about_20_mb(compiled: Path) -> None:
    done = servsim(compiled, "run", "javaserver", "--scale", "1x20000", "--transactions", "2000", "--json")
    assert done.returncode == 0, done.stderr
    assert 18e6 < json.loads(done.stdout)["live_bytes_per_warehouse"] < 22e6


#: What is made wrong, and a word of each check that must fail.
WRONG = {
    "nothing": (),
    "W_YTD": ("W_YTD",),
    "D_YTD": ("W_YTD", "balances"),
    "balance": ("balances",),
    "payments": ("payments are not those",),
    "order number": ("orders are not those", "missing"),
    "carrier": ("missing",),
    "lost order": ("missing",),
    "quantity": ("stock",),
    "ordered": ("stock",),
    "live set": ("bytes alive",),
}


@needs_java
def test_every_check_notices_what_it_is_for(tmp_path: Path) -> None:
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", tmp_path, *SOURCES.glob("*.java"), SPOILT], check=True)
    command = ["java", "-cp", tmp_path, "Spoilt", *WRONG]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    failed: dict[str, list[str]] = {wrong: [] for wrong in WRONG}
    for line in lines:
        wrong, _, check = line.partition(": ")
        failed[wrong].append(check)
    for wrong, words in WRONG.items():
        assert len(failed[wrong]) == len(words), (wrong, failed[wrong])
        assert all(word in check for word, check in zip(words, failed[wrong], strict=True)), (wrong, failed[wrong])


@needs_java
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("run", "--scale", "huge"), 2, "no scale 'huge'; there is: small, paper, WAREHOUSESxITEMS"),
        (("run", "--scale", "0x500"), 2, "warehouses='0': how many users there are is a number of at least 1"),
        (("run", "--scale", "1025x500"), 2, "--warehouses must be a whole number from 1 to 1024"),
        (("run", "--scale", "1x5"), 2, "--items must be a whole number from 100"),
        (("run", "--users", "3"), 2, "has no setting 'users'; there is: warehouses, items"),
        (("run", "--set", "heap=much"), 2, "is no size of at least 1 MiB"),
        (("run", "--set", "colour=red"), 2, "has no setting 'colour'"),
        (("run", "--set", "heap=9000g"), 3, "is more than the memory there is"),
        (("run", "--scale", "2x20000", "--set", "heap=24m"), 3, "MiB is full"),
        (("load",), 2, "has no data to load"),
        (("check",), 2, "nothing is left to check"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_sentence(
    compiled: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    done = servsim(compiled, words[0], "javaserver", *words[1:])
    assert done.returncode == code and told in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_without_a_compiler_or_with_an_old_one_the_remedy_is_told(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("env", "sh", "cat", "mktemp", "rm", "cp"):
        (programs / name).symlink_to(str(shutil.which(name)))
    environment = {**os.environ, "SERVSIM_CACHE": str(tmp_path / "cache"), "PATH": str(programs)}

    def refused() -> str:
        command = [SERVSIM, "workload", "run", "javaserver"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr
        return done.stderr

    assert "javac is missing: apt-get install openjdk-17" in refused()
    javac = programs / "javac"
    javac.write_text('#!/bin/sh\necho javac 1.8.0_292\n[ "$1" = -version ]\n')
    javac.chmod(0o755)
    assert "needs Java 17 or newer, and javac says 'javac 1.8.0_292'" in refused()
