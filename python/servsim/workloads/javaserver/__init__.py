"""javaserver: a server of three tiers on OpenJDK, like SPECjbb: a terminal's thread for every warehouse.

The program is Java source in the workload's folder. It is compiled into the cache, once for each version of the
source and of the compiler, and makes its own data whenever it runs.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from servsim import cache
from servsim.capture.folder import shipped
from servsim.errors import EnvironmentProblem, InternalBug, UsageError
from servsim.workloads import driver
from servsim.workloads.base import Request

__all__ = ["PRESETS", "JavaServer", "canonical"]

#: Warehouses and items of the named scales. Alameldeen et al. 2003 run 24 warehouses, 500 MB in all.
PRESETS: dict[str, tuple[int, int]] = {"small": (4, 2000), "paper": (24, 20_000)}

#: The oldest Java that compiles the source.
OLDEST = 17
_INSTALL = "apt-get install openjdk-17-jdk-headless"
#: Bytes of heap for each item of each warehouse: two and a half times what stays alive.
_HEAP_OF_ITEM = 2500
_HEAP_LEAST = 128 << 20
_UNITS = {"k": 10, "m": 20, "g": 30}
#: Options of ``servsim workload run`` that have no meaning here, and what to give instead.
_OTHERS = {
    "--users": "every warehouse has one: give their number in --scale, such as 24x20000",
    "--seconds": "give --transactions, so that every run does the same",
}


def canonical(scale: str) -> tuple[int, int]:
    """Return warehouses and items of a named or written-out scale.

    Examples
    --------
    >>> canonical("paper")
    (24, 20000)
    >>> canonical("2x1000")
    (2, 1000)
    """
    if scale in PRESETS:
        return PRESETS[scale]
    found = re.fullmatch(r"([0-9]{1,4})x([0-9]{1,8})", scale)
    if found is None:
        raise UsageError(f"'{scale}' is no scale: give {', '.join(PRESETS)}, or WAREHOUSESxITEMS such as 8x20000")
    return int(found[1]), int(found[2])


class JavaServer:
    """The Java server."""

    summary = "OpenJDK, SPECjbb-like (not SPECjbb): three tiers in one process, about 20 MB alive per warehouse"

    def load(self, request: Request) -> None:
        """Compile the program; its data are made whenever it runs."""
        canonical(request.scale or "small")
        if request.options or request.settings or request.seed is not None:
            raise UsageError("javaserver makes its data when it runs: give its options to 'servsim workload run'")
        _compiled()

    def run(self, request: Request) -> None:
        """Run the server and report."""
        warehouses, items = canonical(request.scale or "small")
        for word in request.options:
            remedy = _OTHERS.get(word.partition("=")[0])
            if remedy is not None:
                raise UsageError(f"javaserver does not know {word.partition('=')[0]}: {remedy}")
        memory = _memory(request.settings, warehouses, items)
        mark = _mark()
        marks = ["--marks", str(mark)] if mark else []
        words = [
            *memory,
            "-cp",
            str(_compiled()),
            "Main",
            "--warehouses",
            str(warehouses),
            "--items",
            str(items),
            *marks,
        ]
        orders = {"--transactions": request.transactions, "--seed": request.seed}
        options = [word for name, value in orders.items() if value is not None for word in (name, str(value))]
        options += [part for word in request.options for part in word.split("=", 1)]
        as_json = ["--json"] if request.json else []
        driver.run(_program("java"), [*words, *options, *as_json], name="javaserver")

    def check(self, request: Request) -> None:
        """Refuse: nothing is left to check."""
        raise UsageError("javaserver checks its data at the end of every run: nothing is left to check afterwards")


def _mark() -> Path | None:
    """Return the library that executes the transaction mark, or None where it is not built: marks are only counted."""
    try:
        return driver.path("libservsim_java_mark.so")
    except EnvironmentProblem:
        return None


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise EnvironmentProblem(f"the program {name} is missing: {_INSTALL}")
    return Path(found)


def _memory(settings: Mapping[str, str], warehouses: int, items: int) -> list[str]:
    """Return the words that size the heap, and its young generation if that is set."""
    unknown = sorted(set(settings) - {"heap", "young"})
    if unknown:
        raise UsageError(f"javaserver has no setting {', '.join(unknown)}; there are heap and young, such as heap=2g")
    heap = _HEAP_LEAST + _HEAP_OF_ITEM * warehouses * items
    if "heap" in settings:
        heap = _bytes("heap", settings["heap"])
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if heap > there:
        raise EnvironmentProblem(
            f"the heap of {heap >> 20} MiB is more than this host's memory ({there >> 20} MiB): "
            "give a smaller --scale or --set heap=SIZE"
        )
    words = [f"-Xms{heap >> 10}k", f"-Xmx{heap >> 10}k"]
    if "young" in settings:
        words.append(f"-Xmn{_bytes('young', settings['young']) >> 10}k")
    return words


def _bytes(name: str, text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,8})([kmg])", text.lower())
    if found is None or (size := int(found[1]) << _UNITS[found[2]]) < 1 << 20:
        raise UsageError(
            f"--set {name}={text} is no size of at least 1 MiB: write a number and k, m or g, such as 512m"
        )
    return size


def _version(javac: Path) -> str:
    done = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
    text = (done.stdout + done.stderr).strip()
    found = re.search(r"javac (?:1\.)?([0-9]+)", text)
    if done.returncode != 0 or found is None or int(found[1]) < OLDEST:
        raise EnvironmentProblem(f"javaserver needs Java {OLDEST} or newer, and {javac} says '{text}': {_INSTALL}")
    return text


def _compiled() -> Path:
    """Return the folder of the compiled program, compiling it if that has not been done."""
    javac = _program("javac")
    version = _version(javac)
    sources = sorted((shipped("javaserver") / "java").glob("*.java"))
    known = hashlib.sha256(version.encode())
    for source in sources:
        known.update(source.name.encode() + b"\0" + source.read_bytes())
    classes = cache.folder("workloads", "javaserver") / known.hexdigest()[:16]
    if not classes.is_dir():
        _compile(javac, sources, classes)
    return classes


def _compile(javac: Path, sources: Sequence[Path], classes: Path) -> None:
    """Compile into a folder that gets its name when it is whole."""
    with tempfile.TemporaryDirectory(prefix=".compiling-", dir=classes.parent) as work:
        made = Path(work) / "classes"
        made.mkdir()
        done = subprocess.run([javac, "-d", made, *sources], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InternalBug(f"javac does not compile javaserver: {done.stderr.strip()[-500:]}")
        try:
            made.rename(classes)
        except OSError:
            # Somebody else was quicker; what they made is the same.
            if not classes.is_dir():
                raise
