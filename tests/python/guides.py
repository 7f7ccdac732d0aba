"""Guides whose commands are run: the text after a fence without a language is what its command prints."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from servsim.cli import run

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def _words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def check_guide(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> int:
    """Run a guide in the current folder; return how many outputs were compared."""
    printed, checked = "", 0
    for kind, text in FENCE.findall(path.read_text(encoding="utf-8")):
        if kind == "csv":
            Path("office.csv").write_text(text, encoding="utf-8")
        elif kind == "":
            capsys.readouterr()
            monkeypatch.setattr(sys, "argv", shlex.split(text))
            assert run() == 0, text
            printed = capsys.readouterr().out
        else:
            told = _words(printed)
            assert [line for line in _words(text) if line not in told] == [], printed
            checked += 1
    return checked
