"""The examination of the environment: what is missing is named with its remedy; exit code 3."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servsim import environment

SERVSIM = Path(sys.executable).with_name("servsim")

Emulator = Callable[[str], environment.Finding]


@pytest.fixture
def emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """Return a function that examines an emulator which is the given shell script."""

    def examine(script: str) -> environment.Finding:
        program = tmp_path / "qemu"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("SERVSIM_QEMU", str(program))
        environment.emulator.cache_clear()
        return environment.emulator()

    yield examine
    environment.emulator.cache_clear()


def test_a_recent_emulator_with_plug_ins_is_usable(emulator: Emulator) -> None:
    finding = emulator('echo "QEMU emulator version 10.0.2 (Debian 1)"; echo "-plugin [file=]<file>"')
    assert finding.ok and "10.0.2" in finding.found


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ('echo "QEMU emulator version 7.2.15"; echo -plugin', "QEMU 7.2.15 is too old"),
        ('echo "QEMU emulator version 10.0.2"', "cannot load plug-ins"),
        ("exit 1", "does not run"),
    ],
)
def test_an_unusable_emulator_is_named_with_its_remedy(emulator: Emulator, script: str, complaint: str) -> None:
    finding = emulator(script)
    assert not finding.ok and complaint in finding.found and "install qemu-system-x86" in finding.remedy


def test_a_missing_emulator_is_the_obstacle_to_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SERVSIM_QEMU", "no-such-emulator")
    environment.emulator.cache_clear()
    obstacle = environment.capture_obstacle()
    environment.emulator.cache_clear()
    assert obstacle is not None and obstacle.startswith("no-such-emulator is missing")


def test_a_user_who_is_not_root_is_told_how_to_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    obstacle = environment.capture_obstacle()
    assert obstacle is not None and "sudo make quickstart" in obstacle


def test_too_little_room_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "location", lambda: tmp_path)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda _: usage(1 << 30))
    finding = environment.room()
    assert not finding.ok and "SERVSIM_CACHE" in finding.remedy and "1.7 GiB needed" in finding.found
    # What is cached already needs no room again.
    for kind, needed in (("image", "545 MiB"), ("checkpoint", None)):
        (tmp_path / "guest" / kind / "0123").mkdir(parents=True)
        finding = environment.room()
        assert finding.ok and (needed is None) == ("needed" not in finding.found)
        assert needed is None or f"{needed} needed" in finding.found


def test_doctor_exits_with_3_and_says_what_is_missing_for_the_main_job() -> None:
    missing = {**os.environ, "SERVSIM_QEMU": "no-such-emulator"}
    done = subprocess.run([SERVSIM, "doctor"], capture_output=True, text=True, check=False, env=missing)
    assert done.returncode == 3
    assert "missing emulator" in done.stdout and "bookworm-backports" in done.stdout
    assert "the main job needs what is missing here" in done.stderr


def test_doctor_prints_a_versioned_document() -> None:
    done = subprocess.run([SERVSIM, "doctor", "--json"], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert document["schema"] == "servsim.doctor/1"
    assert done.returncode == (0 if document["ready"] else 3)
    assert all(finding["ok"] or finding["remedy"] for finding in document["findings"])


def test_a_cache_that_cannot_be_written_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "SERVSIM_CACHE": str(tmp_path / "file" / "cache")}
    done = subprocess.run([SERVSIM, "doctor"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 3
    assert "cannot be written" in done.stdout and "set SERVSIM_CACHE" in done.stdout
    status = subprocess.run([SERVSIM, "guest", "status"], capture_output=True, text=True, check=False, env=environment)
    assert (status.returncode, status.stderr.count("\n")) == (3, 1), status.stderr
    assert "set SERVSIM_CACHE" in status.stderr
