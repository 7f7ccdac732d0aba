"""Faults of the simulator, kept to be repeated: a machine's description, with what happened as comments."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servsim import __version__
from servsim.errors import InternalBug, ServsimError
from servsim.files import atomic_write

#: Options that change nothing of what happens.
_OF_THE_HOST = ("progress", "threads", "save_checkpoint")
#: Options whose names on the command line are other ones.
_NAMES = {"warmup": "warm-up", "functional_warmup": "functional-warm-up"}


def kept(
    fault: InternalBug,
    description: str,
    trace: str | Path,
    trace_hash: str,
    overrides: Sequence[str],
    format: str | None,
    options: Mapping[str, Any],
) -> InternalBug:
    """Write a description that repeats a fault of a run into the current folder.

    Returns
    -------
    InternalBug
        The fault, with the file and the command that repeats it.
    """
    name = f"servsim-fault-{hashlib.sha256(f'{fault}{description}'.encode()).hexdigest()[:8]}.toml"
    command = ["servsim", "simulate", str(trace), "--machine", name]
    for setting in overrides:
        command += ["--set", setting]
    for option, value in [("format", format), *options.items()]:
        if value is not None and option not in _OF_THE_HOST:
            command += [f"--{_NAMES.get(option, option).replace('_', '-')}", str(value)]
    happened = "\n".join(f"#   {line}" for line in str(fault).splitlines())
    text = (
        f"# A fault of servsim {__version__}. It happens again with this machine and a trace of {trace_hash}:\n"
        f"#   {shlex.join(command)}\n# What happened:\n{happened}\n\n{description}"
    )
    try:
        atomic_write(Path(name), text)
    except ServsimError as error:
        return InternalBug(f"{fault}\nthis is a bug in servsim; what repeats it could not be written here: {error}")
    first = str(fault).splitlines()[0]
    return InternalBug(
        f"{first}\nthis is a bug in servsim; please report {name}, which repeats it: {shlex.join(command)}"
    )
