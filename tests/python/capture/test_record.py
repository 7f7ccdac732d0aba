"""A trace gets its name only when everything about its making was right."""

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servsim.capture import record as recording
from servsim.capture.folder import Folder
from servsim.errors import CheckFailed, EnvironmentProblem, ServsimError, UsageError
from waiting import wait_for

COUNTS = {f"{mode}_{what}": 10 for mode in ("user", "kernel") for what in ("instructions", "loads", "stores")}


def summary(**changes: Any) -> dict[str, Any]:
    """Return what the plug-in reports of a good run of three transactions."""
    good = {
        "error": None,
        "undeclared_kind": None,
        "stale_translations": 0,
        "checked_translations": 7,
        "recording_seconds": 2.0,
    }
    return {**good, "totals": {"transactions": 3, "counts": COUNTS}, **changes}


def attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any] | None, failure: Exception | None = None
) -> recording.Captured:
    """Record with an emulator that leaves this report, or fails."""

    def tell(_checkpoint: object, _folder: object, facts: Path, trace: Path, report_file: Path, _meta: object) -> None:
        facts.write_text(json.dumps({"trace": str(trace), "summary": str(report_file)}))

    def run(_checkpoint: object, _transactions: int, _seed: int, plugins: Any, *_: object, **more: Any) -> Any:
        told = json.loads(Path(dict(plugins[0].arguments)["facts"]).read_text())
        Path(told["trace"]).write_bytes(b"a new trace")
        Path(told["trace"] + ".partial").write_bytes(b"half")
        if report is not None:
            Path(told["summary"]).write_text(json.dumps(report))
        more["look"]()
        if failure is not None:
            raise failure
        driver = {"orders": {"transactions": 3}}
        return SimpleNamespace(result=driver, ready_s=1.0, elapsed_s=2.0, emulator_log=tmp_path / "emulator.log")

    monkeypatch.setattr(recording, "write_facts", tell)
    monkeypatch.setattr(recording, "resume", run)
    monkeypatch.setenv("SERVSIM_CAPTURE_PLUGIN", __file__)
    checkpoint: Any = None
    folder = Folder(Path("kv"), "a store", (), "kv", ("GET", "SET"))
    output = tmp_path / "folder" / "t.svt"
    output.parent.mkdir(exist_ok=True)
    output.write_bytes(b"the old trace")
    return recording.record(checkpoint, folder, {}, 3, 1, output)


def test_a_good_run_replaces_the_old_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = attempt(tmp_path, monkeypatch, summary())
    assert captured.trace.read_bytes() == b"a new trace"
    assert [path.name for path in captured.trace.parent.iterdir()] == ["t.svt"]
    document = captured.as_document()
    assert (document["data_references"], document["data_references_per_second"]) == (40, 20.0)


@pytest.mark.parametrize(
    ("report", "failure", "expected", "words"),
    [
        (summary(error="No space left on device"), None, EnvironmentProblem, "No space left"),
        # It is told while the guest runs, before the run fails for anything else.
        (
            summary(error="a kind", undeclared_kind=3),
            CheckFailed("later"),
            UsageError,
            r"of kind 3, .* declares 1 \(GET\), 2 \(SET\): add that kind to `transactions` there, or",
        ),
        (None, None, EnvironmentProblem, r"left no report; .*emulator\.log"),
        (summary(totals={"transactions": 2, "counts": COUNTS}), None, CheckFailed, "has 2 .* ran 3"),
        (summary(stale_translations=1), None, CheckFailed, "1 of 7 remembered address translations"),
        (summary(), CheckFailed("condition 3 is violated"), CheckFailed, "condition 3"),
        (summary(), KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_bad_run_leaves_the_old_trace_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    report: dict[str, Any] | None,
    failure: Exception | None,
    expected: type[ServsimError],
    words: str,
) -> None:
    with pytest.raises(expected, match=words):
        attempt(tmp_path, monkeypatch, report, failure)
    folder = tmp_path / "folder"
    assert [path.name for path in folder.iterdir()] == ["t.svt"]
    assert (folder / "t.svt").read_bytes() == b"the old trace"


def test_a_missing_plug_in_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVSIM_CAPTURE_PLUGIN", str(tmp_path / "none.so"))
    with pytest.raises(EnvironmentProblem, match=r"none\.so is missing; run `make build`"):
        recording.plugin_path()


def test_how_many_transactions_have_ended_is_told_with_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_PROGRESS_S", 0.001)
    count, told, heard = tmp_path / "summary.count", threading.Event(), list[tuple[str, float | None]]()

    def progress(line: str, fraction: float | None) -> None:
        heard.append((line, fraction))
        told.set()

    with recording._progress_of(count, 40, progress):
        assert not heard, "nothing is known before the plug-in has counted one"
        count.write_text("")  # seen while it is written
        count.write_text("30")
        assert told.wait(60)
        count.write_text("40")
        wait_for(lambda: heard[-1][1] is None)
    assert heard.count(("captured 40 transactions; the guest checks its data", None)) == 1
    assert heard[0] == ("capturing: 30 of 40 transactions", 0.75)
