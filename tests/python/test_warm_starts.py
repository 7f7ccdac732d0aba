"""Warm starts: a checkpoint gives what warming in place gives, in `simulate`, `compare` and `sweep`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sweep_study import write_study, write_trace

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
WARM = "1500 references"
#: Two designs that warm the same caches in the same way.
PAIR = ("-m", "foglia-2004-4p", "-m", "foglia-2004-4p:bus.bytes_per_cycle=32 B")


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)


def figures(*arguments: object) -> Any:
    done = servsim(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def simulated(*arguments: object) -> Any:
    return figures("simulate", SHIPPED, "-m", "foglia-2004-4p", *arguments)


def mean(result: Any, name: str) -> float:
    return float(result["summary"][name]["mean"])


def small(folder: Path, *arguments: object) -> Any:
    """Run the small trace of a folder on the four-processor machine."""
    return figures("simulate", folder / "small.txt", "-m", "foglia-2004-4p", *arguments)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path, 2000)


@pytest.fixture
def checkpoint(trace: Path, tmp_path: Path) -> Path:
    """A warm state of the four-processor machine after `WARM`."""
    file = tmp_path / "warm.check"
    small(trace.parent, "--functional-warm-up", WARM, "--save-checkpoint", file)
    return file


def test_a_checkpoint_starts_the_run_that_warmed_by_itself_and_no_other_machine(tmp_path: Path) -> None:
    file = tmp_path / "warm.check"
    warm = ("--functional-warm-up", 3, "--warm-up", 0, "--transactions", 2)
    own = simulated(*warm, "--save-checkpoint", file)
    assert own["options"]["functional_warmup"] == "3 transactions"
    assert simulated("--from-checkpoint", file, "--warm-up", 0, "--transactions", 2) == own
    wide = simulated(
        "--from-checkpoint", file, "--warm-up", 0, "--transactions", 2, "--set", "bus.bytes_per_cycle=32 B"
    )
    assert mean(wide, "cycles") < mean(own, "cycles")
    refused = servsim("simulate", SHIPPED, "-m", "foglia-2004-8p", "--from-checkpoint", file)
    assert refused.returncode == 2
    assert "processors was 4, and is 8 here" in refused.stderr
    file.write_bytes(file.read_bytes()[:-1])
    refused = servsim("simulate", SHIPPED, "-m", "foglia-2004-4p", "--from-checkpoint", file)
    assert refused.returncode == 2
    assert "damaged" in refused.stderr


def test_a_comparison_warms_every_design_as_simulate_does(trace: Path, tmp_path: Path) -> None:
    figures("compare", trace, *PAIR, "--replications", 3, "--functional-warm-up", WARM, "--keep", tmp_path / "kept")
    alone = small(trace.parent, "--replications", 3, "--functional-warm-up", WARM)
    kept = [json.loads(path.read_text()) for path in sorted((tmp_path / "kept").iterdir())]
    assert len(kept) == 2
    assert alone["replications"] in [result["replications"] for result in kept]
    cold = small(trace.parent, "--replications", 3)
    assert mean(cold, "misses_per_reference") != mean(alone, "misses_per_reference")


def test_a_comparison_from_a_checkpoint_is_the_one_that_warmed_in_place(trace: Path, checkpoint: Path) -> None:
    runs = ("compare", trace, *PAIR, "--replications", 3)
    warmed = figures(*runs, "--functional-warm-up", WARM)
    started = figures(*runs, "--from-checkpoint", checkpoint)
    assert started["designs"] == warmed["designs"]
    other = ("-m", "foglia-2004-4p", "-m", "foglia-2004-8p")
    refused = servsim("compare", trace, *other, "--replications", 3, "--from-checkpoint", checkpoint)
    assert refused.returncode == 2
    assert "processors was 4, and is 8 here" in refused.stderr


def test_a_sweep_over_warm_starts_gives_what_simulate_gives(tmp_path: Path) -> None:
    study = tmp_path / "warm.toml"
    write_trace(tmp_path, 2000)
    study.write_text(
        f"""trace = "small.txt"
machine = "foglia-2004-4p"
seeds = {{ first = 1, count = 2 }}
[factors]
functional_warmup = ["500 references", "{WARM}"]
"""
    )
    points = figures("sweep", study, "-o", tmp_path / "out")["points"]
    for point in points:
        amount = point["factors"]["functional_warmup"]
        alone = small(tmp_path, "--replications", 2, "--functional-warm-up", amount)
        assert point["summary"]["cycles"]["mean"] == pytest.approx(mean(alone, "cycles")), amount
    assert points[0]["summary"]["cycles"]["mean"] != points[1]["summary"]["cycles"]["mean"]


def test_a_sweep_starts_from_a_checkpoint_and_is_made_anew_when_it_changes(tmp_path: Path, checkpoint: Path) -> None:
    study = write_study(tmp_path, seeds=2, extra=f'checkpoint = "{checkpoint.name}"')
    text = study.read_text().replace('processors = [1, 2]\ncache.size = ["16 KiB", "64 KiB"]', "")
    study.write_text(text + 'bus.bytes_per_cycle = ["8 B", "32 B"]\n')
    made = figures("sweep", study, "-o", tmp_path / "out")
    wide = ("--replications", 2, "--set", "bus.bytes_per_cycle=32 B")
    warmed = small(tmp_path, "--functional-warm-up", WARM, *wide)
    assert made["points"][1]["summary"]["cycles"]["mean"] == pytest.approx(mean(warmed, "cycles"))
    assert figures("sweep", study, "-o", tmp_path / "out")["runs"] == {"made": 0, "kept": 4}
    small(tmp_path, "--functional-warm-up", "500 references", "--save-checkpoint", checkpoint)
    assert figures("sweep", study, "-o", tmp_path / "out")["runs"] == {"made": 4, "kept": 0}


def test_a_sweep_over_machines_that_a_checkpoint_does_not_fit_says_which(tmp_path: Path, checkpoint: Path) -> None:
    study = write_study(tmp_path, seeds=2, extra=f'checkpoint = "{checkpoint.name}"')
    refused = servsim("sweep", study, "-o", tmp_path / "out")
    assert refused.returncode == 2, refused.stderr
    assert "processors was 4, and is 1 here" in refused.stderr
    assert "Traceback" not in refused.stderr
