"""Command lines drawn at random: options of every command, with values of printed examples, of any file and of none.

A line begins as a command with the arguments that it needs, or as an example of the documents; then options are put in
as they come. What examples write behind an option is drawn for that option wherever it stands, so that many lines are
ones that somebody may type; the rest are numbers at and beyond their ends, words, and files of another kind.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import printed_examples as examples

#: Commands that start a guest, a database, a load or a control group, or work for minutes at any size.
APART = (
    ("capture",),
    ("disk", "capture"),
    ("guest",),
    ("model", "native"),
    ("quickstart",),
    ("reproduce",),
    ("rset",),
    ("serve",),
    ("validate",),
    ("workload",),
)
#: Options that would have work done elsewhere, or for as long as somebody looks on.
NOT_DRAWN = {"--on", "--workers", "--help"}
NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "99999999999999999999", "nan", "1e400")
WORDS = ("", "x", "=", "a=b", "1:2", "4 KiB", "1 ms", "-", "ü", "p95 <= 1 s", "../x", "%s", "0..1")

#: Values that no example shows, by parameter.
ALSO = {
    "by": ("symbol", "task", "kind", "line", "page", "gsp", "cycles"),
    "columns": ("arrival_us,op,lba,sectors,completion_us",),
    "configuration": ("processors=1", "users=2", "cache.size=64KiB"),
    "cost": ("database=2", "web=1.5"),
    "each": ("cache.size=64KiB,1MiB", "processors=1,2", "protocol.name=mesi,moesi"),
    "engine": ("functional", "timing"),
    "format": ("servsim", "text", "raw16", "csv", "lackey", "champsim"),
    "functional_warmup": ("0", "1", "2ms", "1000 references"),
    "goal": ("p95 <= 1 s", "mean<=200ms", "throughput >= 3/s"),
    "growth": ("5", "0.1", "-20"),
    "kind": ("forest", "parallel", "paper", "unconditional", "mechanical", "ssd"),
    "live_points": ("oltp.live", "oltp.svt", "new.live"),
    "load": ("0", "0.5", "1:4", "shop=3"),
    "machine": ("machine.toml", "foglia-2004-8p", "alameldeen-2003"),
    "method": ("kalman", "nnls", "regression"),
    "mode": ("simulator", "open"),
    "output": ("new.svt", "new.json", "none/new.json", "machine.toml", "."),
    "placement": ("placement.toml",),
    "policy": ("shuffle", "organ-pipe", "all"),
    "precision": ("2%", "50%", "0.2"),
    "sampled": ("5%", "90%"),
    "scheduler": ("fcfs", "sstf", "c-scan"),
    "set": ("raid0:2", "raid1", "raid5:5,unit=64KiB", "sda=raid0:3"),
    "settings": (
        "cache.size=128KiB",
        "interconnect.kind=crossbar",
        "prefetch.policy=next-line",
        "processor.model=ooo",
        "processors=2",
        "protocol.name=pscr",
        "shared_cache.size=1MiB",
        "tlb.entries=64",
    ),
    "show": ("gsp,misses", "bus_utilization"),
    "solver": ("exact-mva", "simulation", "bounds", "amva"),
    "time": ("0:1ms", "1 ms:2 ms", "0:"),
    "transactions": ("1", "all", "0:1"),
    "truth": ("1=requests.csv", "2=trace.csv"),
    "watch": ("0x0", "0x1000", "4096"),
}


@dataclass(frozen=True)
class Known:
    """What may be drawn: commands by their path, lines of examples with them, and values by parameter."""

    commands: dict[tuple[str, ...], Any]
    lines: list[tuple[tuple[str, ...], list[str]]]
    values: dict[str, list[str]]


@cache
def known() -> Known:
    """Gather the commands, and what the examples of help, README and docs give to them."""
    drawn = {path: command for path, command in examples.commands() if _is_drawn(path, command)}
    printed = [*examples.of_documents(), *examples.of_example_files(), *examples.of_help()]
    lines, values = [], defaultdict(set)
    for words in (words for example in printed for words in example.command_lines()):
        if (path := _path_of(words, drawn)) is None:
            continue
        lines.append((path, words))
        for name, given in drawn[path].make_context("", words[len(path) :]).params.items():
            for value in given if isinstance(given, list | tuple) else [given]:
                if value is not None and not isinstance(value, bool):
                    values[name].add(str(value))
    for name, also in ALSO.items():
        values[name].update(also)
    return Known(drawn, lines, {name: sorted(found) for name, found in values.items()})


def asks_for_json(words: list[str]) -> bool:
    """Return whether a command line that was taken asks for JSON; `--json` may also be what an option is given."""
    path = _path_of(words, known().commands)
    return path is not None and bool(known().commands[path].make_context("", words[len(path) :]).params.get("as_json"))


def _path_of(words: list[str], commands: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the path of the command that a line begins with, or None."""
    return next((path for path in commands if tuple(words[: len(path)]) == path), None)


def _is_drawn(path: tuple[str, ...], command: Any) -> bool:
    return not hasattr(command, "commands") and not any(path[: len(apart)] == apart for apart in APART)


def lines(seed: int, folder: Path) -> Iterator[list[str]]:
    """Give command lines without end, the words after ``servsim``, for a folder with the files that examples name."""
    source = random.Random(seed)
    files = sorted(path.name for path in folder.iterdir())
    while True:
        yield _line(source, files)


def _line(source: random.Random, files: list[str]) -> list[str]:
    if source.random() < 0.5:
        path, printed = source.choice(known().lines)
        command, words = known().commands[path], list(printed)
    else:
        path, command = source.choice(sorted(known().commands.items()))
        words = list(path)
        for parameter in command.params:
            if parameter.required or parameter.param_type_name == "argument":
                words += _given(source, parameter, files)
    options = [one for one in command.params if one.param_type_name == "option" and one.opts[0] not in NOT_DRAWN]
    for parameter in source.sample(options, min(len(options), source.randrange(5))):
        words += _given(source, parameter, files)
    if source.random() < 0.1:
        del words[source.randrange(len(words))]
    return words


def _given(source: random.Random, parameter: Any, files: list[str]) -> list[str]:
    """Draw what stands for one option or argument."""
    if parameter.param_type_name == "argument":
        count = source.choice((1, 1, 2)) if parameter.nargs == -1 else 1
        return [_value(source, parameter, files) for _ in range(count)]
    name = source.choice(parameter.opts)
    return [name] if parameter.is_flag else [name, _value(source, parameter, files)]


def _value(source: random.Random, parameter: Any, files: list[str]) -> str:
    is_number = parameter.type.name.startswith(("int", "float"))
    is_file = parameter.type.name == "path"
    usual = known().values.get(parameter.name) or (files if is_file else NUMBERS if is_number else WORDS)
    return source.choice(usual if source.random() < 0.8 else source.choice((files, NUMBERS, WORDS)))
