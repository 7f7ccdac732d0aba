"""The figures of one replication: all of them by dotted path, and those that a summary describes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from servsim import _core
from servsim.result_warnings import FEW_REPLICATIONS, gathered, put, recorded
from servsim.statistics.intervals import estimate
from servsim.statistics.nested import unit_means

if TYPE_CHECKING:
    import pyarrow as pa

#: Lists of a replication that are no figures of the whole run.
APART = frozenset({"timeline", "windows", "along", "tasks", "seed", "capture", "figures"})

#: Fewest replications, or captures, for which a summary gives an interval, as the simulator does.
LEAST = 3


def figures(replication: Mapping[str, Any]) -> dict[str, float]:
    """Return every number of a replication by dotted path, such as ``misses.cold.user``.

    Lists are numbered (``processors.0.idle``), transaction kinds go by their name; the timeline and
    the tasks are left out.
    """
    return {path: value for key, part in replication.items() if key not in APART for path, value in _numbers(key, part)}


def _numbers(path: str, part: object) -> Iterator[tuple[str, float]]:
    if isinstance(part, int | float):
        yield path, float(part)
    elif isinstance(part, Mapping):
        name = f"{path}.{part['kind']}" if "kind" in part else path
        for key, value in part.items():
            yield from _numbers(f"{name}.{key}", value)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for index, value in enumerate(part):
            named = isinstance(value, Mapping) and "kind" in value
            yield from _numbers(path if named else f"{path}.{index}", value)


@cache
def unit(path: str) -> str:
    """Return the unit of a figure by its path; counts have none but a word for what is counted."""
    registered = _core.figure(path)
    if registered is not None and " or " not in (known := str(json.loads(registered)["unit"])):
        return known
    if path == "cycles_per_transaction":
        return "cycles/transaction"
    if path.endswith("cycles") or path.startswith("processors."):
        return "cycles"
    if path == "gsp":
        return "processors"
    if "utilization" in path or path == "trace_exhausted":
        return "1"
    return "count"


def arrow(replications: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Return every figure of replications as a table: replication, seed, path, value, unit."""
    import pyarrow as pa

    rows = [
        (number, replication.get("seed"), path, value, unit(path))
        for number, replication in enumerate(replications)
        for path, value in figures(replication).items()
    ]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    types = {
        "replication": pa.int64(),
        "seed": pa.uint64(),
        "path": pa.string(),
        "value": pa.float64(),
        "unit": pa.string(),
    }
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    return pa.table(arrays, names=list(types))


def described(replication: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that the ``summary`` of a result describes, under the simulator's names."""
    if "figures" in replication:
        return {path: float(value) for path, value in replication["figures"].items()}
    return _of_before(replication)


def _of_before(replication: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a result that does not list them: of a version before they were recorded."""
    found: dict[str, float] = {}
    for name in ("references", "instructions"):
        found[name] = float(replication[name])
    misses = {kind: sum(modes.values()) for kind, modes in replication["misses"].items()}
    found["misses_per_reference"] = misses["total"] / max(1, replication["references"])
    found |= {f"misses.{kind}": float(count) for kind, count in misses.items() if kind != "total"}
    if "context_switch_misses" in replication:
        found["misses.context_switch"] = float(sum(replication["context_switch_misses"]["total"].values()))
    for kind, modes in (replication.get("removed") or {}).items():
        found[f"removed.{kind}"] = float(sum(modes.values()))
    coherence = {kind: sum(modes.values()) for kind, modes in replication["coherence"].items() if kind != "total"}
    found |= {f"coherence.{kind}": float(count) for kind, count in coherence.items()}
    found |= {f"bus.{op}": float(count) for op, count in replication["bus"].items() if op != "cache_to_cache"}
    found |= {f"prefetch.{name}": float(count) for name, count in (replication.get("prefetch") or {}).items()}
    buffers = replication.get("write_buffer") or {}
    found |= {f"write_buffer.{name}": float(count) for name, count in buffers.items() if name != "most_used"}
    if replication.get("tlb"):
        found |= _translation(replication)
    for name in ("cycles", "gsp", "bus_utilization", "cycles_per_transaction"):
        if replication.get(name) is not None:
            found[name] = float(replication[name])
    if replication.get("cycles_per_transaction"):
        found["transactions_per_million_cycles"] = replication["transactions"] * 1e6 / max(1, replication["cycles"])
    return found


def _translation(replication: Mapping[str, Any]) -> dict[str, float]:
    tlb = replication["tlb"]
    misses = sum(sum(tlb[f"{kind}_misses"].values()) for kind in ("fetch", "data"))
    found = {"tlb.misses_per_reference": misses / max(1, replication["references"])}
    found |= {f"tlb.{name}": float(sum(tlb[name].values())) for name in ("walks", "walk_references")}
    return found | ({"tlb.cycles": float(tlb["cycles"])} if "cycles" in tlb else {})


def summary(replications: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Summarise replications as the simulator does: mean, standard deviation, 95 % interval, n.

    Of several captures, n is their number, and the interval is over them; see `units`.
    """
    all_figures = [described(replication) for replication in replications]
    described_names = all_figures[0] if all_figures else {}
    of = units(replications)
    return {name: _entry(unit_means([f.get(name) for f in all_figures], of)) for name in described_names}


def units(replications: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return what each replication counts for: itself, or its capture where there are several.

    Examples
    --------
    >>> units([{"seed": 1}, {"seed": 2}]), units([{"capture": 0}, {"capture": 0}, {"capture": 1}])
    ([0, 1], [0, 0, 1])
    """
    captures = [replication.get("capture") for replication in replications]
    return [number if capture is None else int(capture) for number, capture in enumerate(captures)]


def _entry(values: list[float]) -> dict[str, Any]:
    known = estimate(values)
    interval = [known.low, known.high] if known.n >= LEAST else None
    return {"mean": known.mean, "standard_deviation": known.sd, "interval_95": interval, "n": known.n}


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join results of one machine and trace that differ in their seeds into one result."""
    first = results[0]
    replications = [replication for result in results for replication in result["replications"]]
    options = {**first["options"], "replications": len(replications)}
    few = [w for w in recorded(first) if w.code == FEW_REPLICATIONS] if len(replications) < LEAST else []
    whole = {**first, "options": options, "replications": replications, "summary": summary(replications)}
    put(whole, [*gathered(results), *few])
    return whole
