"""Where servsim keeps what it can make again: guest images, databases, checkpoints.

One folder, chosen in this module only: ``SERVSIM_CACHE`` if set, else ``.cache/servsim`` in the
working copy the package runs from, else in the current directory. Removing it loses time, never results.
"""

import os
from pathlib import Path

from servsim.errors import EnvironmentProblem

__all__ = ["cache_dir", "folder", "repository"]


def repository() -> Path | None:
    """Return the working copy that contains this package, or None when it is installed elsewhere."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "Cargo.toml").is_file() and (parent / "python" / "servsim").is_dir():
            return parent
    return None


def cache_dir() -> Path:
    """Return the absolute path of the cache folder, creating it when missing."""
    return folder()


def folder(*parts: str) -> Path:
    """Return a folder inside the cache, creating it.

    Parameters
    ----------
    *parts
        Names below the cache folder, such as ``"workloads", "oltp"``.
    """
    chosen = os.environ.get("SERVSIM_CACHE")
    base = Path(chosen) if chosen else (repository() or Path.cwd()) / ".cache" / "servsim"
    path = base.absolute().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"the cache folder {path} cannot be made ({error}); set SERVSIM_CACHE") from error
    return path
