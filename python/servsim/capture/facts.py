"""What a capture must know about the guest's kernel and server: addresses of symbols and functions.

From what the guest exported while booting: ``/proc/kallsyms`` (the kernel is not randomised, but
modules and allocations differ per boot), and the server's memory map.
"""

from typing import TYPE_CHECKING, Any

from servsim.capture.elf import dynamic_symbols
from servsim.capture.folder import Folder
from servsim.errors import EnvironmentProblem

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint


def parse_kallsyms(text: str) -> dict[str, int]:
    """Return symbol addresses from the text of ``/proc/kallsyms``.

    Of several symbols with one name (static functions) the first is taken.
    """
    addresses: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 3:
            addresses.setdefault(fields[2], int(fields[0], 16))
    return addresses


def lock_functions(checkpoint: "Checkpoint", folder: Folder) -> list[dict[str, Any]]:
    """Return where the server's functions that lock lie in every process of it: address, bytes, and what each does.

    Raises
    ------
    EnvironmentProblem
        When the server is not in its own memory map, or does not export a function that its folder lists.
    """
    if not folder.locks:
        return []
    base = _load_address(checkpoint.maps.read_text(), str(folder.server))
    exported = dynamic_symbols(checkpoint.image.server.read_bytes())
    missing = [name for name in folder.locks if name not in exported]
    if missing:
        raise EnvironmentProblem(f"{folder.server} in the guest does not export {', '.join(missing)}")
    found = ((*exported[name], does) for name, does in folder.locks.items())
    return [{"address": base + address, "bytes": size, "does": does} for address, size, does in found]


def _load_address(maps: str, server: str) -> int:
    """Return where the server's executable begins in memory."""
    for line in maps.splitlines():
        fields = line.split()
        if len(fields) == 6 and fields[5].endswith(server) and int(fields[2], 16) == 0:
            return int(fields[0].partition("-")[0], 16)
    raise EnvironmentProblem(f"the guest's memory map of its server does not show {server}; rebuild the checkpoint")
