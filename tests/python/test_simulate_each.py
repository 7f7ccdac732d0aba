"""Many machines in one pass: what each counts is what its own run counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.errors import UsageError
from servsim.simulation import simulate, simulate_each

SERVSIM = Path(sys.executable).with_name("servsim")

TRACE = "\n".join(
    f"{n % 3} {'ILS'[n % 5 % 3]} {0x4000 + (n * 7919 % 97) * 64 + (n % 3 << 16) * (n % 4 > 0):x}" for n in range(4000)
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.txt"
    path.write_text(TRACE + "\n")
    return path


def test_every_combination_is_the_result_of_its_own_run(trace: Path) -> None:
    each = {"cache.size": ["4 KiB", "16 KiB"], "protocol.name": ["mesi", "pscr"], "processors": ["2", "4"]}
    made = simulate_each(trace, "foglia-2004-4p", each)
    assert made["schema"] == "servsim.simulate.each/1"
    assert len(made["results"]) == len(made["variants"]) == 8
    for variant, result in zip(made["variants"], made["results"], strict=True):
        assert result == simulate(trace, "foglia-2004-4p", engine="functional", overrides=variant)
    assert made == simulate_each(trace, "foglia-2004-4p", each, threads=1), "on any number of threads"
    misses = [sum(sum(m.values()) for m in r["replications"][0]["misses"].values()) for r in made["results"]]
    assert len(set(misses)) > 2, "the machines differ"


def servsim(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_command_prints_one_line_per_machine(trace: Path) -> None:
    arguments = ["simulate", trace, "-m", "foglia-2004-4p", "--engine", "functional", "--each", "cache.size=4KiB,8KiB"]
    shown = servsim(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert [line.split()[0] for line in shown.stdout.splitlines()[-2:]] == ["4KiB", "8KiB"]
    assert len(json.loads(servsim(*arguments, "--json").stdout)["results"]) == 2


EACH = ("--each", "cache.size=4KiB", "--engine", "functional")


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--each", "cache.size=4KiB", "--engine", "timing"], "--engine functional only"),
        (
            [
                "--each",
                "cache.size=4KiB",
                "--engine",
                "functional",
                "--functional-warm-up",
                "2",
                "--save-checkpoint",
                "c",
            ],
            "leave out --functional-warm-up, --save-checkpoint",
        ),
        (
            [*EACH, "--from-checkpoint", "c"],
            "leave out --from-checkpoint",
        ),
        ([*EACH, "--users", "900"], "900"),
        (["--each", "cache.size", "--engine", "functional"], "write KEY=VALUE,VALUE"),
        (["--each", "cache.sizes=4KiB", "--engine", "functional"], "--each cache.sizes=4KiB: unknown key"),
    ],
)
def test_what_does_not_go_with_it_is_refused(trace: Path, extra: list[str], words: str) -> None:
    refused = servsim("simulate", trace, "-m", "foglia-2004-4p", *extra)
    assert refused.returncode == 2
    assert words in refused.stderr


def test_a_setting_without_values_is_refused(trace: Path) -> None:
    with pytest.raises(UsageError, match="KEY=VALUE"):
        simulate_each(trace, "foglia-2004-4p", {"cache.size": []})
