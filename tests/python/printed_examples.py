"""The examples that help, README and docs print, and the words of a command line that a text mentions.

An example is one line to type. Code blocks of the documents and the lines after ``Example:`` in help hold them; a
comment at the end of a line belongs to the reader. A mention is a command line between backticks, in a document or a
message, where capitals stand for what the reader puts in.
"""

import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from servsim.cli import build

ROOT = Path(__file__).resolve().parents[2]

#: Documents with examples, in the order in which they are followed; later ones use what earlier ones wrote.
DOCUMENTS = (
    "README.md",
    "docs/machines.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "parts").glob("*.md")),
)


@dataclass(frozen=True)
class Example:
    """One line to type, and where it stands."""

    line: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.line}"

    def command_lines(self) -> Iterator[list[str]]:
        """Give the words after ``servsim`` of each command of the line."""
        for part in re.split(r"&&|;|\|", self.line):
            words = shlex.split(part.split(">")[0])
            if words and words[0] == "servsim":
                yield words[1:]


def of_documents() -> list[Example]:
    """Return the examples of all documents."""
    found = []
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S):
            for line in block.splitlines():
                if line.startswith("servsim "):
                    found.append(Example(re.split(r"\s+#\s", line)[0].strip(), name))
    return found


def of_example_files() -> list[Example]:
    """Return the examples at the head of the files in examples/."""
    found = []
    for path in sorted((ROOT / "examples").rglob("*.toml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"#\s+(?:Try: )?(servsim .*)", line):
                found.append(Example(match[1], str(path.relative_to(ROOT))))
    return found


def root(*_words: str) -> Any:
    """Return the whole command line, built once for all tests, whatever was asked."""
    return _whole()


@cache
def _whole() -> Any:
    return build()


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give every command with its path, the groups included."""
    command = command or root()
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


def unescaped(text: str) -> str:
    """Return a text of help as it is to be read."""
    return text.replace(r"\[", "[")


def of_help() -> list[Example]:
    """Return the examples that the help of a command prints."""
    found = []
    for path, command in commands():
        for line in unescaped(command.help or "").splitlines():
            if match := re.match(r"\s*(?:Examples?: )?(servsim .*)", line):
                found.append(Example(match[1].strip(), f"servsim {' '.join(path)} --help"))
    return found


def printed_study() -> str:
    """Return the study file that ``servsim sweep --help`` prints."""
    (sweep,) = (command for path, command in commands() if path == ("sweep",))
    text = inspect.cleandoc(unescaped(sweep.help))
    lines = text.split("Example of a study file:")[1].splitlines()[2:]
    end = next(at for at, line in enumerate(lines) if line and not line.startswith("    "))
    return "\n".join(line.strip() for line in lines[:end]) + "\n"


def fault(words: list[str]) -> str | None:
    """Return what is wrong with a full command line, or None: it is parsed as it stands."""
    command, path = root(), "servsim"
    while hasattr(command, "commands"):
        if not words or words[0] not in command.commands:
            return f"{path} has no command {' '.join(words[:1]) or 'given'}"
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    try:
        command.make_context(path, list(words))
    except Exception as error:
        return f"{path}: {error}"
    return None


def mention_fault(words: list[str]) -> str | None:
    """Return what is wrong with a mention, or None: its commands and options exist, whatever stands for the rest."""
    command: Any = root()
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        names = words[0].strip(",").split("|")
        if missing := [name for name in names if name not in command.commands and not name.isupper()]:
            return f"there is no command {', '.join(missing)}"
        if names[0].isupper():
            return None
        command, words = command.commands[names[0]], words[1:]
    if command.context_settings.get("ignore_unknown_options"):
        return None
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    for word in words:
        name = word.strip("[],").split("=")[0]
        if re.match(r"--?[a-z]", name) and name not in known:
            return f"there is no option {name}"
    return None


def mentions() -> Iterator[Example]:
    """Give every command line between backticks in documents and in the messages of the program."""
    for pattern in ("*.md", "docs/**/*.md", "python/servsim/**/*.py", "crates/**/*.rs"):
        for path in sorted(ROOT.glob(pattern)):
            # A decision stands as it was made, and a change as it was announced.
            if path.name == "CHANGELOG.md" or "adr" in path.parts or "target" in path.relative_to(ROOT).parts:
                continue
            for line in re.findall(r"(?<!`)`(servsim [a-z][^`\n{]*)`", path.read_text(encoding="utf-8")):
                yield Example(line, str(path.relative_to(ROOT)))
