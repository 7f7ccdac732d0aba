"""What lies in the server's shared memory: from distances in the driver's report to addresses in the trace."""

from typing import Any

import pytest
from servsim.capture.shared_memory import begin_of_shared_memory, lines
from servsim.errors import EnvironmentProblem

MAPS = """\
555555554000-555555609000 r--p 00000000 fe:00 45 /usr/lib/postgresql/15/bin/postgres
7fffec000000-7fffec001000 rw-s 00000000 00:01 9 /dev/zero (deleted)
7fffed000000-7ffff6000000 rw-s 00000000 00:01 8 /dev/zero (deleted)
7ffff6000000-7ffff6001000 rw-s 00000000 00:01 7 /SYSV0001 (deleted)
7ffff7000000-7ffffb000000 rw-p 00000000 00:00 0 /dev/zero (deleted)
"""


def report(size: int) -> dict[str, Any]:
    return {
        "block_bytes": 8192,
        "structures": [["LOCK hash", 128, 64], ["Buffer Blocks", 0x10000, size]],
        "relations": ["item", "stock (visibility map)"],
        "buffers": [[1, 2], [None, 1], [0, 1]],
    }


def test_the_largest_shared_anonymous_mapping_is_it() -> None:
    assert begin_of_shared_memory(MAPS) == 0x7FFFED000000
    with pytest.raises(EnvironmentProblem, match="rebuild the checkpoint"):
        begin_of_shared_memory(MAPS.replace("rw-s", "rw-p"))


def test_structures_and_runs_of_buffers_get_their_addresses() -> None:
    assert lines(report(5 * 8192), 0x100000).splitlines() == [
        "program postgres",
        "100080 40 LOCK hash",
        "1000c0 ff40 (after LOCK hash)",
        "110000 4000 stock (visibility map)",
        "114000 2000 (buffers of no known relation)",
        "116000 2000 item",
        "118000 2000 (unused buffers)",
    ]


def test_buffers_that_begin_at_a_multiple_leave_the_room_before_them_out() -> None:
    # The structure has room for the alignment; its own place is 0x100 behind such a multiple.
    found = lines(report(4 * 8192 + 4096), 0x100100).splitlines()
    assert found[3:6] == [
        "111000 4000 stock (visibility map)",
        "115000 2000 (buffers of no known relation)",
        "117000 2000 item",
    ]
