"""What every guest is made of, whatever its workload: Debian's release, packages, first programs.

Everything here goes into the hashes under which image and checkpoint are cached.
"""

import os
from pathlib import Path

from servsim.cache import checkout
from servsim.capture.store import file_digest
from servsim.errors import EnvironmentProblem

#: Debian release of the guest (kernel 6.1).
SUITE = "bookworm"
#: The recipe's files; all of them are hashed.
RECIPE_FILES = ("packages.txt", "initramfs-init", "init")


def recipe_dir() -> Path:
    """Return the folder of the recipe: ``capture/guest`` of the checkout this package runs from.

    Raises
    ------
    EnvironmentProblem
        When the package does not run from a checkout and ``SERVSIM_RECIPE`` names none.
    """
    given = os.environ.get("SERVSIM_RECIPE")
    path = Path(given) if given else checkout("capturing a workload") / "capture" / "guest"
    missing = [name for name in RECIPE_FILES if not (path / name).is_file()]
    if missing:
        raise EnvironmentProblem(
            f"the guest's recipe has no {missing[0]} in {path}: set SERVSIM_RECIPE to a folder that has it"
        )
    return path


def recipe_digests() -> dict[str, str]:
    """Return the hash of each of the recipe's files."""
    path = recipe_dir()
    return {name: file_digest(path / name) for name in RECIPE_FILES}


def packages() -> list[str]:
    """Return the packages the recipe names, sorted."""
    lines = (recipe_dir() / "packages.txt").read_text().splitlines()
    return sorted(line.strip() for line in lines if line.strip() and not line.startswith("#"))
