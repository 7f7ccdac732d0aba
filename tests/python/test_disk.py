import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from servsim import disk
from servsim.disk.plots import evaluation_svg
from servsim.errors import EnvironmentProblem, UsageError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A FCFS disk: sequential requests take 1 ms, jumps 5 to 9 ms."""
    rng = np.random.default_rng(1)
    now = free = 0
    lba = 0
    lines = ["arrival_us,op,lba,sectors,completion_us"]
    for _ in range(3000):
        now += int(rng.exponential(12_000))
        jump = rng.random() < 0.7
        lba = int(rng.integers(0, 1_000_000)) * 8 if jump else lba + 8
        free = max(now, free) + (int(rng.integers(5000, 9000)) if jump else 1000)
        lines.append(f"{now},{int(rng.random() < 0.4)},{lba},8,{free}")
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines))
    return path


def test_columns_are_numpy_arrays_in_arrival_order(trace: Path) -> None:
    columns, report = disk.load(str(trace))
    assert report["requests"] == 3000
    assert columns["arrival_ns"][0] == 0
    assert (np.diff(columns["arrival_ns"].astype(np.int64)) >= 0).all()
    assert columns["is_write"].dtype == bool


def test_a_model_is_fitted_judged_run_and_used_to_reorganise(trace: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "m.ssdm")
    fitted = disk.fit(str(trace), model)
    assert fitted["devices"][0]["server"]["discipline"] == "fcfs"
    assert disk.info(model)["devices"][0]["kind"] == "forest"
    entry = disk.evaluate(str(trace))["devices"][0]
    assert entry["crps_skill"] > 0.5
    assert abs(entry["free_running"]["mean_error_percent"]) < 10
    assert evaluation_svg(entry).startswith("<svg")
    slow = disk.simulate(str(trace), model, load=1.3)
    assert slow.response_ns.mean() > disk.simulate(str(trace), model).response_ns.mean()
    assert (disk.simulate(str(trace), model, load=1.3).response_ns == slow.response_ns).all()
    result, maps = disk.reorganize(str(trace), blocks=50)
    assert [entry["policy"] for entry in result["results"]] == ["hot-block", "organ-pipe"]
    path = tmp_path / "map"
    path.write_text(maps[0][2])
    assert disk.simulate(str(trace), model, map_path=str(path)).summary["remapped"] == str(path)


def test_streamed_and_in_memory_fits_are_the_same_model(trace: Path, tmp_path: Path) -> None:
    binary = tmp_path / "t.ssd"
    disk.import_trace(str(trace), str(binary))
    one, other = tmp_path / "a", tmp_path / "b"
    disk.fit(str(trace), str(one))
    disk.fit(str(binary), str(other))
    assert one.read_bytes() == other.read_bytes()


def test_mistakes_are_told_in_one_sentence(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `forest`"):
        disk.fit(str(trace), kind="forrest")
    with pytest.raises(UsageError, match="train share"):
        disk.fit(str(trace), train=2)
    with pytest.raises(UsageError, match="not a usable model file"):
        disk.simulate(str(trace), str(trace))
    with pytest.raises(UsageError, match="cannot open"):
        disk.load(str(tmp_path / "absent"))


def test_capture_without_tracefs_says_what_to_do(tmp_path: Path) -> None:
    from servsim.disk.capture import capture

    with pytest.raises(EnvironmentProblem, match="mount -t tracefs"):
        capture(tmp_path / "x", 0.1, tracefs=tmp_path)


def test_the_command_prints_versioned_json(trace: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from servsim.cli import main; main()",
        "disk",
        "evaluate",
        str(trace),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["schema"] == "servsim.disk.evaluate/1"


DATA = Path(os.environ.get("SERVSIM_DATA", Path(__file__).parents[3] / "shared" / "data")) / "disk"


@pytest.mark.acceptance
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no disk traces in {DATA}")
@pytest.mark.parametrize("order", ["fcfs", "sstf"])
def test_given_pairs_are_predicted_within_five_points(order: str) -> None:
    before, after = (str(DATA / f"cheetah9LP_{order}_hot_low_{which}.csv") for which in ("orig", "hot"))

    def mean(path: str) -> float:
        columns, _ = disk.load(path)
        return float((columns["completion_ns"] - columns["arrival_ns"]).mean())

    truth = 100 * (mean(after) / mean(before) - 1)
    result, _ = disk.reorganize(before, policies=["hot-block"])
    assert abs(result["results"][0]["prediction"]["change_percent"] - truth) < 5
