"""Machine descriptions: those that ship, those of a user, and what one says when every default is filled in."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim import _core
from servsim.documents import text_of
from servsim.errors import UsageError
from servsim.trace.files import is_there


def shipped_machines() -> dict[str, Path]:
    """Return the machine descriptions that come with servsim, by name."""
    return {file.stem: file for file in Path(__file__).parent.glob("*.toml")}


def machine_path(name: str) -> Path:
    """Find a machine description.

    Parameters
    ----------
    name
        Path of a TOML file, or the name of a shipped description such as ``foglia-2004-4p``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UsageError
        When there is no such file, with the names of the shipped ones.
    """
    path = Path(name)
    if is_there(path) and path.is_file():
        return path
    shipped = shipped_machines()
    if name in shipped:
        return shipped[name]
    near = difflib.get_close_matches(name, shipped, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"there is no machine description {name!r}; shipped are {', '.join(sorted(shipped))}{meant}")


def machine_text(name: str | Path) -> str:
    """Return what a machine description says; see `machine_path` for its names and `text_of` for what it raises."""
    return text_of(machine_path(str(name)), errors="replace")


def resolve(description: str, machine: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return a machine with every setting, in groups, as results record it.

    Parameters
    ----------
    description
        What its description says, TOML.
    machine
        Its name in messages.
    overrides
        Settings that replace those of the description, each ``KEY=VALUE``.

    Raises
    ------
    UsageError
        For a wrong description or override: all faults at once, one a line.
    """
    resolved: dict[str, Any] = json.loads(_core.machine_resolve(description, machine, list(overrides)))
    return resolved


@dataclass(frozen=True)
class Beside:
    """A setting of a machine beside what it is where nothing is said.

    Attributes
    ----------
    key : str
        Its key, with its group.
    value, default : str
        What it is here, and where no description sets it.
    """

    key: str
    value: str
    default: str


def beside_defaults(machine: Mapping[str, Any]) -> list[Beside]:
    """Return every setting of a resolved machine beside its default."""
    from servsim.result import flat

    defaults = dict(flat(resolve("", "defaults", [])))
    return [Beside(key, value, defaults[key]) for key, value in flat(machine)]


def changed(machine: Mapping[str, Any]) -> list[Beside]:
    """Return the settings of a resolved machine that are not those of the defaults."""
    return [one for one in beside_defaults(machine) if one.value != one.default]


def faults(path: Path, overrides: Sequence[str] = ()) -> list[str]:
    """Return everything that is wrong with a description, in the order of its lines, its disk model included.

    Nothing is wrong with a machine that runs any trace that tells what its settings need, such as virtual addresses.

    Raises
    ------
    UsageError
        When there is no such file.
    """
    return _core.machine_faults(machine_text(path), str(path), list(overrides))
