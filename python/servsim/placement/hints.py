"""What to pad: lines whose bytes belong to different tasks. A card cannot see this, for it counts whole lines."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from servsim.classification import classify
from servsim.monitor.refine import bytes_of


def falsely_shared(
    trace: str | Path,
    machine: str | Path,
    resolved: Mapping[str, Any],
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    top: int = 8,
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the lines with most misses by false sharing, by the functional engine over the whole trace.

    Each processor has one cache there, the machine's second level if it has one: what others invalidate leaves it too.

    Parameters
    ----------
    trace, machine, format, overrides, progress
        As for `servsim.classification.classify`.
    resolved
        The machine with every setting, as results have it.
    top
        Most lines.

    Returns
    -------
    list of dict
        ``address``, ``data``, ``false_sharing`` (misses), ``tasks`` that use its words, and ``pad_bytes``, the size
        that keeps them apart.
    """
    own = [*(overrides or []), *_one_cache(resolved)]
    found = classify(trace, machine, by="line", sort="false", top=top, format=format, overrides=own, progress=progress)
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


def _one_cache(resolved: Mapping[str, Any]) -> list[str]:
    """Return the settings that leave one unified cache per processor."""
    second = resolved.get("l2")
    shape = second if isinstance(second, Mapping) and second.get("size", "none") != "none" else resolved["cache"]
    return [
        "cache.organisation=unified",
        "cache.replacement=lru",
        f"cache.size={shape['size']}",
        f"cache.associativity={shape['associativity']}",
        "l2.size=none",
        "l3.size=none",
    ]
