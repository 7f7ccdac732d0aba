"""The directory of a sweep: one folder per finished run, named by the hash of the run's inputs.

A folder appears under its name only when it is complete (written beside, then renamed), so whatever
is there after a kill is whole and is never run again. One process owns the directory at a time. Runs
of different builds are never mixed.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servsim.documents import read_json
from servsim.errors import UsageError
from servsim.files import atomic_write, publish_folder
from servsim.json_text import json_text
from servsim.sweep.job import Job, versions

SCHEMA = "servsim.sweep-directory/1"
MANIFEST = "sweep.json"
_JOURNAL = "journal.jsonl"


def is_sweep(folder: Path) -> bool:
    """Return whether a folder is that of a sweep."""
    return (folder / MANIFEST).is_file()


def finished(folder: Path) -> list[Path]:
    """Return the results of a sweep's runs, as far as they are made, in the order of its study."""
    order = {run: number for number, run in enumerate(_planned(folder))}
    return sorted(folder.glob("runs/*/result.json"), key=lambda path: (order.get(path.parent.name, len(order)), path))


def planned(folder: Path) -> int:
    """Return how many runs a sweep has, those that are made included; 0 where it has not begun to say."""
    return len(_planned(folder))


def _planned(folder: Path) -> list[str]:
    try:
        lines = (folder / _JOURNAL).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(run for line in lines if (run := _run_of(line)) is not None))


def _run_of(line: str) -> str | None:
    """Return the run that a line of a journal names; none for one that a kill cut off, or that is under way."""
    try:
        found = read_json(line)
    except ValueError:
        return None
    run = found.get("run") if isinstance(found, dict) else None
    return run if isinstance(run, str) else None


class Store:
    """A sweep's directory, opened by `opened`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def has(self, job: Job) -> bool:
        """Whether the run is finished."""
        return (self.runs / job.hash / "result.json").is_file()

    def read(self, job: Job) -> dict[str, Any]:
        """Return the result of a finished run."""
        document: dict[str, Any] = json.loads((self.runs / job.hash / "result.json").read_bytes())
        return document

    def note(self, event: str, job: Job) -> None:
        """Append a line to the journal: what was started and finished, in order."""
        line = json.dumps({"event": event, "run": job.hash}) + "\n"
        with (self.folder / _JOURNAL).open("a", encoding="utf-8") as file:
            file.write(line)

    def put(self, job: Job, result: str) -> None:
        """Keep a finished run."""
        part = self.runs / f".part-{job.hash}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for name, text in (("inputs.json", json_text(job.inputs)), ("result.json", f"{result}\n")):
            (part / name).write_text(text, encoding="utf-8")
        publish_folder(part, self.runs / job.hash)
        self.note("finished", job)

    def replace(self, name: str, text: str) -> Path:
        """Write a file of the directory whole or not at all."""
        path = self.folder / name
        atomic_write(path, text)
        return path


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Store]:
    """Open a sweep's directory for one process; make it when there is none.

    Raises
    ------
    UsageError
        When the folder holds something else, a sweep of another version or study, or another process
        works in it. Nothing is written then.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: choose a folder for the sweep with -o")
    manifest = folder / MANIFEST
    if manifest.is_file():
        _check(manifest, name)
    elif folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty and holds no sweep: choose another folder with -o")
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another process works on the sweep in {folder}: wait for it, or stop it") from None
        store = Store(folder)
        if not manifest.is_file():
            store.replace(MANIFEST, json_text({"schema": SCHEMA, "name": name, **versions()}))
        for part in store.runs.glob(".part-*"):
            shutil.rmtree(part)
        yield store


def _check(manifest: Path, name: str) -> None:
    try:
        found = read_json(manifest.read_bytes())
    except (ValueError, OSError) as error:
        raise UsageError(f"{manifest} cannot be read ({error}): choose another folder with -o") from None
    folder = manifest.parent
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        what = found.get("schema") if isinstance(found, dict) else None
        raise UsageError(
            f"{folder} holds a sweep of another version of servsim (schema {what!r}, not {SCHEMA!r}): nothing was "
            "changed; choose another folder with -o"
        )
    for key, mine in versions().items():
        if found.get(key) != mine:
            raise UsageError(
                f"{folder} holds a sweep made by another version of servsim ({key} {found.get(key)}, this is {mine}), "
                "whose figures must not be mixed with ours: nothing was changed; choose another folder with -o"
            )
    if found.get("name") != name:
        raise UsageError(
            f"{folder} holds the sweep of the study {found.get('name')!r}, not of {name!r}: choose another with -o"
        )
