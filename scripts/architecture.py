"""The layers of the workspace: which crate may depend on which.

One table serves the dependency-direction test (tests/python/test_architecture.py) and the map in
ARCHITECTURE.md (scripts/maps.py). A crate may depend on crates of lower layers only, so crates of
one layer never know one another.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: Layers from the bottom up: title, then its crates without the ``servsim-`` prefix.
LAYERS: tuple[tuple[str, frozenset[str]], ...] = (
    ("foundations", frozenset({"driver", "files", "units"})),
    ("data", frozenset({"trace", "config"})),
    ("core", frozenset({"core"})),
    ("parts", frozenset({"cpu", "mem", "os", "disk", "import"})),
    (
        "whole systems",
        frozenset({"machine", "java-mark", "kernels", "model", "web", "workload", "rset", "capture-plugin"}),
    ),
    ("bindings", frozenset({"py", "rset-c", "rset-preload"})),
)

#: Slow, obvious models that tests compare with; allowed as a dev-dependency only.
TEST_ONLY = frozenset({"oracle"})

#: Crates whose sources read no file, clock, environment variable or thread count.
PURE = frozenset({"core", "cpu", "mem", "os", "disk"})


def short(name: str) -> str:
    """Return a crate's name without the project's prefix."""
    return name.removeprefix("servsim-")


def layer_of(crate: str) -> int | None:
    """Return the layer of a crate (0 is the bottom), or None when no layer lists it."""
    return next((rank for rank, (_, crates) in enumerate(LAYERS) if short(crate) in crates), None)


def workspace() -> list[dict[str, Any]]:
    """Return the packages of the workspace as ``cargo metadata`` describes them, sorted by name."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return sorted(packages, key=lambda package: str(package["name"]))


def faults(packages: list[dict[str, Any]]) -> list[str]:
    """Return one sentence for each crate or dependency that breaks the direction of the layers."""
    found = []
    for package in packages:
        name = package["name"]
        if layer_of(name) is None and short(name) not in TEST_ONLY:
            found.append(f"{name} has no layer: add it to LAYERS in scripts/architecture.py")
            continue
        for dependency in package["dependencies"]:
            found += _fault(name, dependency["name"], dependency["kind"])
    return found


def _fault(user: str, used: str, kind: str | None) -> list[str]:
    if used == "pyo3" and short(user) != "py":
        return [f"{user} depends on pyo3; only servsim-py may"]
    if not used.startswith("servsim-") or kind == "dev":
        return []
    if short(used) in TEST_ONLY:
        return [f"{user} depends on {used}, which is for tests: make it a dev-dependency"]
    above, below = layer_of(user), layer_of(used)
    if above is not None and below is not None and below >= above:
        return [f"{user} depends on {used}, which is not in a lower layer"]
    return []
