"""Every example of help, README and docs runs as printed, and every command that a text mentions exists.

Here examples run on two captured transactions, and those that need the guest, root, a database server or more than
some seconds are parsed only; `make acceptance` runs these too, on a capture of 400 transactions or its beginning.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import printed_examples as examples
import pytest
from example_files import furnish
from printed_examples import Example
from servsim import _core
from servsim.environment import capture_obstacle, shipped_trace

ALL = [*examples.of_documents(), *examples.of_example_files(), *examples.of_help()]

#: Examples that `make test` only parses, by their beginning, and why.
LONG = {
    "servsim capture": "needs the guest",
    "servsim classify ocean.svt": "needs a capture of a kernel",
    "servsim place ocean.svt": "needs a capture of a kernel",
    "servsim validate": "needs the guest and an hour",
    "servsim workload": "needs a database server",
    "servsim disk capture": "needs root",
    "servsim reproduce": "takes minutes",
    "servsim model measure": "takes minutes and a capture of 384 transactions",
    "servsim model verify": "takes minutes and a capture of 384 transactions",
    "servsim model native": "needs a record of native runs",
    "servsim simulate drmemtrace": "needs a trace of DynamoRIO",
    "servsim simulate oltp.svt -m du-2001": "takes minutes",
    "servsim serve": "ends when somebody ends it",
    "servsim sweep": "60 runs; what the study says is checked by --dry-run",
    "servsim compare oltp.svt": "40 runs",
    "servsim partitions day": "needs a day's load and captures of two workloads",
    "servsim critical-point": "240 runs",
    "servsim rset bind": "needs a process that may be bound, and a second node",
    "servsim rset migrate": "needs a process that may be moved, and a second node",
    "servsim rset partition": "needs an administrator, several nodes and their control groups",
    "servsim rset run --sample": "needs a program that works for a while",
    "servsim variability": "80 runs of a capture of 100 transactions",
}

#: Examples that no acceptance run on two cores has the time, the files or the devices for.
NEVER = (
    "servsim disk capture -o host.trace --seconds 10 --device sda",
    "servsim reproduce foglia-2004 --quick --trace ec.svt",
    "servsim classify ocean.svt",
    "servsim place ocean.svt",
    "servsim validate",
    "servsim model native",
    "servsim simulate drmemtrace",
    "servsim model verify",
    "servsim partitions day",
    "servsim rset bind",
    "servsim rset migrate",
    "servsim rset partition",
    "servsim rset run --sample",
    "servsim serve",
    "servsim workload run oltp --postgres",  # a build of the reader's own
)

#: Examples of very many runs have a check of their own, and read so many transactions of the capture.
FEW = 40
STUDIES = ("servsim variability", "servsim sweep", "servsim critical-point", "servsim reproduce foglia-2004 --quick")


def _on_a_capture(*, studies: bool) -> list[str]:
    """Return the lines that acceptance runs, each once."""
    lines = dict.fromkeys(e.line for e in ALL if not e.line.startswith(NEVER))
    return [line for line in lines if line.startswith(STUDIES) == studies]


def _long(example: Example) -> bool:
    return any(example.line.startswith(beginning) for beginning in LONG)


def _type(line: str, folder: Path) -> str | None:
    """Run a line in a shell as a reader would; return what went wrong, or None.

    A row of a paper that is missed by small captures is a finding, and exit code 1 is how it is told.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-c", line]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    is_finding = line.startswith("servsim reproduce") and done.returncode == 1 and "hard rows missed" in done.stderr
    return None if done.returncode == 0 or is_finding else f"{line}: exit {done.returncode}: {done.stderr[-500:]}"


def test_the_documents_and_help_hold_examples() -> None:
    assert len(examples.of_documents()) > 30
    assert len(examples.of_help()) > 5
    assert len(examples.of_example_files()) > 4


@pytest.mark.parametrize("example", ALL, ids=str)
def test_an_example_is_a_command_line_that_servsim_takes(example: Example) -> None:
    assert [fault for words in example.command_lines() if (fault := examples.fault(words))] == []


def test_short_examples_run_as_printed(tmp_path: Path) -> None:
    trace = tmp_path / "short.svt"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, trace, (4, 6), None, None)
    furnish(tmp_path, trace)
    failed = [_type(line, tmp_path) for line in dict.fromkeys(e.line for e in ALL if not _long(e))]
    assert "".join(text for text in failed if text) == ""


def test_the_printed_study_is_the_one_meant(tmp_path: Path) -> None:
    shipped = shipped_trace()
    assert shipped is not None
    furnish(tmp_path, shipped)
    command = [Path(sys.executable).with_name("servsim"), "sweep", "caches.toml", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "processors = 4, cache.size = 512 KiB"
    assert done.stdout.splitlines()[-1] == "6 points x 10 seeds = 60 runs"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture, in the folder in which all examples are run: some read what others write."""
    if (obstacle := capture_obstacle()) is not None:
        pytest.skip(obstacle)
    trace = tmp_path_factory.mktemp("printed") / "captured.svt"
    assert _type(f"servsim capture oltp --transactions 400 -o {trace}", trace.parent) is None
    furnish(trace.parent, trace)
    return trace


@pytest.mark.acceptance
@pytest.mark.timeout(2700)  # the longest takes a quarter of it on a quiet host
@pytest.mark.parametrize("line", _on_a_capture(studies=False))
def test_an_example_runs_as_printed_on_a_capture(line: str, captured: Path) -> None:
    (captured.parent / "oltp.svt").unlink()  # an example before may have captured fewer transactions
    shutil.copy(captured, captured.parent / "oltp.svt")
    assert _type(line, captured.parent) is None


@pytest.mark.acceptance
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("line", _on_a_capture(studies=True))
def test_a_long_study_runs_as_printed_on_few_transactions(line: str, captured: Path) -> None:
    (captured.parent / "oltp.svt").unlink()
    _core.trace_cut(captured, captured.parent / "oltp.svt", (0, FEW))
    assert _type(line, captured.parent) is None


def test_every_command_and_option_that_a_text_mentions_exists() -> None:
    found = list(examples.mentions())
    assert len(found) > 30
    faults = [(str(mention), examples.mention_fault(mention.line.split()[1:])) for mention in found]
    assert [pair for pair in faults if pair[1]] == []


def test_a_mention_of_what_does_not_exist_is_found() -> None:
    assert examples.mention_fault(["simulat", "x.svt"]) == "there is no command simulat"
    assert examples.mention_fault(["trace", "info|look"]) == "there is no command look"
    assert examples.mention_fault(["simulate", "TRACE", "--machines=x"]) == "there is no option --machines"
    assert examples.fault(["simulate", "x.svt", "-m"]) is not None


def test_help_prints_every_word_of_its_texts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    for path, command in examples.commands():
        command.main(["--help"], prog_name="servsim", standalone_mode=False)
        shown = capsys.readouterr().out
        assert "…" not in shown, f"something of {path} does not fit"
        flat = re.sub(r"[\s│]+", "", shown)
        texts = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
        for word in " ".join(map(examples.unescaped, texts)).split():
            assert word in flat, f"{word} is missing from the help of {path}"
