"""Layered queueing networks as text (``.lqn``): words, in sections that end with -1.

Calls and times are lists, one value per phase. Settings of the solver, requests for histograms and longest times are
passed over; parameters (``$name``) are refused, for a model here has one value for each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from servsim.errors import UsageError
from servsim.model.importing import Imported
from servsim.model.importing.activities import Activity, Graph
from servsim.model.importing.lqn import Entry, Layers, Processor, Task, network
from servsim.model.importing.markup import as_number, refused

PROCESSORS = {"f": "fcfs", "s": "ps", "r": "ps", "h": "non-preemptive", "p": "priority", "i": "inf", "d": "inf"}
TASKS = {"r": "ref", "n": "fcfs", "f": "fcfs", "h": "hol", "i": "inf", "u": "inf"}
WORD = re.compile(r'#[^\n]*|"[^"]*"|->|[()+&;:,*\[\]]|[^\s()+&;:,*\[\]#"]+')
#: Lines of an entry that say nothing about means.
PASSED = ("f", "M", "H")
UNREAD = {
    "z": ("sends without waiting for a reply", "wait for the reply: use y"),
    "F": ("forwards", "let it call the other entry: use y"),
    "c": ("gives a coefficient of variation", "remove it, for exponential times"),
    "P": ("is one of a semaphore", "describe what is held as [[pool]] in a model of ours"),
    "V": ("is one of a semaphore", "describe what is held as [[pool]] in a model of ours"),
}


@dataclass
class _Word:
    text: str
    line: int


class _Words:
    """The words of a file, one after the other."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        text = content.decode("utf-8", errors="replace")
        self.words = [w for w in _words(text) if not w.text.startswith("#")]
        self.at = 0
        if not self.words:
            raise refused(path, 1, "it is empty", "give a model of layered queues")

    def refused(self, what: str, remedy: str, line: int | None = None) -> UsageError:
        """Return an error about the word read last."""
        before = self.words[max(0, min(self.at, len(self.words)) - 1)].line
        return refused(self.path, line or before, what, remedy)

    def more(self) -> bool:
        """Say whether there are words left."""
        return self.at < len(self.words)

    def peek(self) -> str:
        """Return the next word without taking it; nothing at the end."""
        return self.words[self.at].text if self.more() else ""

    def take(self) -> str:
        """Return the next word."""
        if not self.more():
            raise self.refused("the model ends in the middle", "end each section with -1")
        self.at += 1
        word = self.words[self.at - 1].text
        if word.startswith("$"):
            raise self.refused(f"{word} is a parameter", "replace it by a number")
        return word

    def line(self) -> int:
        """Return the line of the word read last."""
        return self.words[self.at - 1].line

    def number(self, what: str) -> float:
        """Return the next word as a number of zero or more."""
        word = self.take()
        value = as_number(word)
        if value is None or value < 0.0:
            raise self.refused(f"{what} is {word!r}", "give a number of zero or more")
        return value

    def count(self, what: str) -> float:
        """Return the next word as a number of copies."""
        value = self.number(what)
        if value != int(value) or value < 1:
            raise self.refused(f"{what} is {value:g}", "give a whole number of at least 1")
        return value

    def until_end(self) -> Iterator[str]:
        """Return the words before the next -1, and take that too."""
        while (word := self.take()) != "-1":
            yield word


def _words(text: str) -> Iterator[_Word]:
    line, at = 1, 0
    for match in WORD.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        yield _Word(match.group(), line)


def read(path: str, content: bytes) -> Imported:
    """Return the network of a text."""
    words = _Words(path, content)
    layers = Layers(path)
    graphs: list[tuple[Task, Graph]] = []
    while words.more() and (kind := words.take()) != "R":
        if kind == "G":
            layers.title = words.take().strip('" \n') or "network"
            list(words.until_end())
        elif kind in SECTIONS:
            if as_number(words.peek()) is not None and words.peek() != "-1":
                words.take()
            SECTIONS[kind](words, layers)
        elif kind == "A":
            name = words.take()
            if name not in layers.tasks:
                raise words.refused(f"there is no task {name!r}", "list it in section T")
            graphs.append((layers.tasks[name], _graph(words, layers)))
        else:
            raise words.refused(f"there is no section {kind!r} in models that are read", "use G, P, T, E and A")
    for task, graph in graphs:
        for entry in [e for e in task.entries if e in graph.begins]:
            graph.into(layers.entries[entry], layers.refused, replies=not task.reference)
    for task in layers.tasks.values():
        if task.processor not in layers.processors:
            raise layers.refused(task.line, f"there is no processor {task.processor!r}", "list it in section P")
    return network(layers)


def _section(words: _Words, mark: str) -> Iterator[None]:
    """Come back for each line that begins with a mark, until the section ends."""
    for word in words.until_end():
        if word != mark:
            raise words.refused(f"{word!r} is not understood here", f"begin each line of this section with {mark}")
        yield


def _processors(words: _Words, layers: Layers) -> None:
    for _ in _section(words, "p"):
        name, line, flag = words.take(), words.line(), words.take()
        if flag not in PROCESSORS:
            raise words.refused(f"processor {name!r} schedules by {flag!r}", "use f, s, h, p or i")
        processor = Processor(name, line, PROCESSORS[flag])
        while words.peek() not in ("p", "-1"):
            option = words.take()
            if option == "m":
                processor.count = words.count("the number of processors")
            elif option == "i":
                processor.count = math.inf
            elif option == "R":
                speed = words.number("the speed")
                if speed != 1.0:
                    raise words.refused(f"processor {name!r} has speed {speed:g}", "divide its times by the speed")
            elif as_number(option) is None or flag != "s":
                raise words.refused(f"processor {name!r} has {option!r}", "use m with a number, or i")
        if processor.discipline == "inf":
            processor.count = math.inf
        _once(words, layers.processors, name, "processor")
        layers.processors[name] = processor


def _once(words: _Words, known: object, name: str, kind: str) -> None:
    if isinstance(known, dict) and name in known:
        raise words.refused(f"{kind} {name!r} is described twice", "rename one")


def _tasks(words: _Words, layers: Layers) -> None:
    for _ in _section(words, "t"):
        name, line, flag = words.take(), words.line(), words.take()
        if flag not in TASKS:
            raise words.refused(f"task {name!r} is of kind {flag!r}", "use r, n, f or i")
        entries = list(words.until_end())
        task = Task(name, line, words.take(), entries, TASKS[flag] == "ref")
        task.count = math.inf if TASKS[flag] == "inf" else 1.0
        while words.peek() not in ("t", "-1"):
            option = words.take()
            if option == "m":
                task.count = words.count("the number of threads")
            elif option == "i":
                task.count = math.inf
            elif option == "z":
                task.think = words.number("the think time")
            elif (rank := as_number(option)) is not None:
                task.priority = int(rank)
            else:
                raise words.refused(f"task {name!r} has {option!r}", "use m, i or z, or leave it out")
        _once(words, layers.tasks, name, "task")
        layers.tasks[name] = task
        for entry in entries:
            _once(words, layers.entries, entry, "entry")
            layers.entries[entry] = Entry(entry, line)


def _entries(words: _Words, layers: Layers) -> None:
    for kind in words.until_end():
        if kind in UNREAD:
            what, remedy = UNREAD[kind]
            raise words.refused(f"entry {words.take()!r} {what}", remedy)
        name = words.take()
        if name not in layers.entries:
            raise words.refused(f"there is no entry {name!r}", "list it with its task in section T")
        entry = layers.entries[name]
        if kind == "s":
            entry.demand += sum(_phases(words, entry))
        elif kind == "y":
            called = words.take()
            entry.call(called, sum(_phases(words, entry)))
        elif kind == "Z":
            entry.think += sum(_numbers(words))
        elif kind == "a":
            entry.rate = words.number("the arrival rate")
        elif kind == "A":
            layers.starts[name] = words.take()
        elif kind == "H":
            while words.peek() not in ("s", "y", "f", "A", "M", "H", "-1", "Z", "a", "z", "F", "c"):
                words.take()
        elif kind in PASSED:
            list(words.until_end())
        else:
            raise words.refused(f"{kind!r} is not understood here", "begin lines of this section with s, y, Z, a or A")


def _numbers(words: _Words) -> list[float]:
    values = []
    while words.peek() != "-1":
        values.append(words.number("a value"))
    words.take()
    return values


def _phases(words: _Words, entry: Entry) -> list[float]:
    values = _numbers(words)
    entry.late |= any(values[1:])
    return values


def _graph(words: _Words, layers: Layers) -> Graph:
    """Return the activities of a task, and in which order they come."""
    graph = Graph()
    while (kind := words.take()) not in (":", "-1"):
        if kind in UNREAD:
            what, remedy = UNREAD[kind]
            raise words.refused(f"activity {words.take()!r} {what}", remedy)
        name = words.take()
        activity = graph.activities.setdefault(name, Activity(name, words.line()))
        if kind == "s":
            activity.demand += words.number("a time")
        elif kind == "Z":
            activity.think += words.number("a think time")
        elif kind == "y":
            called = words.take()
            activity.calls[called] = activity.calls.get(called, 0.0) + words.number("a number of calls")
        elif kind in ("f", "M"):
            words.number("a value")
        else:
            raise words.refused(f"{kind!r} is not understood here", "begin lines of activities with s, y, f or Z")
    graph.begins = {e: a for e, a in layers.starts.items() if a in graph.activities}
    if kind == ":":
        _precedences(words, graph)
    return graph


def _precedences(words: _Words, graph: Graph) -> None:
    """Read in which order activities come, until the section ends."""
    while words.peek() != "-1":
        before = _side(words, graph)
        if words.peek() == "->":
            words.take()
            graph.follow([name for name, _ in before], _side(words, graph))
        if words.peek() == ";":
            words.take()
        elif words.peek() != "-1":
            raise words.refused(f"{words.take()!r} is not understood here", "separate precedences by ; and end with -1")
    words.take()


def _side(words: _Words, graph: Graph) -> list[tuple[str, float]]:
    """Return the activities of one side of an arrow, with probabilities or counts."""
    found: list[tuple[str, float]] = []
    while True:
        share = 1.0
        if words.peek() == "(":
            words.take()
            share = words.number("a probability")
            words.take()
        word = words.take()
        if words.peek() == "*":
            words.take()
            share, word = as_number(word) or 0.0, words.take()
        found.append((word, share))
        if words.peek() == "[":
            graph.replies.add(word)
            while words.take() != "]":
                pass
        if words.peek() == "&":
            words.take()
            raise words.refused("activities run in parallel", "let them follow one another")
        if words.peek() not in ("+", ","):
            return found
        words.take()


SECTIONS: dict[str, Callable[[_Words, Layers], None]] = {"P": _processors, "T": _tasks, "E": _entries}
