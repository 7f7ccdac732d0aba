"""Runs commands that write a file, and ends or fails each at every system call that changes a file.

Started with `crash_shim.c` preloaded; reads commands from a JSON file, prints what became of each. Every attempt is
a fork of this process, so that nothing is loaded again; the command runs in it as `servsim` runs it.
"""

import ctypes
import errno
import gc
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - what commands load, they find loaded
import pyarrow.parquet  # noqa: F401
from servsim import cli, disk, report, simulation, timeline  # noqa: F401
from servsim.disk import plots  # noqa: F401
from servsim.model import plots as _plots  # noqa: F401

#: The bytes that stand where the command writes to.
OLD = b"old"
#: No command here needs as many calls; a longer one would make the test slow.
MOST_CALLS = 80


def attempt(command: list[str], shim: ctypes.CDLL, number: int, fault: int, log: Path) -> int:
    """Run a command that ends or fails at the call with this number; return its exit code, -9 if killed."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            sink = os.open(log.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            sys.argv = ["servsim", *command]
            shim.shim_arm(number, fault, os.fsencode(log))
            code = cli.run()
            shim.shim_disarm()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def digest(path: Path) -> str | None:
    """Return what tells one content from another; None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def listing(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def run(name: str, command: list[str], target: Path, shim: ctypes.CDLL, folder: Path) -> dict[str, Any]:
    """Let one command meet every end."""
    log = folder / f"{name}.log"

    def once(number: int, fault: int) -> dict[str, Any]:
        log.unlink(missing_ok=True)
        target.write_bytes(OLD)
        code = attempt(command, shim, number, fault, log)
        return {
            "code": code,
            "content": digest(target),
            "names": listing(target.parent),
            "said": log.with_suffix(".out").read_text(errors="replace"),
        }

    whole = once(0, 0)
    calls = log.read_text().splitlines() if log.exists() else []
    if whole["code"] or len(calls) > MOST_CALLS:
        return {"whole": whole, "calls": calls, "killed": [], "full": [], "after": whole}
    numbers = range(1, len(calls) + 1)
    killed = [once(number, 0) for number in numbers]
    after = once(0, 0)
    full = [once(number, errno.ENOSPC) for number in numbers]
    return {"whole": whole, "calls": calls, "killed": killed, "full": full, "after": after}


def main() -> None:
    """Run all commands of the JSON file and print the outcome."""
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.shim_arm.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    job = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(job["folder"])
    built = cli.build()
    cli.build = lambda *words: built
    gc.freeze()  # else every fork copies what it collects
    gc.disable()
    found = {}
    for name, (command, target) in job["commands"].items():
        found[name] = run(name, command, Path(target), shim, folder)
    old = hashlib.sha256(OLD).hexdigest()
    Path(job["report"]).write_text(json.dumps({"old": old, "commands": found}))


if __name__ == "__main__":
    main()
