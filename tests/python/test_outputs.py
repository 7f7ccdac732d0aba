"""Where output goes: into a folder that exists, in one contract for every command; and mistakes that are no bugs."""

import json
import os
import subprocess
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


#: Commands that take a file, where FILE stands; X is what they write.
READERS = (
    "simulate FILE -m foglia-2004-4p",
    "simulate t.txt -m FILE",
    "simulate t.txt -m foglia-2004-4p --placement FILE",
    "simulate t.txt -m brock-2001-4x4 --monitor FILE",
    "simulate t.txt -m foglia-2004-4p --from-checkpoint FILE",
    "compare FILE FILE",
    "compare FILE -m foglia-2004-4p -m foglia-2004-8p",
    "sweep FILE",
    "report FILE -o X",
    "timeline FILE",
    "classify FILE -m foglia-2004-4p",
    "trace info FILE",
    "trace stats FILE",
    "trace check FILE",
    "trace cut FILE -o X --transactions 0:1",
    "trace merge FILE FILE -o X",
    "trace import FILE -o X",
    "model solve FILE",
    "model bounds FILE",
    "model fit FILE",
    "model allocate FILE",
    "model native FILE",
    "disk import FILE -o X",
    "disk fit FILE -o X",
    "disk info FILE",
    "disk simulate d.csv -m FILE",
    "disk evaluate FILE -m FILE",
    "rset partition manage FILE",
    "workload list FILE",
    "explain FILE",
    "reproduce FILE",
)

#: Files that are none of ours, by name: a folder, and contents.
ODD: dict[str, bytes | None] = {
    "folder": None,
    "empty": b"",
    "zeros": bytes(2000),
    "noise": bytes((i * i * 31 + i * 7) % 251 for i in range(3000)),
    "latin": 'name = "Größe"\n'.encode("latin-1"),
    "prose": b"hello\nworld\n",
}


@pytest.mark.parametrize("line", READERS)
def test_whatever_a_file_is_a_command_ends_with_one_sentence_and_its_code(
    line: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("t.txt", "d.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for name, content in ODD.items():
        (tmp_path / name).mkdir() if content is None else (tmp_path / name).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    # The last is a file that exists and fails when it is read, as one on a broken disk does.
    for odd in (*ODD, "missing", "-", "", "/proc/self/mem"):
        words = [odd if word == "FILE" else word for word in line.split()]
        code = _run(words, monkeypatch)
        captured = capsys.readouterr()
        # Some can be read: an empty table, and a name with bytes that are not UTF-8.
        assert code in ((0, 2, 3) if ODD.get(odd) is not None else (2, 3)), f"{odd}: {code} {captured.err}"
        assert "Traceback" not in captured.err and (code == 0 or len(captured.err) > 30), f"{odd}: {captured.err}"
        assert not (tmp_path / "X").exists() or code == 0, f"{odd}: it was refused, and written"


@pytest.mark.parametrize(
    "line",
    [
        "simulate t.txt -m foglia-2004-4p --engine functional",
        "simulate t.txt -m foglia-2004-4p --engine functional --json",
        "timeline w.json",
        "trace info t.svt",
        "trace formats",
        f"model solve {NETWORK}",
        "model solvers --json",
        "disk formats",
        "rset show",
        "workload list",
        "explain",
        "explain cache.size",
    ],
)
@pytest.mark.parametrize("end", ["full", "closed"])
def test_what_is_printed_where_nobody_takes_it_ends_as_it_should(line: str, end: str, folder: Path) -> None:
    if end == "full":
        output = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, output = os.pipe()
        os.close(reader)
    done = subprocess.run(
        [Path(sys.executable).with_name("servsim"), *line.split()],
        cwd=folder, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=300,
    )  # fmt: skip
    os.close(output)
    assert done.returncode == (3 if end == "full" else 0), done.stderr
    assert "Traceback" not in done.stderr and ("no room left" in done.stderr) == (end == "full")
