"""Where servsim keeps what it can make again: guest images, databases, checkpoints.

One folder, chosen in this module only: ``SERVSIM_CACHE`` if set, else ``.cache/servsim`` in the working copy
the package runs from; an installed package uses the user's cache folder (``XDG_CACHE_HOME``, or ``~/.cache``).
Removing it loses time, never results.
"""

import os
from pathlib import Path

from servsim.errors import EnvironmentProblem

__all__ = ["cache_dir", "checkout", "folder", "location", "repository"]


def repository() -> Path | None:
    """Return the working copy that contains this package, or None when it is installed elsewhere."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "Cargo.toml").is_file() and (parent / "python" / "servsim").is_dir():
            return parent
    return None


def checkout(purpose: str) -> Path:
    """Return the working copy, for a purpose that the installed package alone does not serve.

    Raises
    ------
    EnvironmentProblem
        When the package is installed elsewhere.
    """
    found = repository()
    if found is None:
        raise EnvironmentProblem(
            f"{purpose} needs a checkout of servsim, and this is an installed package: clone its repository, run "
            "`make build` there, and use .venv/bin/servsim of that folder"
        )
    return found


def location() -> Path:
    """Return the absolute path of the cache folder, which may not exist yet."""
    chosen = os.environ.get("SERVSIM_CACHE")
    if chosen:
        return Path(chosen).absolute()
    copy = repository()
    if copy is not None:
        return copy / ".cache" / "servsim"
    user = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored, by the specification of that variable.
    return (Path(user) if Path(user).is_absolute() else Path.home() / ".cache") / "servsim"


def cache_dir() -> Path:
    """Return the absolute path of the cache folder, creating it when missing."""
    return folder()


def folder(*parts: str) -> Path:
    """Return a folder inside the cache, creating it.

    Parameters
    ----------
    *parts
        Names below the cache folder, such as ``"workloads", "oltp"``.

    Raises
    ------
    EnvironmentProblem
        When it cannot be created.
    """
    path = location().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            f"the cache folder {path} cannot be made ({error.strerror}): set SERVSIM_CACHE to a folder you may write to"
        ) from error
    return path
