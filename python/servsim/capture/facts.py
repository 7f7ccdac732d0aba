"""What a capture must know about the guest's kernel and server: addresses and member offsets.

From what the guest exported while booting: ``/proc/kallsyms`` (the kernel is not randomised, but
modules and allocations differ per boot), ``/sys/kernel/btf/vmlinux``, and the server's memory map.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from servsim.capture.btf import Btf
from servsim.capture.elf import dynamic_symbols
from servsim.errors import EnvironmentProblem

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint

#: Kernel symbols a capture hooks or reads, by purpose.
SYMBOLS = (
    # Tasks: switch, wake-up, birth, death.
    *("__switch_to_asm", "try_to_wake_up", "wake_up_new_task", "do_exit", "init_task"),
    # System calls.
    *("entry_SYSCALL_64",),
    # Block requests.
    *("submit_bio_noacct", "bio_endio", "blk_mq_start_request", "blk_mq_end_request", "blk_update_request"),
    # Locks.
    *(
        "_raw_spin_lock",
        "_raw_spin_lock_irq",
        "_raw_spin_lock_irqsave",
        "_raw_spin_lock_bh",
        "_raw_spin_trylock",
    ),
    *("_raw_spin_unlock", "_raw_spin_unlock_irq", "_raw_spin_unlock_irqrestore", "_raw_spin_unlock_bh"),
    *("mutex_lock", "mutex_unlock"),
    # Per-processor data.
    *("__per_cpu_start", "__per_cpu_end", "__per_cpu_offset", "__preempt_count", "current_task"),
)
#: Members of kernel structures a capture reads.
MEMBERS = (
    *("task_struct.__state", "task_struct.pid", "task_struct.tgid", "task_struct.comm"),
    *("task_struct.mm", "task_struct.flags", "mm_struct.pgd"),
    *("request.__sector", "request.__data_len", "request.cmd_flags", "request.part", "request.bio"),
    *("bio.bi_iter.bi_sector", "bio.bi_iter.bi_size", "bio.bi_opf", "bio.bi_bdev"),
    *("block_device.bd_dev",),
    *("pt_regs.ip", "pt_regs.cs", "pt_regs.ax", "pt_regs.orig_ax"),
)
#: Functions of the server a capture hooks.
SERVER_SYMBOLS = ("LWLockAcquire", "LWLockRelease", "LWLockConditionalAcquire", "LWLockAcquireOrWait")


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


def kernel_facts(
    checkpoint: "Checkpoint", symbols: Iterable[str] = SYMBOLS, members: Iterable[str] = MEMBERS
) -> dict[str, Any]:
    """Return addresses of kernel symbols and byte offsets of structure members.

    Parameters
    ----------
    checkpoint
        The checkpoint whose kernel is meant.
    symbols
        Names as in ``/proc/kallsyms``. Symbols of per-processor data are offsets into the area of
        a processor, whose address is in ``__per_cpu_offset``.
    members
        ``structure.member[.member]``.

    Returns
    -------
    dict
        ``symbols``: name to address; ``members``: name to offset in bytes.

    Raises
    ------
    EnvironmentProblem
        Naming everything the kernel does not have.
    """
    addresses = parse_kallsyms(checkpoint.kallsyms.read_text())
    found_symbols, found_members, missing = {}, {}, []
    for name in symbols:
        if name in addresses:
            found_symbols[name] = addresses[name]
        else:
            missing.append(name)
    types = Btf(checkpoint.btf.read_bytes())
    for name in members:
        try:
            found_members[name] = types.offset(*name.split(".", 1))
        except KeyError:
            missing.append(name)
    if missing:
        raise EnvironmentProblem(
            f"the guest's kernel has no {', '.join(missing)}; capture was made for Linux 6.1 of Debian 12"
        )
    return {"symbols": found_symbols, "members": found_members}


def server_facts(checkpoint: "Checkpoint", symbols: Iterable[str] = SERVER_SYMBOLS) -> dict[str, int]:
    """Return the addresses, in every server process, of functions PostgreSQL exports.

    Raises as `server_functions`.
    """
    return {name: address for name, (address, _) in server_functions(checkpoint, symbols).items()}


def server_functions(checkpoint: "Checkpoint", symbols: Iterable[str] = SERVER_SYMBOLS) -> dict[str, tuple[int, int]]:
    """Return where functions that PostgreSQL exports lie in every server process: address and bytes.

    Raises
    ------
    EnvironmentProblem
        When the server is not in its own memory map, or lacks a symbol.
    """
    base = _load_address(checkpoint.maps.read_text())
    exported = dynamic_symbols(checkpoint.image.server.read_bytes())
    wanted = list(symbols)
    missing = [name for name in wanted if name not in exported]
    if missing:
        raise EnvironmentProblem(f"the guest's PostgreSQL does not export {', '.join(missing)}")
    return {name: (base + exported[name][0], exported[name][1]) for name in wanted}


def _load_address(maps: str) -> int:
    """Return where the server's executable begins in memory."""
    for line in maps.splitlines():
        fields = line.split()
        if len(fields) == 6 and fields[5].endswith("/bin/postgres") and int(fields[2], 16) == 0:
            return int(fields[0].partition("-")[0], 16)
    raise EnvironmentProblem(
        "the guest's memory map of PostgreSQL does not show its executable; rebuild the checkpoint"
    )


def write_default_facts(checkpoint: "Checkpoint") -> None:
    """Write ``guest_symbols.json`` beside a checkpoint: the facts every capture needs."""
    facts = {
        "schema": "servsim.guest.facts/1",
        **kernel_facts(checkpoint),
        "server": server_facts(checkpoint) if checkpoint.image.server.is_file() else {},
    }
    (checkpoint.directory / "guest_symbols.json").write_text(json.dumps(facts, indent=2) + "\n")
