"""Descriptions from the command line: listed, shown, begun and checked, each as the simulator reads it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import servsim
from servsim import _core
from servsim.machines import changed, machine_text, resolve, shipped_machines
from servsim.machines.settings import settings
from servsim.machines.starter import starter

SERVSIM = Path(sys.executable).with_name("servsim")
WRONG = """name = "x"
processors = -4
clok = "1 GHz"
[cache]
associativity = 3
size = "2 mib"
"""


def _machine(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "machine", *words], capture_output=True, text=True, check=False)


def test_every_machine_that_ships_is_listed_and_shown() -> None:
    listed = json.loads(_machine("list", "--json").stdout)["machines"]
    assert set(listed) == set(shipped_machines())
    table = _machine("list").stdout.splitlines()
    assert len(table) == len(listed) + 1
    assert re.search(r"^graviton4-192c +192 +2800 MHz +64 KiB +2 MiB +36 MiB +moesi +network of 2 nodes$", table[-2])
    for name in listed:
        done = _machine("show", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{name}: {listed[name]['cores']} core")


def test_a_machine_is_shown_with_what_differs_from_the_defaults(tmp_path: Path) -> None:
    drawing = tmp_path / "m.svg"
    shown = _machine("show", "epyc-9124-cxl", "--set", "l2.size=2 MiB", "--picture", drawing)
    assert "  node 2: memory, 128 GiB, 405 cycles to read, 20 B a cycle\n" in shown.stdout
    assert "  4 groups of 4 cores: L3 16 MiB, 16 ways, exclusive\n" in shown.stdout
    assert re.search(r"^l2\.size +2 MiB +none *$", shown.stdout, re.MULTILINE)
    assert drawing.read_text().startswith("<svg") and str(drawing) in shown.stderr
    document = json.loads(_machine("show", "epyc-9124-cxl", "--json").stdout)
    assert document["machine"]["clock"] == "3700 MHz"
    assert {"key": "node.processors", "value": "16, 0", "default": "even"} in document["changed"]


@pytest.mark.parametrize("everything", [False, True])
def test_a_new_machine_is_that_of_the_defaults(everything: bool, tmp_path: Path) -> None:
    text = starter("mine", everything=everything)
    assert [(one.key, one.value) for one in changed(resolve(text, "mine", []))] == [("name", "mine")]
    # What stands behind a mark is what holds without it.
    whole = re.sub(r"^#(?=[a-z_0-9]+ = )", "", text, flags=re.MULTILINE)
    assert (whole != text) is everything
    assert resolve(whole, "mine", []) == resolve(text, "mine", [])
    said = set(re.findall(r"^([a-z_0-9]+) = ", whole, re.MULTILINE))
    assert not everything or said == {one.key.rpartition(".")[2] for one in settings()}
    assert max(map(len, text.splitlines())) <= 100
    made = _machine("new", tmp_path / "mine.toml", *["--all"] * everything)
    assert (made.returncode, (tmp_path / "mine.toml").read_text()) == (0, text)


def test_a_machine_begins_like_another_and_overwrites_none(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    assert _machine("new", out, "--like", "du-2001").returncode == 0
    assert out.read_text() == machine_text("du-2001")
    again = _machine("new", out)
    assert (again.returncode, out.read_text()) == (2, machine_text("du-2001"))
    assert "is there already" in again.stderr
    for words, told in (
        (("--like", "du-2002"), "did you mean 'du-2001'?"),
        (("--like", "du-2001", "--all"), "leave out"),
    ):
        done = _machine("new", tmp_path / "other.toml", *words)
        assert (done.returncode, (tmp_path / "other.toml").exists()) == (2, False)
        assert told in done.stderr


def test_a_name_that_no_text_holds_is_written_so_that_it_can_be_read(tmp_path: Path) -> None:
    for name in ('a"b', "a\\b", "a\x7fb", "\udcff"):
        read = resolve(starter(name), "new", [])["name"]
        assert read == {"a\x7fb": "a\\x7fb", "\udcff": "\\xff"}.get(name, name)


def test_all_faults_of_all_files_are_told_by_line(tmp_path: Path) -> None:
    wrong, right = tmp_path / "wrong.toml", tmp_path / "right.toml"
    wrong.write_text(WRONG)
    right.write_text("processors = 2\n")
    done = _machine("check", wrong, right)
    assert (done.returncode, done.stderr) == (1, "servsim: 4 faults in 2 descriptions\n")
    *faults, last = done.stdout.splitlines()
    assert [fault.removeprefix(f"{wrong}, line ")[:2] for fault in faults] == ["2:", "3:", "5:", "6:"]
    assert last == f"{right}: no faults"
    document = json.loads(_machine("check", wrong, right, "--json").stdout)
    assert document["faults"] == {str(wrong): faults, str(right): []}
    assert _machine("check", right, "--set", "processors=3").returncode == 0
    assert "--set processors=0" in _machine("check", right, "--set", "processors=0").stdout
    assert _machine("check", tmp_path / "none.toml").returncode == 2


def test_a_disk_model_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    disks = tmp_path / "disks.toml"
    disks.write_text('disk.count = 2\ndisk.model = "none.model"\n')
    done = _machine("check", disks)
    assert done.returncode == 1
    assert done.stdout.startswith(
        f"{disks}: disk.model: `none.model` is neither fixed, hp97560, hp335h nor a model file"
    )
    disks.write_text('disk.count = 2\ndisk.model = "hp97560"\n')
    assert _machine("check", disks).returncode == 0


def test_a_machine_is_read_whatever_the_functional_engine_would_refuse() -> None:
    elsewhere = servsim.Machine("foglia-2004-4p", {"clients.place": "elsewhere"})
    assert elsewhere["clients.place"] == "elsewhere"


def test_what_is_known_of_settings_is_what_the_simulator_reads() -> None:
    for one in settings():
        text = _core.explain(one.key)
        assert f"accepted: {one.accepted}\n" in text and f"meaning: {one.meaning}\n" in text
