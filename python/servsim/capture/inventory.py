"""What of the guest is in the cache, and removing it."""

import json
from pathlib import Path
from typing import Any

from servsim.capture import store
from servsim.capture.emulator import find_emulator
from servsim.errors import EnvironmentProblem

#: Kinds of cached results, in the order in which one is made from the other.
KINDS = ("base", "image", "checkpoint")


def status() -> dict[str, Any]:
    """Return what is cached, and whether the emulator is usable.

    Returns
    -------
    dict
        ``schema``, ``cache`` (folder), ``emulator`` (``path``, ``version`` or ``problem``), and
        ``entries``: list of ``kind``, ``id``, ``path``, ``bytes`` (disk space) and ``settings``.
    """
    emulator: dict[str, str]
    try:
        found = find_emulator()
        emulator = {"path": str(found.path), "version": found.version}
    except EnvironmentProblem as error:
        emulator = {"problem": str(error)}
    entries = [_entry(kind, path) for kind in KINDS for path in _cached(kind)]
    return {
        "schema": "servsim.guest.status/1",
        "cache": str(store.guest_dir()),
        "emulator": emulator,
        "entries": entries,
    }


def clean(*, everything: bool) -> list[str]:
    """Remove cached checkpoints, images and left-over runs; with ``everything`` packages and logs too.

    Returns
    -------
    list of str
        The paths removed.

    Raises
    ------
    EnvironmentProblem
        When one of them is being built right now.
    """
    root = store.guest_dir()
    names = ("runs", "checkpoint", "image", "client", *(("base", "apt", "logs") if everything else ()))
    busy = [path for name in names for path in (root / name).glob("*.lock") if store.is_locked(path)]
    if busy:
        raise EnvironmentProblem(f"another process is building {busy[0].with_suffix('')}; wait for it or end it first")
    removed = []
    for name in names:
        if (root / name).is_dir():
            store.remove(root / name)
            removed.append(str(root / name))
    return removed


def _cached(kind: str) -> list[Path]:
    """Return the complete results of a kind, oldest first."""
    folder = store.guest_dir() / kind
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and not path.suffix]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def _entry(kind: str, path: Path) -> dict[str, Any]:
    manifest = path / "manifest.json"
    settings = json.loads(manifest.read_text()).get("settings") if manifest.is_file() else None
    size = sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
    return {"kind": kind, "id": path.name, "path": str(path), "bytes": size, "settings": settings}
