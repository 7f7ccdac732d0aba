"""The command line's frame: help, version, exit codes."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from servsim import _core

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(_core.__file__).with_name("data") / "quickstart.svt"


@pytest.mark.parametrize("program", [[SERVSIM], [sys.executable, "-m", "servsim"]])
def test_version_names_the_program_and_its_version(program: list[str | Path]) -> None:
    done = subprocess.run([*program, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == "servsim 0.1.0\n"


def test_an_unknown_command_is_wrong_usage() -> None:
    done = subprocess.run([SERVSIM, "simulat"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""


def _run(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=120, **options
    )


def _script(body: str) -> str:
    """Return a Python program: the command line with one more subcommand, ``boom``, of the given body."""
    command = f"@c.app.command()\ndef boom():\n    {body}\n"
    return f"import sys, servsim.cli as c\n{command}sys.argv = ['servsim', 'boom']\nsys.exit(c.run())"


#: The program, interrupted where it begins to load a module that it takes long over.
INTERRUPTED = """
import importlib.abc, os, signal, sys

class Interrupts(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.argv = ["servsim", "--version"]
from servsim.start import main
main()
"""


def test_ctrl_c_while_the_command_line_loads_ends_in_one_line() -> None:
    done = _run(sys.executable, "-c", INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "servsim: interrupted\n")


def test_a_program_that_was_told_to_ignore_ctrl_c_does_so_while_it_loads() -> None:
    done = _run("sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, INTERRUPTED)
    assert (done.returncode, done.stdout[:8], done.stderr) == (0, "servsim ", "")


@pytest.mark.parametrize(
    "arguments",
    [["--no-such-option"], ["report"], ["report", "--nonsense", "x"], ["quickstart", "--seed", "x"]],
)
def test_wrong_usage_exits_with_2_and_speaks_on_stderr(arguments: list[str]) -> None:
    done = _run(SERVSIM, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage" in done.stderr


def test_a_file_that_is_no_result_is_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    done = _run(SERVSIM, "report", tmp_path / "x.json", "-o", tmp_path / "r.html")
    assert done.returncode == 2
    assert done.stderr.startswith("servsim: ") and done.stderr.count("\n") == 1
    assert "servsim simulate" in done.stderr
    assert list(tmp_path.glob("*.html")) == []


def test_a_report_is_written_and_its_path_printed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(layout_result()))
    done = _run(SERVSIM, "report", tmp_path / "x.json", "-o", tmp_path / "r.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/r.html\n", "")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("from servsim.errors import CheckFailed; raise CheckFailed('unequal')", 1, "servsim: unequal\n"),
        ("from servsim.errors import UsageError; raise UsageError('no trace')", 2, "servsim: no trace\n"),
        (
            "from servsim.errors import EnvironmentProblem as E; raise E('no emulator')",
            3,
            "servsim: no emulator\n",
        ),
        ("raise OSError(28, 'No space', 'x.svt')", 3, "no room left to write x.svt"),
        ("raise KeyboardInterrupt", 130, "servsim: interrupted\n"),
        ("raise ZeroDivisionError('oops')", 70, "this is a bug in servsim"),
        ("raise OSError(5, 'Input/output error')", 3, "a file cannot be read or written: Input/output error"),
        ("raise OSError(22, 'Invalid argument')", 70, "this is a bug in servsim"),
        # A Python package that is newer than its native module asks for what that does not have.
        ("from servsim import _core; _core.of_tomorrow()", 3, "run `make build`"),
        ("from servsim import _core; _core.trace_info(path='x', of_tomorrow=1)", 3, "run `make build`"),
        ("from servsim._core import of_tomorrow", 3, "run `make build`"),
        ("import servsim; servsim.of_tomorrow()", 70, "this is a bug in servsim"),
        ("raise BaseException('a panic of the native module')", 70, "this is a bug in servsim"),
    ],
)
def test_every_way_to_end_has_its_exit_code(body: str, code: int, message: str) -> None:
    done = _run(sys.executable, "-c", _script(body))
    assert done.returncode == code
    assert message in done.stderr and done.stdout == ""
    assert ("Traceback" in done.stderr) == (code == 70), "a stack trace is for bugs alone"


def test_an_interrupt_signal_ends_with_130() -> None:
    body = "import time; print('ready', flush=True); time.sleep(60)"
    command = [sys.executable, "-c", _script(body)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, messages = child.communicate(timeout=120)
    assert (child.returncode, messages) == (130, "servsim: interrupted\n")


@pytest.mark.parametrize("command", ["--help", "doctor --json", "report --help"])
def test_a_reader_that_leaves_early_is_no_error(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [SERVSIM, *command.split()], stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def _on_terminal(**environment: str) -> str:
    """Run ``servsim --help`` on a terminal and return what it printed."""
    master, slave = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR")}
    surroundings = {**inherited, "TERM": "xterm-256color", **environment}
    with subprocess.Popen([SERVSIM, "--help"], stdout=slave, stderr=slave, env=surroundings) as child:
        os.close(slave)
        text = b""
        # Linux reports an error when the other end of a terminal is closed.
        with contextlib.suppress(OSError):
            while chunk := os.read(master, 65536):
                text += chunk
        os.close(master)
        assert child.wait(timeout=60) == 0
    return text.decode()


def test_no_color_is_honoured() -> None:
    colour = re.compile(r"\x1b\[[\d;]*[349]\d")
    assert colour.search(_on_terminal())
    assert not colour.search(_on_terminal(NO_COLOR="1"))


def test_help_groups_the_commands_in_the_order_of_work() -> None:
    text = _run(SERVSIM, "--help").stdout
    wanted = ["─ Start here", "│ quickstart", "│ doctor", "─ Capture", "│ trace", "─ Report", "│ report"]
    places = [text.index(word) for word in wanted]
    assert places == sorted(places)
    assert "─ Commands ─" not in text, "a command stands in no group"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_given(shell: str) -> None:
    named = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = _run(SERVSIM, "--show-completion", shell, env=named)
    assert done.returncode == 0 and "servsim" in done.stdout


def test_an_output_that_is_a_pipe_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    cut = ("trace", "cut", SHIPPED, "-o", pipe, "--transactions", "0:1")
    export = ("trace", "export", SHIPPED, "-o", pipe, "--format", "text")
    for command in (cut, export):
        done = subprocess.run([SERVSIM, *map(str, command)], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2 and "something other than a file" in done.stderr, done.stderr
        assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]
