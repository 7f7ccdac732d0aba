"""A driver built before the server's shared memory was described is named, with what to do."""

from pathlib import Path

import pytest
from servsim.capture import record
from servsim.errors import EnvironmentProblem


def test_an_old_driver_is_no_internal_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"older than this servsim.*SERVSIM_OLTP.*capture again"):
        record._describe_shared_memory(tmp_path / "t.svt", None, {"orders": {"transactions": 1}})
