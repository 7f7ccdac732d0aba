"""Placement files that a program of this host cannot follow, and how their numbers are read."""

import subprocess
import sys
from pathlib import Path

import pytest
from servsim import rset
from servsim.placement.host import on_host


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("servsim")), "rset", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _refused(file: Path, text: str, *words: str) -> None:
    file.write_text(text)
    done = _run("run", "--placement", str(file), "--", "true")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    for sentence in words:
        assert sentence in done.stderr, done.stderr


def test_every_rule_that_this_host_cannot_follow_is_refused_by_name(tmp_path: Path) -> None:
    _refused(
        tmp_path / "p.toml",
        'policy = "fill"\n[[page]]\nstructure = "a"\nnode = 9999\n'
        '[[thread]]\ntask = "postgres 7"\nnode = 1\n[[thread]]\ntask = "postgres"\nnode = 1\n'
        '[[thread]]\ntask = "true 9"\nprocessor = 9999\n',
        "the first lines: policy `fill`",
        "page 1: there is no node 9999",
        "thread 2: task `postgres` is not true",
        "thread 3: there is no processor 9999",
        "thread: task `postgres` is not true",
    )
    _refused(tmp_path / "p.toml", "node = 77\n", "there is no node 77")


def test_what_is_wrong_on_any_host_is_found_as_the_simulator_does(tmp_path: Path) -> None:
    _refused(
        tmp_path / "p.toml",
        '[[page]]\nsite = "a+0x1"\n[[page]]\nstructure = "b"\noffset = "0x1000"\nnode = 1\n[[page]]\nnode = 1\n'
        'colour = "red"\n[[page]]\nsite = "a+0x2"\npolicy = "striped"\nstride = "wide"\n',
        "line 2: a rule without policy, node and nodes",
        "line 4: offset: `0x1000` is no range",
        "line 8: a rule for no pages",
        "line 8: unknown key `colour`",
        "line 11: stride: there is no wide",
    )
    _refused(tmp_path / "p.toml", 'threads = "pinned"\n', "write [threads]")
    _refused(tmp_path / "p.toml", "node = [")


def test_a_placement_goes_without_other_options_of_memory(tmp_path: Path) -> None:
    both = _run("run", "--placement", str(tmp_path / "p.toml"), "--policy", "local", "--", "true")
    assert both.returncode == 2 and "leave out the other options of memory" in both.stderr


@pytest.mark.parametrize("offset", ["0x1000..0x2000", "4096..8192", "4096 .. 0x2000"])
def test_an_offset_is_read_as_the_simulator_reads_it(offset: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f'[[page]]\nstructure = "grid"\noffset = "{offset}"\nnode = 1\n')
    (rule,) = on_host(file, "true", rset.machine()).rules
    assert (rule.start, rule.end) == (4096, 8192)
