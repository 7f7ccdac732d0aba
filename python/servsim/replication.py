"""The figures of one replication: all of them by dotted path, and those that a summary describes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from servsim.registry import unit
from servsim.result_warnings import FEW_REPLICATIONS, gathered, put, recorded
from servsim.statistics.intervals import LEAST, reported
from servsim.statistics.nested import unit_means

if TYPE_CHECKING:
    import pyarrow as pa

#: Lists of a replication that are no figures of the whole run.
APART = frozenset({"timeline", "windows", "activity", "tasks", "seed", "capture", "figures"})


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


def value(replication: Mapping[str, Any], path: str) -> float | None:
    """Return a figure of a replication: one that summaries describe, or any counter, modes added; None without it."""
    found = described(replication)
    if path in found:
        return found[path]
    raw = figures(replication)
    if path in raw:
        return raw[path]
    modes = [raw.get(f"{path}.{mode}") for mode in ("user", "kernel")]
    return None if modes[0] is None or modes[1] is None else modes[0] + modes[1]


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
    """Return the figures that the ``summary`` of a result describes, as the simulator computed them."""
    return {path: float(found) for path, found in (replication.get("figures") or {}).items()}


def summary(replications: Sequence[Mapping[str, Any]], also: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Summarise replications: mean, standard deviation, 95 % interval, n of each figure.

    Of several captures, n is their number, and the interval is over them; see `units`.
    ``also`` names further numbers of a replication; those that none records are left out.
    """
    every = [
        {path: known for path in also if (known := value(replication, path)) is not None} | described(replication)
        for replication in replications
    ]
    of = units(replications)
    names = dict.fromkeys(path for known in every for path in known)
    return {path: _entry(unit_means([known.get(path) for known in every], of)) for path in names}


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
    known = reported(values)
    return {"mean": known.mean, "standard_deviation": known.sd} | known.document()


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join results of one machine and trace that differ in their seeds into one result."""
    first = results[0]
    replications = [replication for result in results for replication in result["replications"]]
    options = {**first["options"], "replications": len(replications)}
    few = [w for w in recorded(first) if w.code == FEW_REPLICATIONS] if len(replications) < LEAST else []
    whole = {**first, "options": options, "replications": replications, "summary": summary(replications)}
    put(whole, [*gathered(results), *few])
    return whole
