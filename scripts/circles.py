"""Circles of imports between the source files of a crate.

A file that imports what another one defines depends on it; a re-export is followed to the file that defines the
item. What a file uses of the modules it lies in does not count: a folder's face declares what its files share and
lists them. Files that depend on one another in a circle can only be understood and changed together, so a circle holds
few files, and those lie in one folder (tests/python/test_architecture.py). Unit tests at the end of a file do not
count: they may use anything.
"""

import re
from collections.abc import Iterator
from pathlib import Path

#: Most files of a circle.
MOST_FILES = 3

Module = tuple[str, ...]


class Crate:
    """The modules of one crate, and what each file imports of the others."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.files = {_module(path.relative_to(source)): path for path in sorted(source.rglob("*.rs"))}
        self.code = {module: _shipped(path.read_text(encoding="utf-8")) for module, path in self.files.items()}
        self.exports = {module: self._exports(module) for module in self.files}

    def _exports(self, module: Module) -> dict[str, Module]:
        """Return the names that a module re-exports, with where each comes from."""
        found: dict[str, Module] = {}
        for text in re.findall(r"^pub(?:\([^)]*\))? use ([^;]+);", self.code[module], re.M):
            for path, name in _expanded(text):
                absolute = self._absolute(module, path)
                if absolute is not None:
                    found[name] = absolute
        return found

    def _absolute(self, module: Module, path: Module) -> Module | None:
        """Return a path from the root of the crate; None for one of another crate."""
        head, *rest = path
        if head == "crate":
            return tuple(rest)
        if head == "self":
            return (*module, *rest)
        base = module
        while path and path[0] == "super":
            base, path = base[:-1], path[1:]
        if head == "super":
            return (*base, *path)
        return (*module, *path) if (*module, head) in self.files else None

    def _defining(self, path: Module, depth: int = 0) -> Module | None:
        """Return the module whose file defines what a path from the root names."""
        module: Module = ()
        for index, name in enumerate(path):
            if (*module, name) in self.files:
                module = (*module, name)
            elif name in self.exports[module] and depth < len(self.files):
                return self._defining((*self.exports[module][name], *path[index + 1 :]), depth + 1)
            else:
                break
        return module if module in self.files else None

    def imports(self, module: Module) -> set[Module]:
        """Return the modules whose items the file of a module names."""
        code = self.code[module]
        paths = []
        modules: dict[str, Module] = {}
        for text in re.findall(r"\buse ([^;]+);", code):
            for path, name in _expanded(text):
                absolute = self._absolute(module, path)
                if absolute in self.files:
                    modules[name] = absolute
                elif absolute is not None:
                    paths.append(absolute)
        rest = re.sub(r"\b(?:pub(?:\([^)]*\))? )?use [^;]+;", "", code)
        for text in re.findall(r"\b[a-z_][a-z_0-9]*(?:::\w+)+", rest):
            head, *tail = text.split("::")
            base = (*modules[head],) if head in modules else self._absolute(module, (head,))
            if base is not None:
                paths.append((*base, *tail))
        found = {self._defining(path) for path in paths}
        return {other for other in found if other is not None and module[: len(other)] != other}

    def circles(self) -> list[list[Module]]:
        """Return every circle of imports (a strongly connected component of two files or more)."""
        return [circle for circle in _components({m: self.imports(m) for m in self.files}) if len(circle) > 1]

    def faults(self) -> list[str]:
        """Return one sentence for each circle that is too large or leaves its folder."""
        found = []
        for circle in self.circles():
            names = ", ".join(str(self.files[module].relative_to(self.source)) for module in sorted(circle))
            if len(circle) > MOST_FILES:
                found.append(f"{len(circle)} files import one another in a circle: {names}")
            elif len({self.files[module].parent for module in circle}) > 1:
                found.append(f"files of several folders import one another in a circle: {names}")
        return found


def _module(path: Path) -> Module:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib", "main"} else parts


def _shipped(text: str) -> str:
    """Return a source without its comments, its string literals and the unit tests at its end."""
    text = text.split("#[cfg(test)]\nmod ", maxsplit=1)[0]
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return re.sub(r"//.*", "", text)


def _expanded(text: str) -> Iterator[tuple[Module, str]]:
    """Yield each path of a use tree with the name it gets."""
    text = re.sub(r"\s+", " ", text).strip()
    head, brace, rest = text.partition("{")
    if not brace:
        path, _, name = text.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        if parts:
            yield parts, name.strip() or parts[-1]
        return
    for part in _split(rest.rstrip()[:-1]):
        yield from _expanded(head + part)


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield text[start:index].strip()
            start = index + 1
    if text[start:].strip():
        yield text[start:].strip()


def _components(edges: dict[Module, set[Module]]) -> list[list[Module]]:
    """Return the strongly connected components of a small graph: who reaches each other."""
    reach = {node: set(targets) for node, targets in edges.items()}
    for middle in edges:
        for targets in reach.values():
            if middle in targets:
                targets.update(reach[middle])
    left, found = list(edges), []
    while left:
        node = left[0]
        together = [other for other in left if other == node or (other in reach[node] and node in reach[other])]
        left = [other for other in left if other not in together]
        found.append(together)
    return found
