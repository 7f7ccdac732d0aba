"""The guest's image: what installs packages, before anything is booted."""

import dataclasses
import threading
from pathlib import Path

from servsim.capture import folder, image, store
from servsim.capture.steps import Steps


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
