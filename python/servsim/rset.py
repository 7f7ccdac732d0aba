"""Resource Sets on this Linux host: processors and memory as one set, for programs and processes.

A set says where something may run and where its memory may lie (Brock et al. 2001, section 4). Sets of this module are
values with the algebra of Python's sets; the work is done by ``servsim-rset``.
"""

import json
import os
import shutil
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from servsim import _core
from servsim.cache import repository
from servsim.errors import EnvironmentProblem, UsageError


def numbers(text: str, *, nodes: bool = False) -> frozenset[int]:
    """Return the numbers of a list as the kernel writes it.

    Raises
    ------
    UsageError
        When it is no such list, of processors or of ``nodes`` as is meant.

    Examples
    --------
    >>> sorted(numbers("0-2,5"))
    [0, 1, 2, 5]
    """
    return frozenset(_core.rset_numbers(text, nodes))


def listed(held: Iterable[int]) -> str:
    """Return numbers as the kernel writes them.

    Examples
    --------
    >>> listed({5, 0, 1, 2})
    '0-2,5'
    """
    ranges: list[list[int]] = []
    for number in sorted(held):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@dataclass(frozen=True)
class ResourceSet:
    """Processors on which something may run, and nodes in which its memory may lie.

    Attributes
    ----------
    processors, nodes
        Their numbers, as the kernel has them.

    Examples
    --------
    >>> near = ResourceSet(frozenset({0, 1}), frozenset({0}))
    >>> far = ResourceSet(nodes=frozenset({1}))
    >>> near | far
    ResourceSet(processors 0-1, nodes 0-1)
    >>> near & far <= near
    True
    """

    processors: frozenset[int] = frozenset()
    nodes: frozenset[int] = frozenset()

    def __or__(self, other: "ResourceSet") -> "ResourceSet":
        return ResourceSet(self.processors | other.processors, self.nodes | other.nodes)

    def __and__(self, other: "ResourceSet") -> "ResourceSet":
        return ResourceSet(self.processors & other.processors, self.nodes & other.nodes)

    def __sub__(self, other: "ResourceSet") -> "ResourceSet":
        return ResourceSet(self.processors - other.processors, self.nodes - other.nodes)

    def __le__(self, other: "ResourceSet") -> bool:
        return self.processors <= other.processors and self.nodes <= other.nodes

    def __bool__(self) -> bool:
        return bool(self.processors or self.nodes)

    def __repr__(self) -> str:
        return f"ResourceSet(processors {listed(self.processors) or 'none'}, nodes {listed(self.nodes) or 'none'})"

    def validate(self) -> None:
        """Check that all of it is there and allowed now: after hot-plug, or after a cpuset was changed.

        Raises
        ------
        UsageError
            When it is not; the sentence names what is missing.
        """
        _core.rset_validate(sorted(self.processors), sorted(self.nodes))

    def deal(self, threads: int, order: str = "fill") -> list[int]:
        """Return the processor of each of ``threads`` threads.

        Parameters
        ----------
        threads
            How many there are; with more than processors it begins anew.
        order
            ``fill`` (a node whole, then the next) or ``round-robin`` (nodes in turn).
        """
        return _core.rset_deal(order, sorted(self.processors), threads)


@dataclass(frozen=True)
class Node:
    """A node: its number, its processors, bytes of its memory, and how far other nodes' memory is (own: 10)."""

    node: int
    processors: frozenset[int]
    memory_bytes: int
    distances: Mapping[int, int]


@dataclass(frozen=True)
class Machine:
    """The host.

    Attributes
    ----------
    nodes
        Its nodes.
    everything
        What this process may use: online, and within its cpuset. The root of all sets.
    inherited
        Where this process was put by whoever started it; within ``everything``.
    """

    nodes: tuple[Node, ...]
    everything: ResourceSet
    inherited: ResourceSet

    def node(self, number: int) -> ResourceSet:
        """Return the processors and the memory of one node, as far as this process may use them.

        Raises
        ------
        UsageError
            When there is no such node.
        """
        for node in self.nodes:
            if node.node == number:
                return ResourceSet(node.processors, frozenset({number})) & self.everything
        raise UsageError(f"there is no node {number}: this machine has {listed(node.node for node in self.nodes)}")


def machine() -> Machine:
    """Look at this host.

    Raises
    ------
    EnvironmentProblem
        When the kernel does not tell.
    """
    found = json.loads(_core.rset_machine())
    return Machine(
        nodes=tuple(
            Node(
                node["node"],
                frozenset(node["processors"]),
                node["memory_bytes"],
                {int(to): far for to, far in node["distances"].items()},
            )
            for node in found["nodes"]
        ),
        everything=_set(found["global"]),
        inherited=_set(found["inherited"]),
    )


def _set(found: Mapping[str, Any]) -> ResourceSet:
    return ResourceSet(frozenset(found["processors"]), frozenset(found["nodes"]))


def bind(process: int, resources: ResourceSet) -> int:
    """Bind every thread of a process to a set's processors; returns how many threads there are.

    Raises
    ------
    UsageError
        When there is no such process, or the set has no processor.
    EnvironmentProblem
        When the kernel refuses.
    """
    return _core.rset_bind(process, sorted(resources.processors))


def migrate(process: int, resources: ResourceSet, origin: frozenset[int] | None = None) -> int:
    """Move the memory of a process into a set's nodes; returns how many pages would not move.

    Parameters
    ----------
    origin
        Nodes to empty; every node outside the set by default.

    Raises
    ------
    UsageError, EnvironmentProblem
        As for :func:`bind`.
    """
    known = frozenset(node.node for node in machine().nodes)
    return _core.rset_migrate(process, sorted(known if origin is None else origin), sorted(resources.nodes))


def preload_library() -> Path:
    """Return the library that redirects the malloc family of other programs.

    Raises
    ------
    EnvironmentProblem
        When it is not built.
    """
    folder = repository()
    path = None if folder is None else folder / "target" / "release" / "libservsim_rset_preload.so"
    if path is None or not path.is_file():
        raise EnvironmentProblem(
            "policies of memory need the preloaded library, which is not here: run `make build` in a checkout"
        )
    return path


@dataclass(frozen=True)
class Rule:
    """Where memory of an allocation site, or of a mapping that the program names, is to lie.

    Attributes
    ----------
    key, name
        ``site`` and ``MODULE+0xOFFSET``, or ``structure`` and the name of the mapping.
    policy, nodes
        The policy, and the nodes that it takes memory from; those of the set without.
    start, end
        Bytes of the mapping, or of each large allocation; all of it without.
    """

    key: str
    name: str
    policy: str
    nodes: str | None = None
    start: int | None = None
    end: int | None = None

    def document(self) -> dict[str, Any]:
        """Return it as the preloaded library reads it."""
        given = {"policy": self.policy, "nodes": self.nodes, "start": self.start, "end": self.end}
        return {self.key: self.name, **{key: value for key, value in given.items() if value is not None}}


@dataclass(frozen=True)
class Threads:
    """Processors of a program's threads, in the order in which they begin; ``again``: further ones from the start."""

    processors: Sequence[Sequence[int]]
    again: bool


#: Longest value of a variable that a program can be given (``MAX_ARG_STRLEN``, execve(2)).
_LONGEST = 128 * 1024 - 64


def _is_static(program: str) -> bool:
    """Whether a program is an ELF file that names no loader (elf(5): no segment ``PT_INTERP``)."""
    path = shutil.which(program)
    if path is None:
        return False
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return False
            offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            file.seek(offset)
            table = file.read(size * count)
    except OSError:
        return False
    return all(struct.unpack_from("<I", table, at)[0] != 3 for at in range(0, len(table) - 3, size))


def run(
    command: Sequence[str],
    resources: ResourceSet,
    policy: str | None = None,
    report: str | None = None,
    rules: Sequence[Rule] = (),
    threads: Threads | None = None,
    sample: str | None = None,
) -> NoReturn:
    """Become a program that runs, and takes its memory, in a set.

    Parameters
    ----------
    command
        The program and its arguments.
    policy
        Where its memory is to lie within the set, for example ``striped(4)``: its malloc family is redirected. Without,
        the kernel decides, within the set's nodes.
    report
        File that takes a report of pages per node at the end, ``-`` for standard error; only with a policy or rules.
    rules
        Where memory of single sites and mappings is to lie.
    threads
        Processors of its threads.
    sample
        File that takes who touched which page of named mappings and large allocations, sampled by protecting pages.

    Raises
    ------
    UsageError
        When the set, the policy or the program cannot be used.
    """
    resources.validate()
    environment = dict(os.environ)
    if policy is not None or rules or threads is not None or sample is not None:
        policies = {rule.policy for rule in rules} | ({policy} if policy is not None else set())
        for one in policies:
            _core.rset_check_policy(one, sorted(resources.processors), sorted(resources.nodes))
        if _is_static(command[0]):
            sys.stderr.write(
                f"servsim rset: {command[0]} is linked statically, so that no library can be loaded into it: it runs "
                "in its set, and its memory is placed as the kernel does by default\n"
            )
            sys.stderr.flush()
        before = environment.get("LD_PRELOAD")
        environment["LD_PRELOAD"] = f"{preload_library()}:{before}" if before else str(preload_library())
        environment["SERVSIM_RSET_NODES"] = listed(resources.nodes)
        if policy is not None:
            environment["SERVSIM_RSET_POLICY"] = policy
        if rules:
            text = json.dumps([rule.document() for rule in rules], separators=(",", ":"))
            if len(text) > _LONGEST:
                raise UsageError(f"a program cannot be told {len(rules):,} rules: join neighbours of one node")
            environment["SERVSIM_RSET_RULES"] = text
        if threads is not None:
            environment["SERVSIM_RSET_THREADS"] = json.dumps(asdict(threads))
        if sample is not None:
            environment["SERVSIM_RSET_SAMPLE"] = str(Path(sample).absolute())
        if report is not None:
            environment["SERVSIM_RSET_REPORT"] = report if report == "-" else str(Path(report).absolute())
    _core.rset_enter(sorted(resources.processors), sorted(resources.nodes))
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error
