"""The report as results come: the same page, made anew whenever a result is there or has changed."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from servsim.errors import ServsimError
from servsim.report import page, read, refuse_other_folders, render
from servsim.result import Result
from servsim.sweep.store import finished, is_sweep, planned

#: When a file was changed, in nanoseconds, and its bytes: what tells that it is another.
_Stamp = tuple[int, int]


@dataclass(frozen=True)
class State:
    """What there is to see.

    Attributes
    ----------
    version : str
        Another one whenever the page is another.
    said : str
        How far the work is: results, runs of sweeps, what is awaited, what cannot be read.
    page : str
        The report of the results that are there, a complete page.
    """

    version: str
    said: str
    page: str


class Live:
    """The report of result files and sweeps, which may still be made.

    Parameters
    ----------
    paths : sequence of Path
        Result files and folders of sweeps; those that are not there yet are waited for.

    Raises
    ------
    UsageError
        When one is a folder, but not of a sweep.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        for path in paths:
            refuse_other_folders(path)
        self._paths = list(paths)
        self._known: dict[Path, tuple[_Stamp, Result | ServsimError]] = {}
        self._state = State("", "", "")
        self._lock = Lock()

    def look(self) -> State:
        """Return what there is now. Only what has changed is read again; safe from several threads."""
        with self._lock:
            stamps = {path: stamp for path in self._files() if (stamp := stamp_of(path)) is not None}
            version = hashlib.sha256(repr(sorted(stamps.items())).encode()).hexdigest()[:16]
            shown = self._state.page if version == self._state.version else self._render(stamps)
            self._state = State(version, self._said(stamps), shown)
            return self._state

    @property
    def has_result(self) -> bool:
        """Whether there was a result when it was last looked."""
        return any(isinstance(found, Result) for _, found in self._known.values())

    def _files(self) -> list[Path]:
        """Return every result file that is there, or is named."""
        return [one for path in self._paths for one in (finished(path) if path.is_dir() else [path])]

    def _render(self, stamps: dict[Path, _Stamp]) -> str:
        self._known = {path: self._read(path, stamp) for path, stamp in stamps.items()}
        results = [found for _, found in self._known.values() if isinstance(found, Result)]
        if not results:
            return page("servsim report", "", "No result yet", [])
        try:
            return render(results)
        except ServsimError as refused:
            return page("servsim report", "", "These results make no page", [], [str(refused)])

    def _read(self, path: Path, stamp: _Stamp) -> tuple[_Stamp, Result | ServsimError]:
        if path in self._known and self._known[path][0] == stamp:
            return self._known[path]
        try:
            return stamp, read(path)
        except ServsimError as problem:
            return stamp, problem

    def _said(self, stamps: dict[Path, _Stamp]) -> str:
        """Return how far the work is, in a line."""
        said = []
        for path in self._paths:
            if is_sweep(path):
                done = sum(one.is_relative_to(path) for one in stamps)
                said.append(f"{path.name}: {done} of {max(done, planned(path))} runs")
            elif path not in stamps:
                said.append(f"waiting for {path}")
        said += [str(problem) for _, problem in self._known.values() if isinstance(problem, ServsimError)]
        if stamps:
            latest = time.localtime(max(changed for changed, _ in stamps.values()) / 1e9)
            said.append(f"as of {time.strftime('%H:%M:%S', latest)}")
        return " · ".join(said)


def stamp_of(path: Path) -> _Stamp | None:
    """Return when a file was changed and how large it is; none where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size)
