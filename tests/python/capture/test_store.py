"""Cached results: complete or absent, built once, never blocked by the dead."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from servsim.capture import inventory, store
from servsim.errors import EnvironmentProblem


def test_a_result_is_built_once_and_then_reused(tmp_path: Path) -> None:
    built = []

    def build(partial: Path) -> None:
        built.append(partial)
        (partial / "file").write_text("content")

    assert store.build_once(tmp_path / "kind" / "abc", build)
    assert not store.build_once(tmp_path / "kind" / "abc", build)
    assert len(built) == 1
    assert (tmp_path / "kind" / "abc" / "file").read_text() == "content"
    assert [path.name for path in (tmp_path / "kind").iterdir()] == ["abc"]


@pytest.mark.parametrize("stop", [EnvironmentProblem("no"), KeyboardInterrupt(), SystemExit(143)])
def test_a_failed_or_interrupted_build_leaves_nothing(tmp_path: Path, stop: BaseException) -> None:
    def build(partial: Path) -> None:
        (partial / "half").write_text("")
        raise stop

    with pytest.raises(type(stop)):
        store.build_once(tmp_path / "kind" / "abc", build)
    assert list((tmp_path / "kind").iterdir()) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    def build(partial: Path) -> None:
        (partial / "half").write_text("")
        raise OSError(28, "No space left on device")

    with pytest.raises(EnvironmentProblem, match=r"No space left on device.*free some room, or set SERVSIM_CACHE"):
        store.build_once(tmp_path / "kind" / "abc", build)
    assert list((tmp_path / "kind").iterdir()) == []


def test_the_half_built_result_of_a_killed_builder_is_replaced(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from servsim.capture import store\n"
        "def build(partial):\n"
        "    (partial / 'half').write_text('')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.build_once(Path(sys.argv[1]), build)\n"
    )
    target = tmp_path / "kind" / "abc"
    done = subprocess.run([sys.executable, "-c", script, target], check=False)
    assert done.returncode == -signal.SIGKILL
    assert sorted(path.name for path in target.parent.iterdir()) == ["abc.lock", "abc.partial"]
    assert store.build_once(target, lambda partial: (partial / "whole").touch())
    assert [path.name for path in target.rglob("*")] == ["whole"]
    assert [path.name for path in target.parent.iterdir()] == ["abc"]


def test_two_builders_build_once_and_the_second_says_that_it_waits(tmp_path: Path) -> None:
    target = tmp_path / "kind" / "abc"
    building, go_on = threading.Event(), threading.Event()
    built, waited = [], threading.Event()

    def build(_partial: Path) -> None:
        built.append(1)
        building.set()
        assert go_on.wait(10)

    first = threading.Thread(target=store.build_once, args=(target, build))
    second = threading.Thread(target=store.build_once, args=(target, build, waited.set))
    first.start()
    assert building.wait(10)
    second.start()
    assert waited.wait(10)
    assert store.is_locked(target.with_name("abc.lock"))
    go_on.set()
    first.join(10)
    second.join(10)
    assert built == [1]
    assert [path.name for path in target.parent.iterdir()] == ["abc"]


def test_a_hash_depends_on_values_and_not_on_their_order() -> None:
    assert store.digest({"a": 1, "b": [2]}) == store.digest({"b": [2], "a": 1})
    assert store.digest({"a": 1, "b": [2]}) != store.digest({"a": 1, "b": [3]})


def test_clean_removes_results_keeps_packages_and_refuses_while_a_build_is_on() -> None:
    root = store.guest_dir()
    for name in ("image/abc", "checkpoint/def", "base/ghi", "apt"):
        (root / name).mkdir(parents=True)
    with store.locked(root / "image" / "new.lock"), pytest.raises(EnvironmentProblem, match="image/new"):
        inventory.clean(everything=True)
    inventory.clean(everything=False)
    assert sorted(path.name for path in root.iterdir()) == ["apt", "base"]
    inventory.clean(everything=True)
    assert list(root.iterdir()) == []


def test_logs_are_never_shared_and_the_oldest_are_forgotten() -> None:
    for age in range(store._KEPT_LOGS + 5):
        path = store.new_log("boot")
        path.write_text("")
        os.utime(path, (age, age))
    last = store.new_log("boot")
    assert not last.exists()
    assert len(list(store.logs_dir().iterdir())) == store._KEPT_LOGS


def test_scratch_folders_of_the_living_stay_and_those_of_the_killed_go(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from servsim.capture import store\n"
        "with store.scratch(Path(sys.argv[1]), 'run-') as folder:\n"
        "    (folder / 'half').write_text('')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    (tmp_path / "other").mkdir()
    with store.scratch(tmp_path, "run-") as mine:
        assert not left.exists()
        with store.scratch(tmp_path, "run-") as another:
            assert mine != another and mine.is_dir()
        assert mine.is_dir() and not another.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_killed_builders_left_goes_with_the_next_build_of_anything(tmp_path: Path) -> None:
    (tmp_path / "dead.partial").mkdir()
    (tmp_path / "dead.lock").touch()
    with store.locked(tmp_path / "alive.lock"):
        (tmp_path / "alive.partial").mkdir()
        assert store.build_once(tmp_path / "abc", lambda partial: (partial / "whole").touch())
        assert sorted(path.name for path in tmp_path.iterdir()) == ["abc", "alive.lock", "alive.partial"]


def test_a_scratch_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentProblem, match=r"file.* cannot be written"), store.scratch(tmp_path / "file", "run-"):
        pass
