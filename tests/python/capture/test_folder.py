"""The folder of a workload: what it must have, what it may say, and one of a user's own captured."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import obstacle
from servsim import _core
from servsim.cache import checkout
from servsim.capture import folder
from servsim.capture.client import client_of
from servsim.capture.count import compare, counting_plugin
from servsim.capture.folder_settings import FolderSettings, chosen
from servsim.capture.steps import Steps, silent
from servsim.capture.workload import capture
from servsim.errors import EnvironmentProblem, UsageError
from servsim.simulation import simulate

REDIS = checkout("tests") / "examples" / "workloads" / "redis"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the example, to be changed."""
    return shutil.copytree(REDIS, tmp_path / "own")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_example_and_the_shipped_folders_are_read() -> None:
    example = folder.read(REDIS)
    assert example.transactions == ("GET", "SET")
    assert FolderSettings(example).values() == {"users": "4", "keys": "10000", "value": "100", "warm_up": "2000"}
    assert example.settings["value"].unit == "bytes"
    for path in folder.shipped("oltp").parent.iterdir():
        assert folder.read(path).summary


@pytest.mark.parametrize("name", ["workload.toml", "client"])
def test_a_folder_with_a_missing_part_is_refused_by_its_name(own: Path, name: str) -> None:
    (own / name).unlink()
    with pytest.raises(UsageError, match=f"no folder of a workload: it has no {name}"):
        folder.read(own)


def test_a_script_that_is_no_program_is_refused(own: Path) -> None:
    (own / "start").chmod(0o644)
    with pytest.raises(UsageError, match=r"start cannot be executed: .*chmod"):
        folder.read(own)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('summary = "redis', 'sumary = "redis', "summary is missing"),
        ('packages = ["redis-server"]', 'packages = "redis-server"', "packages must be a list"),
        ('packages = ["redis-server"]', 'package = ["redis-server"]', "package is not known"),
        ('client = "redis-client"', 'client = "a-client-of-redis"', "at most 15 characters"),
        ('transactions = ["GET", "SET"]', "transactions = []", "from 1 to 127 kinds"),
        ("[settings.users]", "[locks]\nlock = 'grab'\n[settings.users]", "locks must say of each function one of"),
        ("[settings.users]", "[locks]\nlock = 'try'\n[settings.users]", "locks needs server"),
        ("[settings.users]", "[data_bytes]\n'rows * 8' = 3\n[settings.users]", "rows is no setting"),
        ('summary = "redis', 'sizes = ["rows"]\nsummary = "redis', "rows is no setting"),
        ('summary = "redis', 'users = "clients"\nsummary = "redis', "clients is no setting"),
        ("default = 100\nunit", "unit", r"settings.value needs default and meaning"),
        ('summary = "redis', "summary = redis", "workload.toml cannot be read: "),
    ],
)
def test_a_wrong_description_is_refused_with_its_file(own: Path, old: str, new: str, told: str) -> None:
    edit(own / "workload.toml", old, new)
    with pytest.raises(UsageError, match=told) as refused:
        folder.read(own)
    assert str(own / "workload.toml") in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("user", "3", "has no setting 'user'; there is: users, keys, value, warm_up"),
        ("users", "3 4", "a value is"),
        ("users", "few", "at least 1"),
    ],
)
def test_settings_that_cannot_reach_the_guest_are_refused(name: str, value: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        FolderSettings(folder.read(REDIS), {name: value})


def test_a_scale_has_a_name_or_is_written_out() -> None:
    oltp, java = (folder.find(name) for name in ("oltp", "javaserver"))
    assert dict(oltp.scale("10x9x300x100000")) == {
        "warehouses": "10",
        "districts": "9",
        "customers": "300",
        "items": "100000",
    }
    assert oltp.scale("paper")["warehouses"] == "4000" and dict(java.scale("2x500")) == {
        "warehouses": "2",
        "items": "500",
    }
    for wrong in ("huge", "10x10", "10x10x10x-1"):
        with pytest.raises(UsageError, match="small, paper, spec, WAREHOUSESxDISTRICTSxCUSTOMERSxITEMS"):
            oltp.scale(wrong)


def test_the_command_line_shows_a_folder_and_refuses_what_is_none(own: Path) -> None:
    shown = servsim("workload", "list", str(own))
    assert re.search(r"^value +100 +bytes +Length of each value\.$", shown.stdout, re.MULTILINE), shown
    document = json.loads(servsim("workload", "list", str(own), "--json").stdout)
    assert document["transactions"] == ["GET", "SET"]
    assert document["settings"]["warm_up"]["unit"] == "transactions"
    refused = servsim("capture", str(own), "--warehouses", "3", "-o", str(own / "x.svt"))
    assert (refused.returncode, "has no setting 'warehouses'" in refused.stderr) == (2, True)
    (own / "client").unlink()
    refused = servsim("capture", str(own), "-o", str(own / "x.svt"))
    assert (refused.returncode, "it has no client" in refused.stderr) == (2, True)


def servsim(*words: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("servsim")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_settings_are_words_of_the_kernel_and_arguments_of_the_load() -> None:
    settings = FolderSettings(folder.read(REDIS), {"users": "8"})
    assert "servsim_users=8" in settings.kernel_words()
    assert settings.load_arguments() == (), "its client fills the store"


def test_a_folder_names_the_setting_that_tells_its_users() -> None:
    java = chosen("javaserver", warehouses=24)
    assert java.users == 24, "a terminal for each warehouse"
    assert chosen("kernels", kernel="fft").users == 1
    with pytest.raises(UsageError, match="warehouses='none': how many users there are"):
        chosen("javaserver", warehouses="none")


def test_a_client_is_built_once_and_anew_when_a_file_changes(own: Path, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc is missing; run scripts/install-deps.sh")
    steps = Steps(silent, tmp_path / "log")
    first = client_of(folder.read(own), steps)
    assert subprocess.run([first], check=False).returncode == 2, "it wants six arguments"
    stamp = first.stat().st_mtime_ns
    assert client_of(folder.read(own), steps).stat().st_mtime_ns == stamp
    edit(own / "client.c", "return 2;\n    socket_path", "return 3;\n    socket_path")
    assert subprocess.run([client_of(folder.read(own), steps)], check=False).returncode == 3


@pytest.mark.parametrize(
    ("build", "told"),
    [
        ('["true"]', "made no {client}"),
        ('["no-such-compiler"]', "needs no-such-compiler, which is not installed"),
        ('["cp", "{built}/no-such-library.so", "{client}"]', "needs .*/no-such-library.so: run `make build`"),
        ("[]", "say with `build` in workload.toml how the client is made"),
    ],
)
def test_a_build_without_a_client_is_told(own: Path, tmp_path: Path, build: str, told: str) -> None:
    text = (own / "workload.toml").read_text().splitlines()
    (own / "workload.toml").write_text("\n".join(f"build = {build}" if "build =" in line else line for line in text))
    with pytest.raises(EnvironmentProblem, match=told):
        client_of(folder.read(own), Steps(silent, tmp_path / "log"))


@pytest.mark.guest
@pytest.mark.timeout(1800)
def test_a_server_of_ones_own_is_captured_with_its_folder_alone(own: Path, tmp_path: Path) -> None:
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    counts = tmp_path / "counts.json"
    # Data are made in the folder of the workload, where the environment says.
    (own / "load").write_text('#!/bin/sh\npwd > "$servsim_data/made-in"\n')
    (own / "load").chmod(0o755)
    there = '[ "$(cat "$servsim_data/made-in")" = /usr/share/servsim/workload ] || exit 1\n'
    edit(own / "start", "redis-server --port", f"{there}redis-server --port")
    settings = FolderSettings(folder.read(own), {"keys": "500", "warm_up": "500"})
    captured = capture(
        120,
        tmp_path / "redis.svt",
        settings,
        progress=print,
        observers=lambda at: [counting_plugin(at, counts, "redis-client")],
    )
    assert captured.summary["totals"]["transactions"] == 120
    assert compare(captured.trace, counts)["agree"]
    told: Callable[[Path], str] = _core.trace_info
    assert all(word in told(captured.trace) for word in ("redis-server", "redis-client", "GET", "SET"))
    result = simulate(captured.trace, "foglia-2004-4p", replications=1, seed=1)
    assert result["replications"][0]["transactions"] == 60, "the middle half"


@pytest.mark.acceptance
@pytest.mark.guest
@pytest.mark.timeout(1800)
def test_the_java_server_is_captured_with_the_code_that_it_makes_at_run_time(tmp_path: Path) -> None:
    reason = obstacle()
    if reason is not None or shutil.which("javac") is None:
        pytest.skip(reason or "needs OpenJDK 17: apt-get install openjdk-17-jdk-headless")
    counts = tmp_path / "counts.json"
    settings = FolderSettings(folder.read(folder.shipped("javaserver")))
    captured = capture(
        100,
        tmp_path / "java.svt",
        settings,
        progress=print,
        observers=lambda at: [counting_plugin(at, counts, "")],
    )
    found = compare(captured.trace, counts)
    assert found["transactions"] == {"trace": 100, "independent": 100}
    assert all(figure["trace"] == figure["independent"] for figure in found["figures"].values()), found
    told: Callable[[Path], str] = _core.trace_info
    assert all(word in told(captured.trace) for word in ("warehouse-", "New-Order", "Customer-Report"))


@pytest.mark.acceptance
@pytest.mark.guest
@pytest.mark.timeout(1800)
def test_a_program_without_a_server_is_measured_itself_and_its_structures_are_told(tmp_path: Path) -> None:
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    counts = tmp_path / "counts.json"
    settings = FolderSettings(folder.read(folder.shipped("kernels")), {"kernel": "fft", "size": "16"})
    captured = capture(
        2,
        tmp_path / "fft.svt",
        settings,
        progress=print,
        observers=lambda at: [counting_plugin(at, counts, "")],
    )
    found = compare(captured.trace, counts)
    assert found["agree"] and found["transactions"] == {"trace": 2, "independent": 2}
    # The marks are executed by what is measured, so that the very blocks at which it begins and ends count.
    assert all(figure["trace"] == figure["independent"] for figure in found["figures"].values()), found
    words = ("-m", "foglia-2004-4p", "--by", "relation", "--json")
    rows = json.loads(servsim("classify", str(captured.trace), *words).stdout)["rows"]
    misses = next(row["misses"] for row in rows if row["name"] == "fft.field")
    assert misses["true_sharing"]["user"] > 0, "threads share it"
    assert misses["passive_sharing"]["user"] == 0, "it is nobody's private data"
