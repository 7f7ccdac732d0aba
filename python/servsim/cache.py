"""Where the project keeps what it downloads, builds and measures: one folder, nothing outside it."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the project's cache folder, creating it when missing.

    Returns
    -------
    Path
        ``$SERVSIM_CACHE`` when set, else ``.cache/servsim`` in the repository this package runs
        from, else ``.cache/servsim`` in the working directory; always absolute.
    """
    given = os.environ.get("SERVSIM_CACHE")
    if given:
        path = Path(given)
    else:
        repository = Path(__file__).resolve().parents[2]
        base = repository if (repository / "Cargo.toml").is_file() else Path.cwd()
        path = base / ".cache" / "servsim"
    path = path.absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path
