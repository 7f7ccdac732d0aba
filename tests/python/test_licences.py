"""Licences of everything that is linked or installed, from what the packages themselves declare; works offline.

What is shipped or linked may be passed on under our own licences; what only tests need may also be under a licence that
asks for changes of its own files (MPL). Known vulnerabilities are another matter: `make acceptance` looks for those,
where a database of them is installed.
"""

import json
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Licences (SPDX) that let us pass on what is under them.
PERMISSIVE = frozenset(
    {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT", "MIT-CMU"}
    | {"PSF-2.0", "Unicode-3.0", "Unlicense", "Zlib", "bzip2-1.0.6"}
)
#: What only tests need, and is neither linked nor shipped.
FOR_TESTS = PERMISSIVE | {"MPL-2.0"}
#: How classifiers and free text name them.
NAMES = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def allows(expression: str, allowed: frozenset[str]) -> bool:
    """Return whether an SPDX expression can be met by allowed licences alone; an exception only adds permissions."""
    text = re.sub(r" WITH [\w.-]+", "", expression).replace("/", " OR ")
    words = re.findall(r"[()]|[\w.+-]+", text)
    terms = {"OR": "or", "AND": "and", "(": "(", ")": ")"}
    return bool(eval(" ".join(terms.get(word, str(word in allowed)) for word in words)))


def _crates() -> dict[str, str]:
    """Return the licence of every package of Cargo.lock that is built here and not ours."""
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = version.partition("host: ")[2].split()[0]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages = json.loads(done.stdout)["packages"]
    return {f"{p['name']} {p['version']}": p["license"] or "none" for p in packages if p["source"]}


def _licence(name: str) -> str:
    """Return what an installed Python package declares, as an SPDX expression."""
    facts = metadata.metadata(name)
    if declared := facts.get("License-Expression"):
        return str(declared)
    lines = [line.rpartition(" :: ")[2] for line in facts.get_all("Classifier") or [] if line.startswith("License")]
    told = [NAMES[line] for line in lines if line in NAMES]
    free = (facts.get("License") or "none").splitlines()[0]
    return " OR ".join(told) or NAMES.get(free, free)


def _needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the installed packages that one needs, with those of its extras, and all that these need."""
    found, waiting = set(), [(name, extras)]
    while waiting:
        package, extra = waiting.pop()
        for requirement in metadata.requires(package) or []:
            needed = re.match(r"[\w.-]+", requirement)
            assert needed is not None, requirement
            wanted = re.search(r"extra\s*==\s*['\"](\w+)", requirement)
            key = needed[0].lower().replace("_", "-")
            if (wanted is None or wanted[1] in extra) and key not in found:
                try:
                    metadata.distribution(key)
                except metadata.PackageNotFoundError:
                    continue  # for another platform or version of Python
                found.add(key)
                waiting.append((key, frozenset()))
    return found


def test_every_crate_is_under_a_licence_that_lets_us_pass_it_on() -> None:
    crates = _crates()
    assert len(crates) > 100
    assert {name: licence for name, licence in crates.items() if not allows(licence, PERMISSIVE)} == {}


def test_every_python_package_is_under_a_licence_that_lets_us_use_it() -> None:
    shipped = _needed("servsim", frozenset({"dask", "slurm"}))
    assert {"numpy", "scipy", "pyarrow", "typer", "click", "distributed"} <= shipped
    licences = {name: _licence(name) for name in shipped}
    assert {name: told for name, told in licences.items() if not allows(told, PERMISSIVE)} == {}
    licences = {name: _licence(name) for name in _needed("servsim", frozenset({"dev"}))}
    assert "hypothesis" in licences
    assert {name: told for name, told in licences.items() if not allows(told, FOR_TESTS)} == {}


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MIT/Apache-2.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("LGPL-2.1-or-later", False),
        ("MPL-2.0", False),
        ("none", False),
    ],
)
def test_expressions_are_understood(expression: str, allowed: bool) -> None:
    assert allows(expression, PERMISSIVE) is allowed
