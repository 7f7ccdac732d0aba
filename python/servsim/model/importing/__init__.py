"""Models of other tools as networks of ours: JMT's ``.jmva`` and ``.jsimg``, and layered queueing networks.

What one of these languages can say and ours cannot is refused, with its line; what is said otherwise here is told in
:attr:`Imported.notes`. Results that such files carry are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from servsim.errors import UsageError
from servsim.model.importing.markup import parse, read_bytes
from servsim.model.network import Network

#: Ends of names that are read here.
SUFFIXES = (".jmva", ".jsimg", ".jsim", ".jsimw", ".lqn", ".lqnx", ".xlqn", ".xml")


@dataclass(frozen=True)
class Imported:
    """A model of another tool.

    Attributes
    ----------
    network : Network
        The same model.
    notes : list of str
        What is said differently here.
    """

    network: Network
    notes: list[str]


def is_foreign(path: str | Path) -> bool:
    """Say whether a file's name is that of another tool's model."""
    return Path(path).suffix.lower() in SUFFIXES


def read(path: str | Path) -> Imported:
    """Read a model that JMT or a tool for layered queueing networks wrote.

    Parameters
    ----------
    path : str or Path
        A file ending in ``.jmva``, ``.jsimg``, ``.lqn`` (text), ``.lqnx`` or ``.xml``.

    Returns
    -------
    Imported
        The network, and what one should know about it.

    Raises
    ------
    UsageError
        For files that are not such models, and for elements that have no counterpart: the line is named.
    """
    from servsim.model.importing import jmva, jsim, lqn_text, lqn_xml

    if not is_foreign(path):
        raise UsageError(f"{path} is of no kind that is imported; give a file that ends in {', '.join(SUFFIXES)}")
    content = read_bytes(path)
    start = content.lstrip()[:1]
    if Path(path).suffix.lower() in (".lqn", ".xlqn") and start != b"<":
        return lqn_text.read(str(path), content)
    root = parse(path, content)
    readers = {"model": jmva.read, "archive": jsim.read, "sim": jsim.read, "lqn-model": lqn_xml.read}
    if root.name not in readers:
        raise root.refused(
            f"a <{root.name}> is no model that is imported", "give a <model> or <archive> of JMT, or an <lqn-model>"
        )
    return readers[root.name](root)
