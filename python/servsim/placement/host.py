"""What of a placement file a real program can follow: policies of what it allocates and names, and its processors.

The file is the one that the simulator takes. What names pages of a trace, of the kernel or of one moment's addresses is
left out, and told with its reason: a program that runs elsewhere has no such pages.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.documents import read_toml, text_of
from servsim.errors import UsageError
from servsim.rset import Machine, ResourceSet, Rule, Threads, listed

#: Areas of memory whose pages the malloc family allocates.
HEAP = ("heap and static data", "private mappings")
#: Policies of placement files, as the redirected malloc family has them.
_POLICIES = {"first-touch": "touch", "remote": "remote", "striped": "striped({stride})"}


#: Keys of rules that a program as it is cannot follow, and why.
_OF_THE_TRACE = {
    "relation": "where a relation lies is known of a captured database only",
    "symbol": "the kernel's own data cannot be placed from outside it",
    "area": f"only {' and '.join(HEAP)} are the program's own to place",
    "process": "the number of a process is that of the trace",
    "addresses": "addresses are those of the trace, and differ in every run",
}


@dataclass(frozen=True)
class OnHost:
    """What a program of this host follows.

    Attributes
    ----------
    resources
        Its set.
    policy
        Policy of memory without a rule, within the set; the kernel's own without one.
    rules
        Rules by allocation site and by the name of a mapping.
    threads
        Processors of its threads, by the order in which they begin.
    left_out
        Why rules were left out, and how many for each reason.
    """

    resources: ResourceSet
    policy: str | None
    rules: Sequence[Rule] = ()
    threads: Threads | None = None
    left_out: Counter[str] = field(default_factory=Counter)


def on_host(path: Path, program: str, here: Machine, processors: frozenset[int] | None = None) -> OnHost:
    """Read a placement file for a program of this host.

    Parameters
    ----------
    path
        The file.
    program
        The program's path; tasks are known by its name.
    here
        The host; node 1 of the file is its first node.
    processors
        Those to use; the file's processor 0 is the first of them. All that were inherited without.

    Raises
    ------
    UsageError
        With every line that is wrong, and when nothing can be followed.
    """
    text = text_of(path)
    try:
        document = read_toml(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    _core.placement_check(text, str(path))
    held = here.inherited.processors if processors is None else processors
    reader = _Reader(path, Path(program).name, here, held)
    found = reader.read(document)
    if reader.faults:
        raise UsageError("\n".join(reader.faults))
    unused = found.policy is None and found.threads is None and found.resources.processors == held
    if unused and not found.rules and found.left_out:
        why = "; ".join(sorted(found.left_out))
        raise UsageError(f"{path}: a program as it is can follow nothing of it: {why}")
    return found


def _address(word: str) -> int:
    return int(word, 16 if word.startswith("0x") else 10)


class _Reader:
    """Collects what can be followed and why the rest cannot, of a file without faults."""

    def __init__(self, path: Path, program: str, here: Machine, processors: frozenset[int]) -> None:
        self.path, self.program, self.here, self.held = path, program, here, processors
        self.faults: list[str] = []
        self.left_out: Counter[str] = Counter()

    def fault(self, where: str, what: str) -> None:
        self.faults.append(f"{self.path}: {where}: {what}")

    def read(self, document: dict[str, Any]) -> OnHost:
        general = []
        if document.keys() & {"policy", "node", "nodes"}:
            general.append(self.rule("the first lines", document))
        narrow = []
        of_areas = set()
        for number, page in enumerate(document.get("page", []), 1):
            where = f"page {number}"
            if page.keys() & {"site", "structure"}:
                narrow.append(self.named(where, page))
            elif page.get("area") in HEAP and not page.keys() & {"process", "addresses", "offset"}:
                of_areas.add(self.rule(where, page))
            else:
                self.leave_out(page)
        if len(of_areas) > 1:
            self.fault(
                "page", "rules for the heap and for private mappings differ, and malloc uses both: make them one"
            )
        # Of two rules for a page the narrower wins, and an area is narrower than all memory.
        nodes, policy = [*general, *of_areas][-1] if general or of_areas else (None, None)
        processors, threads = self.processors(document)
        resources = ResourceSet(processors, nodes or self.here.inherited.nodes)
        return OnHost(resources, policy, [rule for rule in narrow if rule], threads, self.left_out)

    def leave_out(self, table: dict[str, Any]) -> None:
        """Note why a rule is left out."""
        key = next(key for key in _OF_THE_TRACE if key in table)
        what = f" of {table[key]!r}" if key == "area" else ""
        self.left_out[f"`{key}`{what}: {_OF_THE_TRACE[key]}"] += 1

    def named(self, where: str, table: dict[str, Any]) -> Rule | None:
        """Return the rule of a site or structure."""
        key = "site" if "site" in table else "structure"
        nodes, policy = self.rule(where, table)
        start = end = None
        if "offset" in table:
            start, end = (_address(word.strip()) for word in str(table["offset"]).split(".."))
        if policy is None:
            return None
        return Rule(key, str(table[key]), policy, listed(nodes) if nodes else None, start, end)

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

    def processors(self, document: dict[str, Any]) -> tuple[frozenset[int], Threads | None]:
        """Return the processors that the program may use, and those of its threads."""
        order = document.get("threads", {}).get("order", "free")
        tasks = document.get("thread", [])
        single = {}
        for number, entry in enumerate(tasks, 1):
            task = str(entry.get("task", ""))
            name, _, of = task.rpartition(" ")
            where = f"thread {number}"
            if task == self.program:
                return self.place(where, entry), None
            if not name or not of.isdecimal():
                self.fault(where, f"task `{task}` is not {self.program}, the program to run; leave it out here")
            else:
                single[int(of)] = (name, self.place(where, entry))
        if single:
            # Numbers of tasks rise in the order in which a program begins its threads, the first of which is its own.
            placed = [single[number] for number in sorted(single)]
            if placed[0][0] != self.program[:15]:
                self.fault("thread", f"task `{placed[0][0]}` is not {self.program}, the program to run")
            return self.held, Threads([sorted(processors) for _, processors in placed], again=False)
        if order == "free":
            return self.held, None
        dealt = ResourceSet(self.held).deal(len(self.held), "round-robin" if order == "round-robin" else "fill")
        if order == "pinned":
            return self.held, Threads([[processor] for processor in dealt], again=True)
        nodes = {processor: node.processors & self.held for node in self.here.nodes for processor in node.processors}
        return self.held, Threads([sorted(nodes[processor]) for processor in dealt], again=True)

    def place(self, where: str, table: dict[str, Any]) -> frozenset[int]:
        """Return the processors that a task is bound to."""
        if "processor" not in table:
            node = self.node(where, table.get("node"))
            return frozenset() if node is None else self.here.node(node).processors & self.held
        word, ordered = str(table["processor"]), sorted(self.held)
        if not word.isdecimal() or len(word) > 5 or int(word) >= len(ordered):
            self.fault(where, f"there is no processor {word}; the program may use {len(ordered)}, from 0")
            return frozenset()
        return frozenset({ordered[int(word)]})
