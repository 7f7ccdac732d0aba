"""Simulate a trace on a machine that exists only as a description."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from servsim import _core
from servsim.cache import location
from servsim.documents import text_of
from servsim.errors import InternalBug, Interrupted, UsageError
from servsim.faults import kept
from servsim.hashes import file_hash, hashed_beside
from servsim.machines import machine_text
from servsim.result_warnings import ResultWarning, put, recorded
from servsim.run_options import RunOptions, refuse_impossible
from servsim.trace.files import captured_facts, trace_file

#: First bytes of a captured trace (FORMAT.md).
_TRACE_MAGIC = b"servsim\n"


def simulate(
    trace: str | Path,
    machine: str | Path,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    **options: Unpack[RunOptions],
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
    **options
        See `servsim.run_options.RunOptions`.

    Returns
    -------
    dict
        The result, schema ``servsim.simulate/1``; times in cycles of the simulated clock.

    Raises
    ------
    UsageError
        For a wrong description, trace or option: all faults of a description at once.
    Interrupted
        When it was interrupted after the first replication had ended; a `KeyboardInterrupt` that holds the result.

    Examples
    --------
    >>> simulate("trace.txt", "foglia-2004-4p", engine="functional")  # doctest: +SKIP
    """
    description = machine_text(machine)
    return simulate_text(trace, description, str(machine), format=format, overrides=overrides, **options)


def simulate_text(
    trace: str | Path,
    description: str,
    machine: str,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    **options: Unpack[RunOptions],
) -> dict[str, Any]:
    """Run a trace on a machine whose description is given as text; ``machine`` is its name in messages.

    The options, and what is returned and raised, are those of `simulate`.
    """
    path = trace_file(trace)
    refuse_impossible(options)
    given: dict[str, Any] = {**options}
    if given.get("functional_warmup") is not None:
        given["functional_warmup"] = str(given["functional_warmup"])
    for name in ("placement", "monitor"):
        if given.get(name) is not None:
            given[name] = _text_file(given[name])
    needed = _needs_hash(path, format, options)
    with hashed_beside(path, now=needed) as hashed:
        try:
            text = _core.simulate(
                path,
                description,
                machine_file=machine,
                trace_hash=hashed() if needed else "",
                findings=findings_folder(),
                format=format,
                overrides=overrides or [],
                **given,
            )
        except InternalBug as fault:
            raise kept(fault, description, path, hashed(), overrides or [], format, options) from fault
        result = _summarised(json.loads(text))
        result["trace"]["hash"] = hashed()
    _tell_origin(path, [result])
    if result.get("interrupted"):
        done, wanted = len(result["replications"]), options.get("replications", 1)
        text = f"interrupted: {done} of {wanted} replications had ended, and these are kept"
        put(result, [*recorded(result), ResultWarning("weak", "interrupted", text)])
        raise Interrupted(result)
    return result


def _needs_hash(path: Path, format: str | None, options: Mapping[str, Any]) -> bool:
    """Say whether a run looks something up by the hash of its trace, or has no core to spare for it meanwhile."""
    captured = format == "servsim" if format else path.suffix == ".svt"
    warm = ("functional_warmup", "save_checkpoint", "from_checkpoint")
    return captured or options.get("threads") == 1 or any(options.get(name) is not None for name in warm)


def _text_file(path: str | Path) -> tuple[str, str]:
    """Return a file's name and what it says."""
    return str(path), text_of(path, errors="replace")


def simulate_each(
    trace: str | Path,
    machine: str | Path,
    each: Mapping[str, Sequence[str]],
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    transactions: int | str | None = None,
    users: int | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run a trace on many machines in one pass over it, with the functional engine.

    The trace is read once; references that change nothing on any machine are recognised once for all.

    Parameters
    ----------
    trace, machine, format, overrides, transactions, users, seed, progress
        As for `simulate`; without ``transactions`` the whole trace runs.
    threads
        Host threads that the machines are shared out among; all cores without it.
    each
        Values by setting, such as ``{"cache.size": ["64 KiB", "128 KiB"], "protocol.name": ["mesi", "pscr"]}``;
        every combination is one machine.

    Returns
    -------
    dict
        Schema ``servsim.simulate.each/1``: ``variants``, the overrides of each machine, and ``results``,
        one document of schema ``servsim.simulate/1`` for each, the same as `simulate` gives.

    Raises
    ------
    UsageError
        As for `simulate`, and when ``each`` names no value.

    Examples
    --------
    >>> simulate_each("t.raw16", "foglia-2004-4p", {"cache.size": ["1 MiB", "2 MiB"]})  # doctest: +SKIP
    """
    path = trace_file(trace)
    refuse_impossible({"transactions": transactions, "users": users, "seed": seed, "threads": threads})
    if not each or not all(each.values()):
        raise UsageError("every setting to vary needs at least one value: KEY=VALUE,VALUE")
    description = machine_text(machine)
    variants = [
        [f"{key}={value}" for key, value in zip(each, values, strict=True)]
        for values in itertools.product(*each.values())
    ]
    text = _core.simulate_each(
        path,
        description,
        variants,
        machine_file=str(machine),
        trace_hash=file_hash(path),
        findings=findings_folder(),
        format=format,
        overrides=overrides or [],
        transactions=transactions,
        users=users,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    result: dict[str, Any] = json.loads(text)
    result["results"] = [_summarised(document) for document in result["results"]]
    _tell_origin(path, result["results"])
    return result


def _summarised(document: dict[str, Any]) -> dict[str, Any]:
    """Return what the simulator gave with its summary, which stands before the replications."""
    from servsim.replication import summary

    replications = document.pop("replications")
    return {**document, "summary": summary(replications), "replications": replications}


def _tell_origin(path: Path, documents: Sequence[dict[str, Any]]) -> None:
    """Say in results what a captured trace is a trace of, and warn if it is not whole."""
    info = trace_info(path)
    if info is None:
        return
    meta = info["meta"]
    for document in documents:
        if info["truncated"] is not None:
            put(document, [*recorded(document), ResultWarning("weak", "truncated", info["truncated"])])
        document["workload"] = {"name": meta["workload"], **meta.get("provenance", {})}


def trace_info(path: Path) -> dict[str, Any] | None:
    """Return what a captured trace says of itself, schema ``servsim.trace.info/1``; None for other formats."""
    if path.is_dir():
        return None
    with path.open("rb") as file:
        if file.read(len(_TRACE_MAGIC)) != _TRACE_MAGIC:
            return None
    return captured_facts(path)


def findings_folder() -> Path:
    """Return the folder of the cache for what first passes find of traces, made when there is something to keep."""
    return location() / "first-pass"
