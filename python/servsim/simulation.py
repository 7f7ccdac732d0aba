"""Simulate a trace on a machine that exists only as a description."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.errors import UsageError

#: First bytes of a captured trace (FORMAT.md).
_TRACE_MAGIC = b"servsim\n"


def machine_path(name: str) -> Path:
    """Find a machine description.

    Parameters
    ----------
    name
        Path of a TOML file, or the name of a shipped description such as ``foglia-2004-4p``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UsageError
        When there is no such file, with the names of the shipped ones.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = [folder for folder in _shipped_folders() if folder.is_dir()]
    for folder in shipped:
        candidate = folder / f"{name}.toml"
        if candidate.is_file():
            return candidate
    names = sorted(file.stem for folder in shipped for file in folder.glob("*.toml"))
    raise UsageError(f"there is no machine description {name!r}; shipped are {', '.join(names) or 'none'}")


def _shipped_folders() -> list[Path]:
    """Where shipped descriptions are: beside the package, or in a source checkout."""
    package = Path(__file__).parent
    return [package / "machines", package.parent.parent / "machines"]


def simulate(
    trace: str | Path,
    machine: str | Path,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    engine: str = "timing",
    transactions: int | None = None,
    warmup: int = 0,
    replications: int = 1,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run a trace on a machine.

    Parameters
    ----------
    trace
        A captured trace, or any importable file.
    machine
        Path or shipped name of a machine description.
    format
        Format of the trace when its extension does not say; see `servsim.trace.formats.READ`.
    overrides
        Settings that replace those of the description, each ``KEY=VALUE``.
    engine
        ``timing`` (tasks re-scheduled, cycles) or ``functional`` (order of the trace, exact counts).
    transactions
        Number of transactions to measure; the whole trace without it.
    warmup
        Transactions before the measurement.
    replications
        Runs with successive seeds.
    seed
        Seed of the first run; the same seed gives the same bytes.
    threads
        Host threads, one replication each; all cores without it.
    progress
        Called a few times a second with the number of references simulated so far.

    Returns
    -------
    dict
        The result, schema ``servsim.simulate/1``; times in cycles of the simulated clock.

    Raises
    ------
    UsageError
        For a wrong description, trace or option: all faults of a description at once.

    Examples
    --------
    >>> simulate("trace.txt", "foglia-2004-4p", engine="functional")  # doctest: +SKIP
    """
    path = Path(trace)
    if not path.exists():
        raise UsageError(f"there is no trace {str(trace)!r}")
    description = machine_path(str(machine))
    text = _core.simulate(
        path,
        description.read_text(encoding="utf-8", errors="replace"),
        machine_file=str(machine),
        trace_hash=_hash(path),
        format=format,
        overrides=overrides or [],
        engine=engine,
        transactions=transactions,
        warmup=warmup,
        replications=replications,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    result: dict[str, Any] = json.loads(text)
    damage = _truncated(path)
    if damage is not None:
        result["warnings"].append(damage)
    return result


def _truncated(path: Path) -> str | None:
    """Say that a captured trace is not whole; None for a whole one and for other formats."""
    if path.is_dir():
        return None
    with path.open("rb") as file:
        if file.read(len(_TRACE_MAGIC)) != _TRACE_MAGIC:
            return None
    damage: str | None = json.loads(_core.trace_info(path))["truncated"]
    return damage


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file as ``sha256:HEX``; of a directory, that of its files' names and hashes."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listing = "".join(f"{file.relative_to(path)} {_hash(file)}\n" for file in files)
        return "sha256:" + hashlib.sha256(listing.encode()).hexdigest()
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
