"""Where output goes: into a folder that exists, in one contract for every command; and mistakes that are no bugs."""

import json
import sys
from pathlib import Path

import pytest
from layout_result import layout_result
from printed_examples import root
from servsim import _core, cli
from servsim.environment import shipped_trace
from servsim.errors import UsageError
from servsim.simulation import simulate

NETWORK = Path(__file__).resolve().parents[2] / "examples" / "models" / "web-shop.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one input of each kind."""
    place = tmp_path_factory.mktemp("inputs")
    (place / "t.txt").write_text("0 L 1000\n0 S 2000\n")
    for name, machine in (("r.json", "small"), ("s.json", "large")):
        (place / name).write_text(json.dumps(layout_result(machine)))
    whole = layout_result()
    for run in whole["replications"]:
        run["window_cycles"] = 1000
        for window in run["timeline"]:
            window |= {"references": 1, "instructions": 1, "misses": 0, "busy": 1}
    (place / "w.json").write_text(json.dumps(whole))
    rows = [f"{i * 10_000},0,{i * 8},8,{i * 10_000 + 900}" for i in range(400)]
    (place / "d.csv").write_text("\n".join(["arrival_us,op,lba,sectors,completion_us", *rows]))
    _core.trace_cut(shipped_trace(), place / "t.svt", (4, 5), None, None)
    return place


def _run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(cli, "build", root)
    monkeypatch.setattr(sys, "argv", ["servsim", *words])
    return cli.run()


@pytest.mark.parametrize(
    "line",
    [
        "simulate t.txt -m foglia-2004-4p --engine functional -o OUT/x.json",
        "report r.json -o OUT/x.html",
        "compare r.json s.json --html OUT/x.html",
        "timeline w.json --parquet OUT/x.parquet",
        "timeline w.json --perfetto OUT/x.json",
        "trace cut t.svt --transactions 0:1 -o OUT/x.svt",
        "trace export t.txt --format raw16 -o OUT/x.raw16",
        "disk import d.csv -o OUT/x.bin",
        "disk fit d.csv -o OUT/x.model",
        "disk simulate d.csv -m d.model -o OUT/x.csv",
        f"model solve {NETWORK} --plot OUT/x.svg",
    ],
)
def test_an_output_in_a_folder_that_does_not_exist_is_refused(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    if "d.model" in line:
        assert _run(["disk", "fit", "d.csv", "-o", "d.model"], monkeypatch) == 0
        capsys.readouterr()
    code = _run(line.replace("OUT", "missing").split(), monkeypatch)
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2, message
    assert message.startswith("servsim: ") and "missing" in message and "Traceback" not in message
    assert not (folder / "missing").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"transactions": -1}, "transactions is -1"),
        ({"transactions": 2**70}, "transactions is"),
        ({"warmup": -1}, "warmup is -1"),
        ({"replications": 0}, "replications is 0"),
        ({"seed": -5}, "seed is -5"),
        ({"threads": 0}, "threads is 0"),
        ({"users": True}, "users is True"),
    ],
)
def test_numbers_that_no_run_can_have_are_wrong_usage(folder: Path, given: dict[str, int], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        simulate(folder / "t.txt", "foglia-2004-4p", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "told"), [("", "is empty"), ("[]", "is not a simulation result")])
def test_an_empty_file_is_neither_a_trace_nor_a_result(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text(text)
    assert _run(["compare", str(tmp_path / "x.json"), str(tmp_path / "x.json")], monkeypatch) == 2
    assert told in capsys.readouterr().err


def test_a_result_without_all_of_its_windows_is_refused_by_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert _run(["timeline", "r.json", "--perfetto", "x.json"], monkeypatch) == 2
    assert "does not record references, instructions, misses, busy" in capsys.readouterr().err
