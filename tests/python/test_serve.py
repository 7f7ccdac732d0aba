"""The report as results come: what the server shows is what is there, and nobody but this host's browsers sees it."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from browser import CHROMIUM, Browser
from layout_result import layout_result
from servsim.errors import EnvironmentProblem, UsageError
from servsim.report import read, render
from servsim.report.live.server import Server
from servsim.report.live.shelf import Shelf
from servsim.sweep import conduct, load
from servsim.sweep.store import opened
from waiting import wait_for

SERVSIM = Path(sys.executable).with_name("servsim")
STUDY = """
name = "two sizes"
trace = "trace.txt"
machine = "foglia-2004-4p"
engine = "functional"
[factors]
"cache.size" = ["64 KiB", "128 KiB"]
"""


@contextmanager
def served(*paths: Path, folder: Path = Path()) -> Iterator[str]:
    """Serve on a free port; give the address."""
    with Server(Shelf(paths, folder), 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.address
        finally:
            server.shutdown()
            thread.join()


def got(address: str, **headers: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def state(address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(got(f"{address}state"))
    return found


def rendered(*paths: Path) -> str:
    return render([read(path) for path in paths])


def put(path: Path, document: object) -> None:
    """Write a file so that it differs from what stood there, however quickly."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(json.dumps(document))
    if path.stat().st_mtime_ns == before:
        os.utime(path, ns=(before + 1, before + 1))


def test_results_are_shown_as_they_come(tmp_path: Path) -> None:
    one, other = layout_result(), layout_result("other", 2, seed=3)
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    with served(first, second) as address:
        nothing = state(address)
        assert nothing["said"] == f"waiting for {first} · waiting for {second}"
        assert "No result yet" in got(f"{address}report")
        put(first, one)
        some = state(address)
        assert some["version"] != nothing["version"] and some["said"].startswith(f"waiting for {second} · as of ")
        assert got(f"{address}report") == rendered(first)
        put(second, other)
        assert got(f"{address}report") == rendered(first, second)
        assert state(address)["version"] == state(address)["version"] != some["version"]
        put(first, other)
        put(second, one)
        assert got(f"{address}report") == rendered(first, second)


def test_what_cannot_be_read_is_told_beside_what_can(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole.json", tmp_path / "half.json"
    put(whole, layout_result())
    half.write_text(json.dumps(layout_result("half"))[:400])
    with served(whole, half) as address:
        assert f"{half} is not JSON" in state(address)["said"]
        assert got(f"{address}report") == rendered(whole)
        put(half, layout_result("half"))
        assert "is not JSON" not in state(address)["said"]
        put(half, {**layout_result("half"), "engine": "functional"})
        assert "a page holds results of one engine" in got(f"{address}report")


def test_a_sweep_is_shown_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "trace.txt").write_text("".join(f"0 L {4096 * at:x}\n" for at in range(9)))
    (tmp_path / "study.toml").write_text(STUDY)
    folder, study = tmp_path / "two.sweep", load(tmp_path / "study.toml")
    with served(folder) as address:
        assert state(address)["said"] == f"waiting for {folder}"
        with opened(folder, study.name):
            assert state(address)["said"] == "two.sweep: 0 of 0 runs"
        conduct(study, folder)
        assert state(address)["said"].startswith("two.sweep: 2 of 2 runs · as of ")
        assert "2 designs compared" in got(f"{address}report")
        with (folder / "journal.jsonl").open("a") as journal:
            journal.write('{"event": "fin{"event": "finished", "run": "x"}\n[1]\n{"event": "planned", "ru')
        shutil.rmtree(next((folder / "runs").iterdir()))
        assert state(address)["said"].startswith("two.sweep: 1 of 2 runs · as of ")


def test_a_folder_is_shown_page_by_page(tmp_path: Path) -> None:
    with served(folder=tmp_path) as address:
        assert state(address)["pages"] == [""]
        put(tmp_path / "a & b.json", layout_result())
        put(tmp_path / "other.json", layout_result("other"))
        put(tmp_path / "words.json", {"no": "result"})
        os.utime(tmp_path / "other.json", ns=(1, 1))
        found = state(address)
        assert (found["pages"], found["shown"]) == (["a & b.json", "other.json"], "a & b.json")
        assert got(f"{address}report?other.json") == rendered(tmp_path / "other.json")
        assert got(f"{address}report?{quote('a & b.json')}") == rendered(tmp_path / "a & b.json")
        assert got(f"{address}report?gone.json") == rendered(tmp_path / "a & b.json")


def test_nobody_else_is_answered(tmp_path: Path) -> None:
    put(tmp_path / "1.json", layout_result())
    with served(tmp_path / "1.json") as address:
        port = address.rstrip("/").rpartition(":")[2]
        assert address == f"http://127.0.0.1:{port}/"
        got(f"{address}report", Host=f"localhost:{port}")
        for path, host, code in (("report", "elsewhere.example", 403), ("../etc/passwd", f"127.0.0.1:{port}", 404)):
            with pytest.raises(urllib.error.HTTPError, match=str(code)):
                got(f"{address}{path}", Host=host)
        with pytest.raises(
            EnvironmentProblem, match=f"port {port} of the loopback is in use: give another with --port"
        ):
            Server(Shelf([]), int(port))


def test_a_browser_that_goes_away_is_nothing_to_talk_about(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "1.json", layout_result())
    with served(tmp_path / "1.json") as address:
        host, port = address.removeprefix("http://").rstrip("/").split(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as browser:
                browser.sendall(f"GET /report HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                # Closed so that the other end learns of it at once.
                browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert got(f"{address}report") == rendered(tmp_path / "1.json")
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder, but not of a sweep"):
        Shelf([tmp_path])


def test_the_command_tells_where_and_ends_quietly(tmp_path: Path) -> None:
    result = tmp_path / "1.json"
    put(result, layout_result())
    command = [SERVSIM, "serve", result, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            address = child.stdout.readline().strip()
            assert got(f"{address}report") == rendered(result)
            child.send_signal(signal.SIGINT)
            _, told = child.communicate(timeout=30)
        finally:
            child.kill()
    assert child.returncode == 0
    assert told.splitlines() == ["open it in a browser of this host; Ctrl-C ends it", "ended"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_an_open_page_follows_the_results(tmp_path: Path) -> None:
    title = "document.querySelector('iframe').contentDocument.title"
    put(tmp_path / "1.json", layout_result())
    with served(folder=tmp_path) as address, Browser() as browser:
        browser.open(address, 390)
        wait_for(lambda: browser.evaluate(title).startswith("layout only"))
        assert browser.evaluate("document.querySelectorAll('nav a').length") == 0
        put(tmp_path / "1.json", layout_result("another"))
        wait_for(lambda: browser.evaluate(title).startswith("another"))
        put(tmp_path / "2.json", layout_result("later"))
        wait_for(lambda: browser.evaluate(title).startswith("later"))
        assert browser.evaluate("document.querySelector('[aria-current]').textContent") == "2.json"
        browser.open(f"{address}?1.json", 1200)
        wait_for(lambda: browser.evaluate(title).startswith("another"))
        assert browser.evaluate("document.documentElement.scrollWidth") <= 1200
        assert browser.complaints() == []
