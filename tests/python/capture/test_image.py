"""The guest's image: what installs packages, before anything is booted."""

import dataclasses
import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from servsim.capture import client, folder, image, store
from servsim.capture.elf import wants_loader
from servsim.capture.folder_settings import chosen
from servsim.capture.steps import Steps, silent
from servsim.errors import EnvironmentProblem


def test_two_installations_never_share_the_kept_packages() -> None:
    first_installs, go_on, second_waits = threading.Event(), threading.Event(), threading.Event()
    installing: list[str] = []

    class Installer(Steps):
        def run(self, what: str, command: object, *, env: dict[str, str] | None = None) -> None:
            installing.append(what)
            first_installs.set()
            assert go_on.wait(10)
            (Path((env or {})["TMPDIR"]) / "base.tar").touch()

    def report(line: str) -> None:
        if line == "waiting for another process that installs packages":
            second_waits.set()

    def ensure(described: folder.Folder) -> threading.Thread:
        steps = Installer(report, store.new_log("image"))
        thread = threading.Thread(target=image._ensure_base, args=(steps, described, lambda: None))
        thread.start()
        return thread

    plain = folder.read(folder.shipped("oltp"))
    threads = [ensure(plain)]
    assert first_installs.wait(10)
    threads.append(ensure(dataclasses.replace(plain, packages=("redis-server",))))
    assert second_waits.wait(10)
    assert len(installing) == 1
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(installing) == 2
    assert not list((store.guest_dir() / "base").glob("*.lock"))


def test_what_is_hashed_for_an_image_is_what_lies_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "servsim-oltp"
    program.write_bytes(b"one")
    laid: list[str] = []

    def lay(_steps: Steps, _base: Path, _partial: Path, copy: Path, _settings: object) -> None:
        program.write_bytes(b"another")  # a build of somebody else, meanwhile
        laid.append(store.file_digest(copy))

    monkeypatch.setattr(client, "client_of", lambda *_: program)
    monkeypatch.setattr(image, "_check_host", lambda *_: None)
    monkeypatch.setattr(image, "_ensure_base", lambda *_: tmp_path)
    monkeypatch.setattr(image, "_build_image", lay)
    made = image.ensure_image(chosen("oltp"))
    assert [json.loads((made.directory / "manifest.json").read_text())["client"]] == laid


@pytest.mark.parametrize("other", ["half", "gone", "dynamic"])
@pytest.mark.parametrize("ends", [True, False])
def test_a_program_that_is_replaced_while_it_is_copied_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, ends: bool
) -> None:
    program, place = tmp_path / "servsim-oltp", tmp_path / "place"
    program.write_bytes(b"whole")
    place.mkdir()
    original, copies = shutil.copyfile, [0]

    def copied(source: Path, target: Path) -> Any:
        copies[0] += 1
        if ends and copies[0] == 3:
            program.write_bytes(b"whole")
            return original(source, target)
        if other == "gone":
            raise FileNotFoundError
        if other == "half":
            return target.write_bytes(b"who")
        program.write_bytes(Path(sys.executable).read_bytes())
        return original(source, target)

    monkeypatch.setattr(client, "client_of", lambda *_: program)
    monkeypatch.setattr(shutil, "copyfile", copied)
    monkeypatch.delenv("SERVSIM_OLTP", raising=False)
    steps = Steps(silent, tmp_path / "log")
    if ends:
        assert client.copy_of_client(folder.find("oltp"), steps, place).read_bytes() == b"whole"
        return
    with pytest.raises(EnvironmentProblem, match=r"another build replaces .*/servsim-oltp while it is copied: wait"):
        client.copy_of_client(folder.find("oltp"), steps, place)


def test_a_program_that_is_linked_dynamically_is_known() -> None:
    assert wants_loader(Path(sys.executable).read_bytes())
    assert not wants_loader(b"#!/bin/sh")
