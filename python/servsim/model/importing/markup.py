"""XML of strangers as a plain tree with line numbers; nothing in it is looked up, expanded or fetched.

Document types are refused whole: neither JMT nor LQN files have one, and every known bomb of entities needs one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from servsim.errors import UsageError

#: Deepest nesting, and most bytes, that a model may have.
DEEPEST, LARGEST = 64, 64 << 20


@dataclass
class Element:
    """One element: its name without prefix, attributes, text and children."""

    path: str
    line: int
    name: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, name: str) -> list[Element]:
        """Return the children of this name."""
        return [child for child in self.children if child.name == name]

    def first(self, name: str) -> Element | None:
        """Return the first child of this name, if there is one."""
        return next(iter(self.all(name)), None)

    def wanted(self, name: str) -> Element:
        """Return the first child of this name.

        Raises
        ------
        UsageError
            When there is none.
        """
        found = self.first(name)
        if found is None:
            raise self.refused(f"<{self.name}> has no <{name}>", "export the model again from its tool")
        return found

    def get(self, key: str, default: str | None = None) -> str:
        """Return an attribute, or ``default``; one without a default must be there.

        Raises
        ------
        UsageError
            When it is missing.
        """
        value = self.attributes.get(key, default)
        if value is None:
            raise self.refused(f"<{self.name}> has no attribute `{key}`", "add it")
        return value

    def number(self, text: str | None, what: str, least: float = 0.0) -> float:
        """Return a finite number of at least ``least``.

        Raises
        ------
        UsageError
            For anything else.
        """
        value = as_number(text)
        if value is None or value < least:
            raise self.refused(f"{what} is {text!r}", f"give a number of at least {least:g}")
        return value

    def count(self, text: str | None, what: str, least: int = 0) -> int:
        """Return a whole number of at least ``least``.

        Raises
        ------
        UsageError
            For anything else.
        """
        value = self.number(text, what, least)
        if value != int(value) or value > 1e15:
            raise self.refused(f"{what} is {text!r}", "give a whole number")
        return int(value)

    def refused(self, what: str, remedy: str) -> UsageError:
        """Return the error that names the place, what is wrong with it and what to do."""
        return refused(self.path, self.line, what, remedy)


def refused(path: str, line: int, what: str, remedy: str) -> UsageError:
    """Return the error that names the place, what is wrong with it and what to do."""
    return UsageError(f"{path}, line {line}: {what}; {remedy}")


def as_number(text: str | None) -> float | None:
    """Return a finite number, or None for anything else (also for digits that Python alone accepts, such as 1_000)."""
    if text is None or "_" in text or len(text) > 400:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= 1.7e308 else None


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a model file.

    Raises
    ------
    UsageError
        When it cannot be read, or is far too large.
    """
    try:
        if Path(path).stat().st_size > LARGEST:
            raise UsageError(f"{path} is larger than {LARGEST >> 20} MiB; leave results out when you export the model")
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give the path of a model file") from None


def parse(path: str | Path, content: bytes) -> Element:
    """Return the root of an XML document.

    Raises
    ------
    UsageError
        For anything that is not well-formed, declares a document type, or is nested too deeply.
    """
    name = str(path)
    root = Element(name, 1, "", {})
    open_elements = [root]
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        line = parser.CurrentLineNumber
        if len(open_elements) > DEEPEST:
            raise refused(name, line, f"elements are nested more than {DEEPEST} deep", "no model of these tools is")
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        element = Element(name, line, tag.rpartition(" ")[2], plain)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_tag: str) -> None:
        open_elements.pop()

    def text(data: str) -> None:
        open_elements[-1].text += data

    def doctype(*_: object) -> None:
        line = parser.CurrentLineNumber
        raise refused(name, line, "it declares a document type, which is not read", "remove <!DOCTYPE ...>")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise refused(name, error.lineno, f"not XML: {reason}", "export the model again from its tool") from None
    except (LookupError, ValueError) as error:
        raise refused(name, 1, f"not XML: {error}", "save it as UTF-8") from None
    return root.children[0]
