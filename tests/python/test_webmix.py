"""webmix: files and pages on one Apache, in the shares that were asked for; and faults, made on purpose, are named."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perl_tier
import pytest
from perl_tier import Servers, missing, servers
from waiting import wait_for

FOLDER = perl_tier.WORKLOADS / "webmix"
#: Settings of data that are made in seconds.
SMALL = {"stories": "20", "comments": "380", "members": "50", "files": "300", "megabytes": "7.5"}
SETTINGS = {"users": "4", "set_seed": "42", "writes": "12", "warm_up": "100", "think_scale": "0", "files_of_ten": "7"}

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed: make deps FOR=workload")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def workload(cache: Path, step: str, *words: str) -> subprocess.CompletedProcess[str]:
    return perl_tier.workload(cache, step, "webmix", SMALL, *words)


@pytest.fixture(scope="module")
def data(cache: Path) -> Path:
    """The small data, made once."""
    assert workload(cache, "load").returncode == 0
    return next(path.parent for path in cache.glob("workloads/webmix/*/pg"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' account may enter."""
    with perl_tier.place_of("webmix") as place:
        yield place


def test_files_and_pages_have_their_shares_and_both_are_right(cache: Path, data: Path) -> None:
    settings = ["--users", "4", "--warm-up", "100", "--transactions", "1000", "--json"]
    done = workload(cache, "run", *settings)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["valid"] and report["transactions"] == 1000
    parts = report["parts"]
    assert abs(parts["static"]["percent"] - 70) <= 1 and abs(parts["dynamic"]["percent"] - 30) <= 1
    kinds = [kind["count"] for kind in report["kinds"].values()]
    assert sum(kinds[:2]) == parts["static"]["transactions"] and sum(kinds[2:]) == parts["dynamic"]["transactions"]
    assert min(kinds[:8]) > 0 and parts["static"]["bytes"] > parts["dynamic"]["bytes"] / 10 > 0
    assert report["reconciliation"]["server_requests"] == report["reconciliation"]["replies"] >= 1100
    assert len(report["conditions"]) == 16 and report["posted"]["comments"] > 0
    checked = workload(cache, "check")
    assert checked.returncode == 0 and checked.stdout.count(" ok ") == 25, checked.stdout + checked.stderr
    wait_for(lambda: not servers())


@pytest.mark.acceptance
def test_a_file_or_a_text_that_was_changed_is_named(data: Path, place: Path, tmp_path: Path) -> None:
    spoilt = tmp_path / "data"
    shutil.copytree(data, spoilt, symlinks=True)
    for file in (spoilt / "htdocs").glob("*/*.html"):
        file.write_bytes(b"!" + file.read_bytes()[1:])
    # A cluster belongs to the account that serves.
    subprocess.run(["cp", "-a", "--attributes-only", f"{data}/pg", str(spoilt)], check=True)
    with Servers(FOLDER, spoilt, place, {**SMALL, **SETTINGS}) as there:
        done = there.asked("client", servsim_transactions="300")
        assert done.returncode == 1 and "its checksum differs" in done.stderr, done.stderr
        checked = there.asked("check")
        assert checked.returncode == 1 and "the condition contents does not hold" in checked.stderr
    with Servers(FOLDER, data, place, {**SMALL, **SETTINGS}) as there:
        there.sql("board", "UPDATE comments SET co_text = replace(co_text, 'a', 'b');", {})
        done = there.asked("client", servsim_transactions="300")
    assert done.returncode == 1 and "whose checksum differs" in done.stderr, done.stderr
