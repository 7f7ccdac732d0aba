"""Several captures of one workload, simulated as one design.

The result has the shape of any other, with all replications in a row: ``captures`` names the traces, and ``capture``
of each replication says which of them it ran. Captures are the level over which means are known, see
`servsim.statistics.nested`.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from servsim.errors import Interrupted, UsageError
from servsim.hashes import file_hash
from servsim.replication import joined
from servsim.result_warnings import FEW_REPLICATIONS, ResultWarning, put, recorded
from servsim.run_options import RunOptions
from servsim.simulation import simulate, trace_info
from servsim.trace.files import trace_file

#: Fewer captures than this leave the interval wide: its factor is 12.7 for two, 4.3 for three, 2.8 for five.
ENOUGH = 5

#: What captures of one workload may differ in beside seeds: how the server came to where the requests begin.
_OF_A_CAPTURE = frozenset({"checkpoint", "warm_up", "emulator"})

#: Options that belong to one trace.
_OF_ONE_TRACE = {"save_checkpoint": "--save-checkpoint", "from_checkpoint": "--from-checkpoint"}


def simulate_captures(
    traces: Sequence[Path],
    machine: str | Path,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    **options: Unpack[RunOptions],
) -> dict[str, Any]:
    """Run several captures of one workload on a machine, each with the same seeds.

    Parameters
    ----------
    traces
        Captured traces; one alone is what `servsim.simulation.simulate` runs.
    machine, format, overrides
        As for `servsim.simulation.simulate`.
    **options
        See `servsim.run_options.RunOptions`, for each capture; references of ``progress`` count over all captures.

    Returns
    -------
    dict
        A result, schema ``servsim.simulate/1``; in ``options``, ``replications`` is the number for each capture.

    Raises
    ------
    UsageError
        When the traces are not different captures of one workload, or an option belongs to one trace.
    Interrupted
        When it was interrupted after the first replication had ended; it holds the result so far.
    """
    if len(traces) == 1:
        return simulate(traces[0], machine, format=format, overrides=overrides, **options)
    given = [flag for name, flag in _OF_ONE_TRACE.items() if options.get(name) is not None]
    if given:
        raise UsageError(
            f"{' and '.join(given)} belong to one trace, and {len(traces)} were given: run them one by one"
        )
    whole = options.get("transactions") is not None and options.get("warmup") is not None
    # In one order whatever the command line's, so that designs are paired by capture.
    traces = sorted(traces, key=lambda trace: (trace.name, str(trace)))
    hashes = _check(traces, same_length=not whole)
    done: list[dict[str, Any]] = []
    before = seen = 0
    progress = options.get("progress")

    def told(references: int) -> None:
        nonlocal seen
        seen = references
        if progress is not None:
            progress(before + references)

    options["progress"] = told
    for trace in traces:
        seen = 0
        try:
            done.append(simulate(trace, machine, format=format, overrides=overrides, **options))
        except Interrupted as stop:
            raise Interrupted(_joined([*done, stop.result], traces, hashes)) from None
        except KeyboardInterrupt:
            if not done:
                raise
            raise Interrupted(_stopped(_joined(done, traces, hashes), len(done), len(traces))) from None
        before += seen
    return _joined(done, traces, hashes)


def _check(traces: Sequence[Path], *, same_length: bool) -> list[str]:
    """Refuse what are no different captures of one workload; return the hash of each."""
    hashes: dict[str, Path] = {}
    first: tuple[Path, dict[str, Any]] | None = None
    for trace in traces:
        info = trace_info(trace_file(trace))
        if info is None:
            raise UsageError(
                f"{trace} was not captured by servsim: several traces together are captures of one workload, as "
                "`servsim capture --captures N` makes them; run others one by one"
            )
        same = hashes.setdefault(file_hash(trace), trace)
        if same is not trace:
            raise UsageError(f"{same} and {trace} are the same capture, and a copy tells nothing new: leave one out")
        like = _likeness(info, same_length=same_length)
        first = first or (trace, like)
        unlike = [key for key in like | first[1] if like.get(key) != first[1].get(key)]
        if unlike:
            raise UsageError(
                f"{first[0]} and {trace} are no captures of one workload: they differ in "
                f"{', '.join(key.replace('_', ' ') for key in unlike)}; run them one by one"
            )
    return list(hashes)


def _likeness(info: dict[str, Any], *, same_length: bool) -> dict[str, Any]:
    """Return what captures of one workload have in common."""
    meta = info["meta"]
    provenance = meta.get("provenance")
    of_guest = provenance if isinstance(provenance, dict) else {}
    like = {key: value for key, value in of_guest.items() if not _is_of_a_capture(key)}
    settings = like.pop("settings", None)
    if isinstance(settings, dict):
        like |= {f"setting {key}": value for key, value in settings.items() if not _is_of_a_capture(key)}
    held = (info["totals"] or {}).get("transactions")
    # Which transactions are measured by default follows from how many there are.
    like |= {"transactions": held} if same_length else {}
    if not same_length:
        like.pop("transactions", None)
    return {"workload": meta["workload"], **like}


def _is_of_a_capture(key: str) -> bool:
    """Return whether captures of one workload may differ in it: whose requests and rows, or how a capture was made."""
    return key in _OF_A_CAPTURE or key == "seed" or key.endswith("_seed")


def _joined(documents: Sequence[dict[str, Any]], traces: Sequence[Path], hashes: Sequence[str]) -> dict[str, Any]:
    """Join the results of captures into one, whose summary is over captures."""
    used = list(zip(documents, traces, hashes, strict=False))
    if len(used) == 1:
        return dict(documents[0])
    for number, (document, _, _) in enumerate(used):
        for replication in document["replications"]:
            replication["capture"] = number
    result = joined(documents)
    names = [trace.name for _, trace, _ in used]
    digest = hashlib.sha256("".join(sha for _, _, sha in used).encode()).hexdigest()
    result["trace"] = {**documents[0]["trace"], "name": ", ".join(names), "hash": f"sha256:{digest}"}
    result["captures"] = [
        {"name": name, "hash": sha, "seed": (document.get("workload") or {}).get("seed")}
        for name, (document, _, sha) in zip(names, used, strict=True)
    ]
    # What one capture alone was told of itself, and what its number of replications says of an interval.
    result["options"] = {**documents[0]["options"]}
    result["workload"] = {k: v for k, v in (documents[0].get("workload") or {}).items() if k != "seed"}
    put(result, [*(w for w in recorded(result) if w.code != FEW_REPLICATIONS), *_few(len(used))])
    return result


def _few(captures: int) -> list[ResultWarning]:
    if captures >= ENOUGH:
        return []
    text = (
        f"only {captures} captures, so intervals are wide; {ENOUGH} or more narrow them (`servsim capture --captures`)"
    )
    return [ResultWarning("note", "few-captures", text)]


def _stopped(result: dict[str, Any], done: int, wanted: int) -> dict[str, Any]:
    text = f"interrupted: {done} of {wanted} captures had been run, and these are kept"
    put(result, [*recorded(result), ResultWarning("weak", "interrupted", text)])
    result["interrupted"] = True
    return result
