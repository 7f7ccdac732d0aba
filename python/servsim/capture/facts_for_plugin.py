"""What the capture plug-in is told: one JSON file with addresses, member offsets and names."""

import bisect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.capture.btf import Btf
from servsim.capture.facts import lock_functions, parse_kallsyms
from servsim.capture.folder import Folder

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint

#: Kernel functions and variables that the plug-in hooks or reads. Those a kernel does not have are
#: left out; the plug-in names the ones it cannot do without.
SYMBOLS = frozenset(
    {
        *("__switch_to_asm", "try_to_wake_up", "wake_up_new_task"),
        *("irqentry_enter", "irqentry_exit", "common_interrupt"),
        *("entry_SYSCALL_64", "syscall_exit_to_user_mode"),
        *("blk_mq_start_request", "blk_mq_end_request"),
        *("_raw_spin_lock", "_raw_spin_lock_bh", "_raw_spin_lock_irq", "_raw_spin_lock_irqsave"),
        *("_raw_spin_unlock", "_raw_spin_unlock_bh", "_raw_spin_unlock_irq", "_raw_spin_unlock_irqrestore"),
        *("raw_spin_rq_lock_nested", "mutex_lock", "mutex_lock_interruptible", "mutex_lock_killable", "mutex_unlock"),
        *("down_read", "down_read_interruptible", "down_read_killable", "up_read"),
        *("down_write", "down_write_killable", "up_write", "rt_mutex_lock", "rt_mutex_unlock"),
        *("__per_cpu_start", "__per_cpu_offset", "pcpu_unit_size", "current_task"),
    }
)
#: Kernel functions that take a lock only if it is free; their returns tell whether they did.
TRYING = frozenset(
    {
        *("_raw_spin_trylock", "_raw_spin_trylock_bh", "raw_spin_rq_trylock"),
        *("mutex_trylock", "down_read_trylock", "down_write_trylock"),
    }
)
#: Handlers of the local interrupt controller, whatever this kernel has of them.
HANDLER_PREFIX = "sysvec_"
#: Structure members that the plug-in reads.
MEMBERS = (
    *("task_struct.__state", "task_struct.pid", "task_struct.tgid", "task_struct.comm", "task_struct.mm"),
    *("request.__sector", "request.__data_len", "request.cmd_flags", "request.q"),
    *("request_queue.disk", "gendisk.disk_name"),
)
#: Types of ``/proc/kallsyms`` (those of ``nm``): absolute, uninitialised, initialised, read-only data.
DATA_TYPES = frozenset("AaBbDdRrVv")
#: Longest name of a program that the kernel keeps (Linux ``TASK_COMM_LEN``).
_COMM = 15


def write_facts(
    checkpoint: "Checkpoint", folder: Folder, path: Path, trace: Path, summary: Path, meta: dict[str, Any]
) -> None:
    """Write the plug-in's facts file.

    Parameters
    ----------
    checkpoint
        The checkpoint that will be resumed.
    folder
        The workload, which may list functions of its server that lock.
    path
        The file to write.
    trace, summary
        Where the plug-in writes the trace and its report.
    meta
        What the trace says about itself: workload, provenance, transaction kinds, devices.
    """
    kallsyms = checkpoint.kallsyms.read_text()
    addresses = parse_kallsyms(kallsyms)
    wanted = {
        name: address
        for name, address in addresses.items()
        if name in SYMBOLS | TRYING or name.startswith(HANDLER_PREFIX)
    }
    locking = lock_functions(checkpoint, folder)
    facts = {
        "output": str(trace),
        "summary": str(summary),
        "meta": {**meta, "kernel_symbols": data_symbols(kallsyms)},
        "symbols": wanted,
        "offsets": member_offsets(checkpoint, MEMBERS),
        "sizes": sizes(kallsyms, TRYING),
        "programs": {Path(str(folder.server)).name[:_COMM]: locking} if locking else {},
    }
    path.write_text(json.dumps(facts))


def sizes(kallsyms: str, names: frozenset[str]) -> dict[str, int]:
    r"""Return the bytes of functions: as far as to the next symbol of code.

    Examples
    --------
    >>> sizes("ff10 T one\nff40 t two\nff20 D data\n", frozenset({"one"}))
    {'one': 48}
    """
    code = [(int(line[0], 16), line[2]) for line in map(str.split, kallsyms.splitlines()) if line[1] in "Tt"]
    addresses = sorted({address for address, _ in code})
    wanted = {name: bisect.bisect_right(addresses, address) for address, name in code if name in names}
    return {name: addresses[at] - addresses[at - 1] for name, at in wanted.items() if at < len(addresses)}


def data_symbols(kallsyms: str) -> str:
    """Return the lines of ``/proc/kallsyms`` that name the kernel's own data.

    Code is left out, and so are modules: a miss is asked for by the data it concerns, and these are
    a third of all symbols. Per-processor data have type ``A`` or small addresses and stay.
    """
    lines = (line.split() for line in kallsyms.splitlines())
    return "".join(f"{line[0]} {line[1]} {line[2]}\n" for line in lines if len(line) == 3 and line[1] in DATA_TYPES)


def member_offsets(checkpoint: "Checkpoint", members: tuple[str, ...]) -> dict[str, int]:
    """Return byte offsets of ``structure.member`` names that the kernel has."""
    types = Btf(checkpoint.btf.read_bytes())
    offsets = {}
    for name in members:
        try:
            offsets[name] = types.offset(*name.split(".", 1))
        except KeyError:
            continue
    return offsets
