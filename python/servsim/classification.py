"""Which data miss, and why: misses and coherence transactions by class, and by whose data they concern."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.documents import text_of
from servsim.errors import UsageError
from servsim.hashes import file_hash
from servsim.limits import whole
from servsim.machines import machine_text
from servsim.simulation import findings_folder
from servsim.trace.files import trace_file

#: Why the classes differ from those of a timing run of the same trace on the same machine.
NO_MIGRATION = (
    "each task keeps to one processor here, unless the trace names another: passive sharing and migrated misses, "
    "which come from tasks that move, show in `servsim simulate`, whose scheduler moves them"
)


def classify(
    trace: str | Path,
    machine: str | Path,
    *,
    by: str | None = None,
    sort: str = "total",
    top: int = 20,
    watch: int | None = None,
    symbols: str | Path | None = None,
    format: str | None = None,
    overrides: list[str] | None = None,
    transactions: int | str | None = None,
    warmup: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Classify the misses and coherence transactions of a trace on a machine.

    The references run in the order of the trace, every bus transaction atomic (the functional
    engine), so the counts are exact and the same every time. Each task keeps to one processor unless the
    trace names another, so passive sharing, which is private data of tasks that move, is rare or absent;
    a timing run (`servsim.simulation.simulate`) moves tasks as the machine's scheduler does, and counts it.

    Parameters
    ----------
    trace
        A captured trace, or any importable file.
    machine
        Path or shipped name of a machine description.
    by
        Grouping of the rows: ``area`` (also ``structure``), ``symbol``, ``task``, ``kind``, ``line``
        or ``page``; without it ``area`` for captured traces and ``line`` for others.
    sort
        Order of the rows: ``total``, or a class: ``cold``, ``capacity``, ``conflict``, ``true``,
        ``false``, ``passive``, ``needless``.
    top
        Most rows; the others are added up.
    watch
        Address (bytes) whose line is watched instead: every transition of its copies.
    symbols
        Symbol table of the guest's kernel, as ``/proc/kallsyms`` or ``System.map``.
    format
        Format of the trace when its extension does not say: ``servsim``, ``text``, ``raw16``.
    overrides
        Settings that replace those of the description, each ``KEY=VALUE``.
    transactions, warmup
        Which transactions of the trace are classified, as for `servsim.simulate`, here in the order of the trace: the
        middle half without them, all of a trace that marks none. What is watched is watched from the beginning.
    progress
        Called a few times a second with the number of references simulated so far.

    Returns
    -------
    dict
        Schema ``servsim.classify/1``; all figures are counts.

    Raises
    ------
    UsageError
        For a wrong description, trace or option.
    """
    path = trace_file(trace)
    whole("top", top, 1)
    whole("warmup", warmup, 0)
    if watch is not None and (transactions is not None or warmup is not None):
        raise UsageError("an address is watched from the beginning of the trace: leave out transactions and warmup")
    if transactions != "all":
        whole("transactions", transactions, 1)
    table = text_of(symbols, errors="replace") if symbols is not None else None
    text = _core.classify(
        path,
        machine_text(machine),
        machine_file=str(machine),
        trace_hash=file_hash(path),
        findings=findings_folder(),
        format=format,
        overrides=overrides or [],
        by=by,
        order=sort,
        top=top,
        watch=watch,
        symbols=table,
        symbols_file=str(symbols),
        transactions=transactions,
        warmup=warmup,
        progress=progress,
    )
    result: dict[str, Any] = json.loads(text)
    return result
