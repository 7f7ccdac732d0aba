"""Layout of the control disk, the guest's ``/dev/vdb``: the only channel between host and guest.

Orders (host to guest, read after a resume) and result (guest to host, before power-off) are
those of the driver, ``servsim-oltp guest``: a JSON object in the first 4096 bytes, and at 1 MiB
an 8-byte little-endian length followed by JSON. Behind them, written once while booting by
``capture/guest/init``, three texts end at the first zero byte or at the next offset.
"""

import json
from pathlib import Path
from typing import Any

from servsim.capture.btf import btf_length
from servsim.errors import EnvironmentProblem

MIB = 1 << 20
#: Bytes of the orders' block.
ORDERS_SIZE = 4096
#: Where the result starts.
RESULT_OFFSET = 1 * MIB
#: Where ``/proc/kallsyms`` starts.
KALLSYMS_OFFSET = 4 * MIB
#: Where ``/sys/kernel/btf/vmlinux`` starts.
BTF_OFFSET = 20 * MIB
#: Where the server's ``/proc/PID/maps`` starts.
MAPS_OFFSET = 36 * MIB
#: Size of the disk; sparse, a few MiB are written.
SIZE = 40 * MIB


def create(path: Path, orders: dict[str, Any] | None = None) -> None:
    """Create a control disk with, possibly, orders in its first block."""
    text = json.dumps(orders).encode() if orders is not None else b""
    if len(text) >= ORDERS_SIZE:
        raise ValueError("orders do not fit the first block")
    with path.open("wb") as file:
        file.write(text)
        file.truncate(SIZE)


def read_result(path: Path) -> dict[str, Any]:
    """Return the driver's result.

    Raises
    ------
    EnvironmentProblem
        When the guest wrote none, or not JSON.
    """
    result = _document(path)
    if not isinstance(result, dict):
        raise EnvironmentProblem("the guest's driver left a result that is not a JSON object")
    return result


def read_warm_up(path: Path) -> dict[str, Any] | None:
    """Return the driver's report of a warm-up until the server settled, which lies there at the checkpoint."""
    report = _document(path)
    return report if isinstance(report, dict) else None


def _document(path: Path) -> Any:
    """Return the JSON value where the driver's result belongs; None when it is none."""
    with path.open("rb") as file:
        file.seek(RESULT_OFFSET)
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= KALLSYMS_OFFSET - RESULT_OFFSET - 8:
            raise EnvironmentProblem("the guest's driver left no result")
        try:
            return json.loads(file.read(length))
        except ValueError:
            return None


def read_facts(path: Path) -> dict[str, bytes]:
    """Return what the guest exported while booting: ``kallsyms``, ``btf``, and ``maps``, empty without a server.

    Raises
    ------
    EnvironmentProblem
        When one is missing.
    """
    places = {
        "kallsyms": (KALLSYMS_OFFSET, BTF_OFFSET),
        "btf": (BTF_OFFSET, MAPS_OFFSET),
        "maps": (MAPS_OFFSET, SIZE),
    }
    facts = {}
    with path.open("rb") as file:
        for name, (start, end) in places.items():
            file.seek(start)
            content = file.read(end - start)
            facts[name] = content[: btf_length(content)] if name == "btf" else content.partition(b"\0")[0]
            if not facts[name] and name != "maps":
                raise EnvironmentProblem(f"the guest exported no {name} while booting")
    return facts
