"""Every test of the capture has a cache of its own, unless it is one that boots the real guest."""

import os
import shutil
from pathlib import Path

import pytest
from servsim.capture import Checkpoint, ensure_checkpoint
from servsim.capture.emulator import find_emulator
from servsim.capture.folder_settings import chosen
from servsim.errors import EnvironmentProblem

#: The guest of the tests: small, so that image and checkpoint take minutes, not tens of minutes.
SETTINGS = chosen("oltp", warehouses=20, users=8, memory_mib=512)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("guest") is None:
        monkeypatch.setenv("SERVSIM_CACHE", str(tmp_path / "cache"))


def obstacle() -> str | None:
    """Say why the guest cannot be built here."""
    if os.geteuid() != 0:
        return "building the guest's image needs root"
    if shutil.which("mmdebstrap") is None or shutil.which("cargo") is None:
        return "mmdebstrap or cargo is missing; run scripts/install-deps.sh"
    try:
        find_emulator()
    except EnvironmentProblem as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    """The small guest's checkpoint, made once and kept in the project's cache."""
    reason = obstacle()
    if reason is not None:
        pytest.skip(reason)
    return ensure_checkpoint(SETTINGS, print)
