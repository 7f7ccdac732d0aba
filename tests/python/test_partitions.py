"""Partitions from the command line and from Python; what they do to a machine, the guest of four nodes shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from servsim import _core, partitions
from servsim.cli.partition import app
from servsim.errors import EnvironmentProblem, UsageError
from typer.testing import CliRunner


def _asked(monkeypatch: pytest.MonkeyPatch, name: str, answer: Any) -> list[tuple[Any, ...]]:
    """Let the core answer so, and return the list of what it was asked."""
    asked: list[tuple[Any, ...]] = []

    def stand_in(*given: Any) -> Any:
        asked.append(given)
        return answer

    monkeypatch.setattr(_core, name, stand_in)
    return asked


def _run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout


@pytest.mark.parametrize("dry_run", [True, False])
def test_steps_are_shown_as_they_are_planned_or_done(monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    journal, flags = str(partitions.JOURNAL), ["--dry-run"] if dry_run else []
    asked = _asked(monkeypatch, "rset_partition_create", (["make a", "make b"], 0))
    assert _run("create", "web=2-3", "database=1", *flags) == (0, "make a\nmake b\n")
    assert asked == [({"web": [2, 3], "database": [1]}, journal, dry_run)]
    asked = _asked(monkeypatch, "rset_partition_move", (["write 2"], 3))
    told = json.loads(_run("move", "3", "--from", "web", "--to", "rest", "--json", *flags)[1])
    assert told == {"schema": "servsim.rset.steps/1", "done": not dry_run, "steps": ["write 2"], "pages_left": 3}
    assert asked == [(3, "web", "rest", journal, dry_run)]
    assert "3 pages could not be moved" in _run("move", "3", "--from", "web", "--to", "rest")[1]
    asked = _asked(monkeypatch, "rset_partition_adopt", (["write 4711"], 0))
    assert _run("adopt", "4711", "--into", "web", *flags) == (0, "write 4711\n")
    assert asked == [(4711, "web", journal, dry_run)]


def test_partitions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    web = {"set": {"processors": [8, 9, 10], "nodes": [2, 3]}, "processes": [7, 8], "processor_time_us": 2500000}
    _asked(monkeypatch, "rset_partitions", json.dumps({"web": web}))
    lines = _run("show")[1].splitlines()
    assert [line.split() for line in lines] == [
        ["partition", "processors", "nodes", "processes"],
        ["web", "8-10", "2-3", "2"],
    ]
    assert json.loads(_run("show", "--json")[1])["partitions"]["web"]["processes"] == [7, 8]
    _asked(monkeypatch, "rset_partitions", "{}")
    assert _run("show") == (0, "no partitions: all of this host is the rest\n")


def test_a_with_block_takes_everything_back_even_what_failed_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    undone = _asked(monkeypatch, "rset_partition_undo", [])
    _asked(monkeypatch, "rset_partition_create", (["make web"], 0))
    _asked(monkeypatch, "rset_partitions", "{}")
    with pytest.raises(KeyError), partitions.partitioned({"web": {1}}):
        raise KeyError
    assert len(undone) == 1

    def fail(*_: Any) -> None:
        raise EnvironmentProblem("cannot make web")

    monkeypatch.setattr(_core, "rset_partition_create", fail)
    with pytest.raises(EnvironmentProblem), partitions.partitioned({"web": {1}}):
        pass
    assert len(undone) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [(["create", "web"], "NAME=NODES"), (["create", "a=1", "a=2"], "twice"), (["create", "a=x"], "no list of nodes")],
)
def test_what_cannot_be_read_is_refused(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, UsageError) and said in str(done.exception)


@pytest.mark.parametrize("ask", [partitions.present, lambda: partitions.create({"a": [0]}, dry_run=True)])
def test_this_host_answers_or_says_why_not(ask: Callable[[], Any]) -> None:
    # Only looks: what is set apart on this host stays so.
    try:
        ask()
    except EnvironmentProblem as error:
        assert "cgroup" in str(error)
    except UsageError as error:
        assert "machine's first" in str(error)
