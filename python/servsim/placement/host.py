"""What of a placement file a real program can follow: one policy for the memory that it allocates, and its processors.

The file is the one that the simulator takes. What names pages of a trace, of the kernel or of one moment's addresses is
refused, each with its reason: a program that runs elsewhere has no such pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.documents import read_toml
from servsim.errors import UsageError
from servsim.rset import Machine, ResourceSet

#: Areas of memory whose pages the malloc family allocates.
HEAP = ("heap and static data", "private mappings")
#: Policies of placement files, as the redirected malloc family has them.
_POLICIES = {"first-touch": "touch", "remote": "remote", "striped": "striped({stride})"}


@dataclass(frozen=True)
class OnHost:
    """A set of this host, and the policy of memory within it; the kernel's own without one."""

    resources: ResourceSet
    policy: str | None


def on_host(path: Path, program: str, here: Machine) -> OnHost:
    """Read a placement file for a program of this host.

    Parameters
    ----------
    path
        The file.
    program
        The program's path; tasks are known by its name.
    here
        The host; node 1 of the file is its first node.

    Raises
    ------
    UsageError
        With every line that cannot be followed.
    """
    try:
        document = read_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    reader = _Reader(path, Path(program).name, here)
    found = reader.read(document)
    if reader.faults:
        raise UsageError("\n".join(reader.faults))
    return found


class _Reader:
    """Collects what can be followed and why the rest cannot."""

    def __init__(self, path: Path, program: str, here: Machine) -> None:
        self.path, self.program, self.here = path, program, here
        self.faults: list[str] = []

    def fault(self, where: str, what: str) -> None:
        self.faults.append(f"{self.path}: {where}: {what}")

    def read(self, document: dict[str, Any]) -> OnHost:
        known = {"policy", "stride", "node", "nodes", "page", "threads", "thread"}
        for key in document.keys() - known:
            self.fault(key, "unknown; docs/placement.md lists what a placement file says")
        rules = []
        if document.keys() & {"policy", "node", "nodes"}:
            rules.append(self.rule("the first lines", document))
        # Of two rules for a page the narrower wins, and an area is narrower than all memory.
        areas = [self.page(number, page) for number, page in enumerate(self.tables(document, "page"), 1)]
        rules += [rule for rule in areas if rule is not None]
        of_areas = {rule for rule in areas if rule is not None}
        if len(of_areas) > 1:
            self.fault(
                "page", "rules for the heap and for private mappings differ, and malloc uses both: make them one"
            )
        nodes, policy = rules[-1] if rules else (None, None)
        return OnHost(ResourceSet(self.processors(document), nodes or self.here.inherited.nodes), policy)

    def tables(self, document: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
        tables = document.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.fault(key, f"write each as [[{key}]]")
            return []
        return tables

    def node(self, where: str, text: object) -> int | None:
        """Return the host's number of a node that the file counts from 1."""
        word = str(text)
        number = int(word) if word.isdecimal() and len(word) < 6 else 0
        if not 1 <= number <= len(self.here.nodes):
            self.fault(where, f"there is no node {word}; this host has 1 to {len(self.here.nodes)}")
            return None
        return self.here.nodes[number - 1].node

    def rule(self, where: str, table: dict[str, Any]) -> tuple[frozenset[int] | None, str | None]:
        """Return nodes and policy of a rule."""
        words = str(table.get("nodes", table.get("node", ""))).replace(",", " ").split()
        nodes = [self.node(where, word) for word in words]
        if nodes != sorted(nodes, key=lambda node: -1 if node is None else node):
            self.fault(where, "nodes in another order than the host's: name them in ascending order")
        policy = str(table.get("policy", "striped" if len(nodes) > 1 else ""))
        stride = str(table.get("stride", 1))
        if not policy:
            said = f"node({nodes[0]})" if nodes else None
        elif policy in _POLICIES:
            said = _POLICIES[policy].format(stride=stride)
        else:
            said = None
            self.fault(where, f"policy `{policy}`: a real program follows {', '.join(_POLICIES)}, or one node")
        return (frozenset(node for node in nodes if node is not None) or None, said)

    def page(self, number: int, table: dict[str, Any]) -> tuple[frozenset[int] | None, str | None] | None:
        """Return the rule of pages that malloc allocates; any other pages are refused."""
        where = f"page {number}"
        if table.get("area") in HEAP and not table.keys() & {"process", "addresses", "offset"}:
            return self.rule(where, table)
        why = {
            "relation": "where a relation lies is known of a captured database only",
            "structure": "where a data structure lies is known of a captured program only",
            "site": "allocations are redirected for the whole program, not by site",
            "symbol": "the kernel's own data cannot be placed from outside it",
            "area": f"only {' and '.join(HEAP)} are the program's own to place",
            "process": "the number of a process is that of the trace",
            "addresses": "addresses are those of the trace, and differ in every run",
        }
        key = next((key for key in why if key in table), None)
        what = f"`{key} = {table[key]}`: {why[key]}" if key else "a rule for no pages"
        self.fault(where, f"{what}; leave the rule out here")
        return None

    def processors(self, document: dict[str, Any]) -> frozenset[int]:
        """Return the processors that the program may use."""
        threads = document.get("threads")
        order = threads.get("order", "free") if isinstance(threads, dict) else "free"
        if order != "free":
            self.fault("threads", f"order `{order}`: threads of a program as it is are not dealt; leave it out here")
        held = self.here.inherited.processors
        for number, table in enumerate(self.tables(document, "thread"), 1):
            where, task = f"thread {number}", str(table.get("task", ""))
            if task != self.program:
                self.fault(where, f"task `{task}` is not {self.program}, the program to run; leave it out here")
            elif "processor" in table:
                word = str(table["processor"])
                held = frozenset({int(word)}) if word.isdecimal() and len(word) < 6 else frozenset()
            else:
                node = self.node(where, table.get("node"))
                held = held if node is None else self.here.node(node).processors
        return held
