"""The wheel, installed into an environment of its own, outside the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel, install it without its dependencies, lend it those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [Path(sys.executable).with_name("maturin"), "build", "--release", "-q", "-o", folder]
    environment = {**os.environ, "PYO3_PYTHON": sys.executable}
    subprocess.run(build, cwd=ROOT, env=environment, check=True, capture_output=True)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    (place,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A path in a .pth file is searched, but the .pth files in it, and so this checkout, are not.
    (place / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "servsim"


def _run(program: Path, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SERVSIM_")}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [program, *map(str, words)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_machine_is_found_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("0 L 1000\n0 S 2000\n1 L 1000\n")
    done = _run(installed, tmp_path, "simulate", "t.txt", "--machine", "foglia-2004-4p", "--engine", "functional")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("foglia-2004-4p: 4 processors")
    wrong = _run(installed, tmp_path, "simulate", "t.txt", "--machine", "foglia-204-4p")
    assert wrong.returncode == 2 and "did you mean 'foglia-2004-4p'?" in wrong.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]


def test_the_cache_is_the_users_and_never_the_present_folder(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, tmp_path, "doctor")
    assert str(tmp_path / "cache" / "servsim") in done.stdout
    status = _run(installed, tmp_path, "guest", "status", "--json")
    assert status.returncode == 0, status.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


@pytest.mark.parametrize(
    "command", ["capture oltp -o x.svt", "guest build", "guest boot", "workload load oltp", "workload run oltp"]
)
def test_what_needs_the_checkout_says_so_in_one_sentence(installed: Path, tmp_path: Path, command: str) -> None:
    done = _run(installed, tmp_path, *command.split())
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1 and "needs a checkout of servsim" in done.stderr, done.stderr
    assert not (tmp_path / "x.svt").exists()


def test_quickstart_names_the_missing_checkout_and_goes_on(installed: Path, tmp_path: Path) -> None:
    code = "from servsim.environment import capture_obstacle; print(capture_obstacle())"
    done = subprocess.run(
        [installed.with_name("python"), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("this is an installed package (clone servsim's repository")
