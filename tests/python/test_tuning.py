"""The tuning ladder: steps add up in their order, rounds are paired, and wrong ladders are refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from servsim.capture import folder as folders
from servsim.capture.folder import Folder, Setting
from servsim.capture.folder_settings import FolderSettings
from servsim.errors import CheckFailed, UsageError
from servsim.reproduce import alameldeen_2003
from servsim.workloads import tuning

LADDER = """
[[step]]
name = "base"
what = "as it comes"
settings = { memory = 1 }
[[step]]
name = "memory"
what = "more memory"
published = 2.5
settings = { memory = 4 }
[[step]]
name = "users"
what = "more users"
settings = { users = 8 }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "made-up"
    path.mkdir()
    (path / "tuning.toml").write_text(LADDER)
    settings = {"memory": Setting("1", "Memory."), "users": Setting("2", "Users.")}
    return Folder(path, "made up", (), "client", ("one",), settings=settings)


def served(monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None) -> list[tuple[str, str, int]]:
    """Let runs be arithmetic: memory times users, times a host that is slower in every round."""
    made: list[tuple[str, str, int]] = []

    def measure(_: object, settings: FolderSettings, transactions: int, seed: int) -> dict[str, Any]:
        if len(made) == fails_at:
            raise CheckFailed("the server died")
        memory, users = (settings.values()[name] for name in ("memory", "users"))
        made.append((memory, users, seed))
        assert transactions == 40
        return {"transactions_per_second": int(memory) * int(users) * 10 / seed}

    monkeypatch.setattr(tuning.FolderWorkload, "measure", measure)
    return made


def test_each_step_changes_what_all_before_it_left(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    made = served(monkeypatch)
    document = tuning.run(folder, tuning.read(folder), 3, 40)
    assert made == [
        (memory, users, seed) for seed in (1, 2, 3) for memory, users in (("1", "2"), ("4", "2"), ("4", "8"))
    ]
    base, memory, users = document["steps"]
    assert base["ratio"] is None and base["transactions_per_second"]["runs"] == pytest.approx([20, 10, 20 / 3])
    # The host's drift is the same for both of a pair, so the interval of these ratios has no width.
    assert [memory["ratio"][key] for key in ("mean", "low", "high")] == pytest.approx([4, 4, 4])
    assert users["ratio"]["mean"] == pytest.approx(4) and users["ratio_to_first"]["mean"] == pytest.approx(16)
    assert (memory["published_ratio"], users["published_ratio"]) == (2.5, None)
    assert json.loads(tuning.kept("made-up").read_text()) == document
    lines = tuning.table(document).splitlines()
    assert "4.00 [4.00, 4.00]" in lines[2] and "2.5" in lines[2] and "16.00 [16.00, 16.00]" in lines[3]


def captured(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, warnings: tuple[dict[str, str], ...] = ()
) -> tuple[list[Path], list[Path]]:
    """Let captures of the ladder's steps be there, and simulations be arithmetic; return them, and those simulated."""
    made: list[Path] = []
    settings = {rung.name: rung.settings.described() for rung in tuning.read(folder)}
    traces = [folder.path / f"{name}.svt" for name in settings]
    for trace in traces:
        trace.touch()

    def facts(trace: Path) -> dict[str, Any]:
        return {"meta": {"provenance": {"settings": settings[trace.stem]}}}

    def simulate(trace: Path, machine: str, *, transactions: int | None, replications: int) -> dict[str, Any]:
        assert machine == "a-machine" and transactions is None
        made.append(trace)
        work = int(settings[trace.stem]["memory"]) * int(settings[trace.stem]["users"])
        runs = [{"cycles_per_transaction": 1e9 * (1 + seed) / work} for seed in range(replications)]
        return {"machine": {"clock": "1 GHz"}, "replications": runs, "warnings": list(warnings)}

    monkeypatch.setattr(tuning, "captured_facts", facts)
    monkeypatch.setattr(tuning, "simulate", simulate)
    return traces, made


def test_captures_of_the_steps_are_simulated_with_the_same_seeds(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, made = captured(folder, monkeypatch)
    document = tuning.run_simulated(tuning.read(folder), traces, "a-machine", 3)
    assert made == traces and document["where"] == "simulated on a-machine"
    base, memory, users = document["steps"]
    assert base["transactions_per_second"]["runs"] == pytest.approx([2, 1, 2 / 3])
    assert [memory["ratio"][key] for key in ("mean", "low", "high")] == pytest.approx([4, 4, 4])
    assert users["ratio_to_first"]["mean"] == pytest.approx(16)
    assert json.loads(tuning.kept("made-up", simulated=True).read_text()) == document
    assert not tuning.kept("made-up").exists(), "the native run is kept apart"
    assert "simulated on a-machine, n = 3 rounds of the middle half" in tuning.table(document)
    tuning.kept("oltp", simulated=True).write_text(json.dumps(document))
    parts = alameldeen_2003._a7().parts
    assert [part.what for part in parts[1:]] == [
        f"ours, simulated on a-machine: {name}" for name in ("memory", "users")
    ]
    assert parts[1].ours == "4.00 [4.00, 4.00]"


def test_what_is_no_capture_of_a_step_is_refused_and_nothing_is_kept(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, made = captured(folder, monkeypatch)
    rungs = tuning.read(folder)
    for given, told in (
        (traces[:2], "3 steps, each with a capture .* made-up --set memory=4 --set users=8 -o users.svt"),
        (
            [traces[1], *traces[1:]],
            "memory.svt was captured with memory=4, and the step 'base' has 1: .*--set memory=1",
        ),
        ([*traces[:2], Path("none.svt")], "no trace 'none.svt'"),
    ):
        with pytest.raises(UsageError, match=told):
            tuning.run_simulated(rungs, given, "a-machine")
    assert not made
    out_of_work = {"rank": "invalid", "code": "x", "text": "users have run out of work"}
    captured(folder, monkeypatch, (out_of_work,))
    with pytest.raises(CheckFailed, match=r"'base'.*invalid: users have run out of work"):
        tuning.run_simulated(rungs, traces, "a-machine")
    assert not tuning.kept("made-up", simulated=True).exists()


def test_a_run_that_fails_keeps_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    served(monkeypatch, fails_at=4)
    with pytest.raises(CheckFailed, match="the server died"):
        tuning.run(folder, tuning.read(folder), 3, 40)
    assert not tuning.kept("made-up").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('name = "users"', 'name = "memory"', "two steps have one name"),
        ("{ users = 8 }", "{ user = 8 }", "has no setting 'user'"),
        ("{ users = 8 }", "{}", "a step has name, what and settings"),
        ("published = 2.5", "published = 'much'", "must be a ratio above 0"),
        ("published = 2.5", "printed = 2.5", "a step has name, what and settings"),
        (LADDER, '[[step]]\nname = "base"\nwhat = "x"\nsettings = { memory = 1 }', "at least two tables"),
        (LADDER, "[[step", "tuning.toml: "),
    ],
)
def test_a_wrong_ladder_is_refused_by_what_is_wrong(folder: Folder, old: str, new: str, told: str) -> None:
    (folder.path / "tuning.toml").write_text(LADDER.replace(old, new))
    with pytest.raises(UsageError, match=told):
        tuning.read(folder)


def test_a_folder_without_a_ladder_says_so(folder: Folder) -> None:
    (folder.path / "tuning.toml").unlink()
    with pytest.raises(UsageError, match="made-up has no ladder"):
        tuning.read(folder)


def test_the_ladder_of_oltp_is_read() -> None:
    rungs = tuning.read(folders.find("oltp"))
    assert [rung.published for rung in rungs] == [None, 2.44, 1.81, 2.11, 1.29]
    assert rungs[-1].settings.values()["warehouses"] == "1000" and "wal_buffers=16MB" in rungs[-1].settings.of_server()


def test_measured_steps_stand_beside_the_printed_ones(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    row = alameldeen_2003._a7()
    assert row.verdict == "not measured" and len(row.parts) == 1 and "workload tune oltp" in row.explanation
    served(monkeypatch)
    document = tuning.run(folder, tuning.read(folder), 3, 40)
    tuning.kept("oltp").write_text(json.dumps(document))
    row = alameldeen_2003._a7()
    assert [part.ours for part in row.parts[1:]] == ["4.00 [4.00, 4.00]", "4.00 [4.00, 4.00]"]
    assert row.verdict == "not measured", "steps of another database on another machine are shown, not judged"
