"""Which transactions of a trace a command took, in words."""

from typing import Any


def in_trace(window: dict[str, Any]) -> str:
    """Return which transactions of how many a window holds."""
    return f"transactions {window['first']:,} to {window['last']:,} of {window['of']:,} in the trace"


def taken(window: dict[str, Any] | None, done: str = "measured") -> list[str]:
    """Return what was ``done`` with which transactions or references, in one line; none where a trace marks none."""
    if not window:
        return []
    if "references" in window:
        return [f"{done}: {window['references']:,} references after {window['warmup_references']:,} of warm-up"]
    end = " and what follows the last" if window["to_the_end"] else ""
    why = ", its steady middle" if window["chosen_by"] == "trace" else ""
    return [f"{done}: {in_trace(window)}{end}{why}"]
