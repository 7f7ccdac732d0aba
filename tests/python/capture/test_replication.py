"""Several captures from one checkpoint: the moments at which they begin."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from servsim.capture import workload
from servsim.capture.folder_settings import chosen


def test_a_capture_begins_later_than_the_one_before_by_transactions_of_every_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ordered: list[int] = []

    def record(
        _checkpoint: object, _folder: object, meta: dict[str, Any], *_: object, lead_in: int, **_more: object
    ) -> None:
        assert meta["provenance"]["lead_in"] == lead_in
        ordered.append(lead_in)

    image = SimpleNamespace(root=tmp_path)
    checkpoint = SimpleNamespace(directory=tmp_path, image=image, warm_up=lambda: None)
    monkeypatch.setattr(workload, "ensure_checkpoint", lambda *_: checkpoint)
    monkeypatch.setattr("servsim.capture.record.find_emulator", lambda: SimpleNamespace(version="1"))
    monkeypatch.setattr(workload.driver, "answer", lambda *_: "")
    monkeypatch.setattr(workload, "record", record)
    for moment in range(3):
        workload.capture(10, tmp_path / "t.svt", chosen("oltp", users=5), moment=moment)
    assert ordered == [5, 25, 45]
