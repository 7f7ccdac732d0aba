"""Every test of the capture has a cache of its own, unless it is one that boots the real guest."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("guest") is None:
        monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))
