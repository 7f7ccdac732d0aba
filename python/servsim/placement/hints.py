"""What to pad: lines whose bytes belong to different tasks. A card cannot see this, for it counts whole lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from servsim.classification import classify
from servsim.units import bytes_of

#: What `classify` does not follow, and what shares nothing.
_BESIDE = ("prefetch.policy=none", "tlb.entries=0")


def falsely_shared(
    trace: str | Path,
    machine: str | Path,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    top: int = 8,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the lines with most misses by false sharing, by the functional engine over the whole trace.

    Parameters
    ----------
    trace, machine, format, overrides, progress
        As for `servsim.classification.classify`.
    top
        Most lines.

    Returns
    -------
    list of dict
        ``address``, ``data``, ``false_sharing`` (misses), ``tasks`` that use its words, and ``pad_bytes``, the size
        that keeps them apart.
    """
    own = [*(overrides or []), *_BESIDE]
    found = classify(
        trace,
        machine,
        by="line",
        sort="false",
        top=top,
        format=format,
        overrides=own,
        transactions="all",
        progress=progress,
    )
    size = bytes_of(found["machine"]["cache"]["line"])
    hints = []
    for row in found["rows"]:
        misses = sum(row["misses"]["false_sharing"].values())
        if not misses:
            continue
        tasks = dict.fromkeys(task for word in row.get("words") or [] for task in word["tasks"])
        data = row.get("symbol") or row.get("area") or ""
        hints.append(
            {
                "address": row["address"],
                "data": data,
                "false_sharing": misses,
                "tasks": list(tasks),
                "pad_bytes": size,
            }
        )
    return hints
