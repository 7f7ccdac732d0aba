"""What can be shown: one page of what was named, or a page for each result and each sweep of a folder."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from servsim.report.live import Live, stamp_of
from servsim.sweep.store import is_sweep


class Shelf:
    """Pages by name.

    Parameters
    ----------
    paths : sequence of Path
        Result files and folders of sweeps for one page; none for those of a folder, a page for each.
    folder : Path
        The folder that is looked through then, as often as somebody asks.

    Raises
    ------
    UsageError
        When one of ``paths`` is a folder, but not of a sweep.
    """

    def __init__(self, paths: Sequence[Path], folder: Path = Path()) -> None:
        self._one = Live(paths) if paths else None
        self._folder = folder
        self._known: dict[Path, Live] = {}
        self._lock = Lock()

    def pages(self) -> dict[str, Live]:
        """Return what there is, what changed last first; one page that has nothing where there is nothing."""
        if self._one is not None:
            return {"": self._one}
        with self._lock:
            found = {path: stamp for path in self._folder.iterdir() if (stamp := stamp_of(path)) is not None}
            self._known = {path: self._known.get(path) or Live([path]) for path in found if _may_be_one(path)}
            shown = [path for path, live in self._known.items() if is_sweep(path) or _is_result(live)]
            shown.sort(key=lambda path: (-found[path][0], path.name))
            return {path.name: self._known[path] for path in shown} or {"": Live([])}


def _may_be_one(path: Path) -> bool:
    return is_sweep(path) or (path.suffix == ".json" and path.is_file())


def _is_result(live: Live) -> bool:
    """Return whether a file is a result: a folder may hold JSON of any kind."""
    live.look()
    return live.has_result
