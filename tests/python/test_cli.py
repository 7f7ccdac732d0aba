"""The command line's frame: help, version, exit codes."""

import subprocess
import sys
from pathlib import Path

SERVSIM = Path(sys.executable).with_name("servsim")


def test_version_names_the_program_and_its_version() -> None:
    done = subprocess.run([SERVSIM, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout == "servsim 0.1.0\n"


def test_an_unknown_command_is_wrong_usage() -> None:
    done = subprocess.run([SERVSIM, "simulat"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
