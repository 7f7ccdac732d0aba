"""Networks written as TOML that people edit: times with units, one table per class, station, pool and fork."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from servsim.text import toml_string

if TYPE_CHECKING:
    from servsim.model.network import Network

#: Keys whose numbers are seconds, however deep they stand.
TIMES = ("think", "demand", "demands", "service", "holds", "borders")
#: Keys that need not be said when they have these values.
USUAL: dict[str, Any] = {
    "think": 0.0,
    "priority": 0,
    "servers": 1,
    "kind": "queue",
    "discipline": "ps",
    "visits": 1.0,
    "inside": None,
    "calls": 1.0,
}
BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def to_toml(network: Network) -> str:
    """Return a network as TOML.

    Parameters
    ----------
    network : Network
        The network; one that was read from TOML is returned as it stood, comments and all.

    Returns
    -------
    str
        A description that :meth:`servsim.model.Network.from_toml` reads.
    """
    text, is_json = network.source()
    if not is_json:
        return text
    described = json.loads(text)
    lines = [f"name = {_value(described['name'])}"]
    for kind in ("class", "station", "pool", "fork", "route"):
        for entry in described[kind]:
            lines += ["", f"[[{kind}]]"]
            lines += [f"{_key(k)} = {_stated(k, v)}" for k, v in entry.items() if k not in USUAL or USUAL[k] != v]
    return "\n".join(lines) + "\n"


def _stated(key: str, value: Any) -> str:
    if key == "rate":
        return _value(f"{_number(value)} /s")
    if key == "histogram":
        return _value({"borders": _seconds(value["borders"]), "counts": value["counts"]})
    return _value(_seconds(value) if key in TIMES else value)


def _seconds(value: Any) -> Any:
    """Write every number in it as a time."""
    if isinstance(value, Mapping):
        return {key: _seconds(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_seconds(inner) for inner in value]
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if value * scale >= 1.0 or unit == "ns":
            # Digits that only come from the change of unit are left out.
            return f"{value * scale:.12g} {unit}" if value else "0 s"
    raise AssertionError("the last unit takes everything")


def _number(value: float) -> str:
    return repr(value) if value != int(value) else str(int(value))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, float):
        return _number(value) if abs(value) < 1e15 else repr(value)
    return str(value)


def _key(name: str) -> str:
    return name if BARE.match(name) else _value(name)
