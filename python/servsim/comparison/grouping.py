"""Designs of a page: results that differ in nothing but their seeds are replications of one design.

A sweep keeps one file per run, so the replications of a design come in many files; side by side they
would look like as many designs that nobody can rank. Here they become one design with that many
replications. Designs of one machine's name are told apart by the settings in which they differ.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from servsim.result import Result, flat, number_at
from servsim.result_warnings import gathered

#: Parts of a result that replications of one design may differ in: the runs, and what is said of them.
_OF_RUNS = frozenset({"replications", "summary", "warnings", "host", "command"})

#: Options that say which replications were run, not what was run.
_WHICH_RUNS = frozenset({"seed", "replications"})

#: Settings that a name holds at most; designs that differ in more are numbered.
_MOST_SETTINGS = 3


def designs(results: Sequence[Result]) -> list[Result]:
    """Join results that are replications of one design, in the order in which designs first appear.

    Two results belong together when trace, machine, engine and options are the same but for the
    seeds. A seed that comes twice with the same figures is one replication; with other figures the
    results stay apart, because one of them was made by another program.

    Parameters
    ----------
    results : sequence of Result
        Results as read.

    Returns
    -------
    list of Result
        One per design; those of several results name them in ``parts``.
    """
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(_inputs(result), []).append(result)
    return [design for group in groups.values() for design in _joined(group)]


def _inputs(result: Result) -> str:
    """Return everything of a result that its replications share, as text."""
    inputs = {key: value for key, value in result.document.items() if key not in _OF_RUNS}
    if isinstance(inputs.get("options"), Mapping):
        inputs["options"] = {key: value for key, value in inputs["options"].items() if key not in _WHICH_RUNS}
    return json.dumps(inputs, sort_keys=True)


def _joined(group: Sequence[Result]) -> list[Result]:
    if len(group) == 1:
        return list(group)
    runs: dict[str, Mapping[str, Any]] = {}
    for number, result in enumerate(group):
        for index, replication in enumerate(result.replications):
            seed = replication.get("seed")
            capture = replication.get("capture")
            key = f"unknown {number} {index}" if seed is None else f"{capture} {seed}"
            if runs.setdefault(key, replication) != replication:
                return list(group)
    replications = sorted(runs.values(), key=lambda run: (number_at(run, "capture") or 0, number_at(run, "seed") or 0))
    first = group[0].document
    document = {
        **{key: value for key, value in first.items() if key not in _OF_RUNS},
        "warnings": [warning.to_dict() for warning in gathered(result.document for result in group)],
        "replications": replications,
    }
    options = first.get("options")
    if isinstance(options, Mapping):
        document["options"] = {
            **options,
            "seed": replications[0].get("seed"),
            "replications": len(replications) // max(1, len(group[0].captures)),
        }
    digest = hashlib.sha256("".join(result.digest for result in group).encode()).hexdigest()
    source = f"{group[0].source} and {len(group) - 1} more"
    return [Result(source, document, digest, tuple(group))]


def names(results: Sequence[Result]) -> dict[int, str]:
    """Name each design by its machine, told apart where two have the same; keys are ``id``s."""
    twins: dict[str, list[Result]] = {}
    for result in results:
        twins.setdefault(result.machine, []).append(result)
    return {
        id(result): name
        for machine, group in twins.items()
        for result, name in zip(group, told_apart(machine, [r.document for r in group]), strict=True)
    }


def told_apart(name: str, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Tell designs of one name apart: by settings and options in which they differ, or else by number.

    Examples
    --------
    >>> told_apart("smp", [{"machine": {"cache": {"size": s}}} for s in ("1 MiB", "2 MiB")])
    ['smp, cache.size=1 MiB', 'smp, cache.size=2 MiB']
    >>> told_apart("smp", [{}, {}])
    ['smp (1)', 'smp (2)']
    """
    if len(documents) == 1:
        return [name]
    trees = [dict(settings_of(document)) for document in documents]
    keys = [key for key in dict.fromkeys(k for tree in trees for k in tree) if len({t.get(key) for t in trees}) > 1]
    labels = [", ".join([name, *(f"{key}={tree.get(key, 'none')}" for key in keys)]) for tree in trees]
    if len(keys) <= _MOST_SETTINGS and len(set(labels)) == len(labels):
        return labels
    return [f"{name} ({number})" for number in range(1, len(documents) + 1)]


def settings_of(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the settings of the machine, the trace's name and the options, as a reader calls them."""
    machine, trace, options = (document.get(key) for key in ("machine", "trace", "options"))
    found = flat(machine) if isinstance(machine, Mapping) else []
    if isinstance(trace, Mapping):
        found.append(("trace", str(trace.get("name"))))
    if isinstance(options, Mapping):
        found += flat({key: value for key, value in options.items() if key not in _WHICH_RUNS})
    return found


#: What runs must have in common for their machines to be compared: wording, part of a result, key.
IN_COMMON = (
    ("trace", "trace", "hash"),
    ("number of transactions", "options", "transactions"),
    ("number of references", "options", "references"),
    ("warm-up", "options", "warmup"),
    ("functional warm-up", "options", "functional_warmup"),
    ("number of users", "options", "users"),
)


def like_runs(results: Sequence[Result]) -> list[list[Result]]:
    """Return results in groups of the same trace and options, within which machines can be compared."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(_in_common(result), []).append(result)
    return list(groups.values())


def different(results: Sequence[Result]) -> list[str]:
    """Return in what, other than the machine and the seeds, the runs of results differ."""
    values = zip(*map(_in_common, results), strict=True)
    found = [what for (what, _, _), of in zip(IN_COMMON, values, strict=True) if len(set(of)) > 1]
    return found + ["engine"] * (len({str(result.document.get("engine")) for result in results}) > 1)


def _in_common(result: Result) -> tuple[str, ...]:
    return tuple(str((result.document.get(part) or {}).get(key)) for _, part, key in IN_COMMON)
