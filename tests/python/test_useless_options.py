"""Options that would change nothing are refused by name, before anything is read, run or written."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from example_files import requests

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(str(files("servsim") / "data" / "quickstart.svt"))
SHOP = Path(__file__).parents[2] / "examples" / "models" / "web-shop.toml"
TWO = ("-m", "foglia-2004-4p", "-m", "foglia-2004-8p")
MEASURED = Path(__file__).parents[2] / "examples" / "models" / "measurements.toml"


def _run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=folder, timeout=60
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with requests of a disk and results of two machines; what is refused leaves it as it is."""
    folder = tmp_path_factory.mktemp("useless")
    requests(folder / "r.csv")
    for name, machine in (("a.json", "foglia-2004-4p"), ("b.json", "foglia-2004-8p")):
        done = _run(folder, "simulate", SHIPPED, "-m", machine, "--references", 1000, "-o", name)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "a.json", "b.json", "--threads", 2, "--set", "processors=4"), "--set, --threads would change"),
        (("compare", "a.json", "b.json", "--keep", "kept", "--seed", 1), "--seed would change nothing here"),
        (("model", "fit", MEASURED, "--drift", 0.1), "--drift would change nothing here"),
        (("model", "fit", MEASURED, "--think", "1 s", "--load", 3), "without --output; leave it out"),
        (("model", "fit", MEASURED, "--servers", "cpu=2"), "names the servers of its stations"),
        (("model", "fit", "a.json", "--method", "kalman"), "tells its demands itself"),
        (("disk", "fit", "r.csv", "-o", "d.model", "--drive", "hp97560"), "leave out --drive hp97560, or use --model"),
        (("compare", SHIPPED, *TWO, "--budget", 30), "--budget would change nothing here"),
        (("compare", SHIPPED, *TWO, "--precision", "5%", "--replications", 30), "--replications would change nothing"),
        (("model", "sensitivity", SHOP, "--solver", "simulation"), "only what-ifs are solved"),
        (("model", "solve", SHOP, "--up-to", 3), "--up-to would change nothing here"),
        (("model", "size", SHOP, "--goal", "mean<=1s", "--up-to", 3), "--up-to would change nothing here"),
        (("disk", "evaluate", "r.csv", "-m", "a.model", "--slots", 2, "--model", "ssd"), "--model, --slots would"),
        (("disk", "reorganize", "r.csv", "-m", "a.model", "--model", "paper"), "a.model is fitted already"),
        (("disk", "evaluate", "r.csv", "--model", "paper", "--drive", "x"), "leave out --drive x"),
        (("disk", "evaluate", "r.csv", "--allow-other-device"), "--allow-other-device would change nothing here"),
        (("disk", "reorganize", "r.csv", "--allow-other-device"), "the model is fitted to this trace"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    arguments: tuple[object, ...], words: str, folder: Path
) -> None:
    before = sorted(folder.iterdir())
    done = _run(folder, *arguments)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert sorted(folder.iterdir()) == before


def test_what_has_a_use_is_taken(tmp_path: Path) -> None:
    done = _run(tmp_path, "model", "fit", MEASURED, "--method", "kalman", "--drift", 0.1)
    assert done.returncode == 0, done.stderr
    done = _run(tmp_path, "disk", "fit", "--model", "mechanical", "--drive", "hp97560", "-o", "d.model")
    assert done.returncode == 0, done.stderr


def test_that_no_request_of_a_tracer_was_found_is_said(tmp_path: Path) -> None:
    requests(tmp_path / "r.csv")
    done = _run(tmp_path, "disk", "import", "r.csv", "--tracer", "blktrace", "--exclude-tracer")
    assert done.returncode == 0
    assert "no request of blktrace was found, so none was left out" in done.stdout + done.stderr


def test_a_comparison_of_too_few_runs_keeps_nothing(tmp_path: Path) -> None:
    for name, machine in (("a.json", "foglia-2004-4p"), ("b.json", "foglia-2004-8p")):
        _run(tmp_path, "simulate", SHIPPED, "-m", machine, "-o", name)
    done = _run(tmp_path, "compare", "a.json", "b.json", "--keep", "kept")
    assert done.returncode == 2 and "simulate it with --replications 10 or more" in done.stderr, done.stderr
    assert not (tmp_path / "kept").exists()


def test_a_bad_result_is_refused_before_machines_are_run(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"schema": "servsim.simulate/1"}')
    done = _run(tmp_path, "compare", SHIPPED, "-m", "foglia-2004-4p", "a.json")
    assert done.returncode == 2 and "running" not in done.stderr, done.stderr
