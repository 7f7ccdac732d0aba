"""A workload of the guest is a folder: what is in it, read and checked.

``workload.toml`` names packages, the compiled client, the kinds of transactions, and the settings with their units;
``client`` and, where there is a server, ``start`` run in the guest, ``load``, if there is one, in the guest's tree
while the image is built; ``files``, if there is one, tells on the host where the data's files lie in the image;
natively the same scripts run on this host (`servsim.workloads.native`). The whole folder lies in the guest at
``/usr/share/servsim/workload``. Nothing else of servsim knows the workload by name.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servsim.cache import checkout, repository
from servsim.capture.emulator import LEAST_MEMORY_MIB, MOST_MEMORY_MIB
from servsim.capture.store import file_digest
from servsim.documents import is_plain, read_toml
from servsim.errors import UsageError
from servsim.limits import is_whole

#: The folder's description, the script that every workload has, and those that it may have.
DESCRIPTION, SCRIPTS, MORE_SCRIPTS = "workload.toml", ("client",), ("start", "load", "check", "files")
#: What a setting's name may be, so that it can travel in the kernel's command line.
SETTING_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: What a function of a server may do with a lock: the plug-in's names (capture/plugin/src/facts.rs).
LOCKING = ("acquire", "release", "try", "try_or_wait")
#: The setting that tells how many users there are, unless the folder names another.
USERS = "users"
#: The setting that every workload has: the memory of the guest in MiB.
MEMORY = "memory_mib"
#: Longest name of a program that the kernel keeps (Linux ``TASK_COMM_LEN``).
_COMM = 15
#: So many kinds of transactions are told by name in a sentence.
_NAMED_KINDS = 8


@dataclass(frozen=True)
class Setting:
    """One setting of a workload.

    Attributes
    ----------
    default, meaning, unit
        Its value unless it is given, what it does, and its unit if it has one.
    load
        Whether the data depend on it.
    choices
        What it may be; anything if there are none.
    """

    default: str
    meaning: str
    unit: str = ""
    load: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Folder:
    """What the folder of a workload says.

    Attributes
    ----------
    path
        The folder.
    summary
        One line about the workload.
    packages
        Debian packages of its servers.
    client
        Name of the compiled client, as the guest's kernel shows it.
    build
        Command that builds the client, ``{client}`` standing for the file to make and ``{include}`` for the folder
        of ``servsim.h``, ``{built}`` for that of what ``make build`` made; none for a program of this repository.
    transactions
        Kinds of transactions, by the number in a mark from 1.
    server
        The server's executable in the guest, where its lock functions are hooked.
    locks
        Those functions, and what each does: one of `LOCKING`.
    server_settings
        Whether settings that the folder does not name are the server's own.
    unread
        Files of the packages that are left out, as patterns of dpkg's ``path-exclude``.
    prepare
        Shell commands on the host before the packages are installed, with the guest's tree as ``$1``.
    memory_mib
        Memory of the guest in MiB.
    measured
        Transactions that are measured unless it is said how many.
    users
        The setting that tells how many users there are.
    settings
        What may be set, by name.
    scales
        Settings that belong together, by the name of the size that they make.
    sizes
        Settings whose values a written-out scale names, with ``x`` between them.
    data
        What the data are, for the trace: a sentence with settings in braces.
    data_bytes
        About how many bytes ``load`` makes for each product of settings, such as ``"warehouses * items"``.
    """

    path: Path
    summary: str
    packages: tuple[str, ...]
    client: str
    transactions: tuple[str, ...]
    build: tuple[str, ...] = ()
    server: str | None = None
    locks: Mapping[str, str] = field(default_factory=dict)
    server_settings: bool = False
    unread: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    memory_mib: int = 512
    measured: int = 200
    users: str = USERS
    settings: Mapping[str, Setting] = field(default_factory=dict)
    scales: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()
    data: str = ""
    data_bytes: Mapping[str, int] = field(default_factory=dict)

    def has(self, script: str) -> bool:
        """Return whether the folder has this script."""
        return (self.path / script).is_file()

    def scale(self, name: str | None) -> Mapping[str, str]:
        """Return the settings of a size, named or written out; none without a name."""
        if name is None:
            return {}
        if name in self.scales:
            return self.scales[name]
        numbers = name.split("x")
        if self.sizes and len(numbers) == len(self.sizes) and all(map(str.isdecimal, numbers)):
            return dict(zip(self.sizes, numbers, strict=True))
        known = ", ".join([*self.scales, *(["x".join(map(str.upper, self.sizes))] if self.sizes else [])]) or "none"
        raise UsageError(f"{self.path.name} has no scale {name!r}; there is: {known}")

    def undeclared(self, kind: int | str) -> str:
        """Say that the client ended a transaction of a kind, by its number, that the folder does not declare."""
        known = [f"{number} ({name})" for number, name in enumerate(self.transactions, 1)]
        named = ", ".join(known) if len(known) <= _NAMED_KINDS else f"{known[0]} to {known[-1]}"
        return (
            f"the client ended a transaction of kind {kind}, and its workload.toml declares {named}: add that kind to "
            "`transactions` there, or have the client mark one of these"
        )

    def files(self) -> list[Path]:
        """Return the folder's files, sorted."""
        return sorted(path for path in self.path.rglob("*") if path.is_file())

    def digests(self) -> dict[str, str]:
        """Return the hash of each of the folder's files."""
        return {str(path.relative_to(self.path)): file_digest(path) for path in self.files()}


def place() -> Path | None:
    """Return where the workloads are that come with servsim; ``SERVSIM_WORKLOADS`` names another place of them."""
    given, copy = os.environ.get("SERVSIM_WORKLOADS"), repository()
    if given:
        return Path(given)
    return None if copy is None else copy / "capture" / "workloads"


def shipped(name: str) -> Path:
    """Return the folder of a workload that comes with servsim."""
    return (place() or checkout("a workload")) / name


def names() -> list[str]:
    """Return the names of the workloads that ship, which are those of their folders."""
    here = place()
    return sorted(path.name for path in here.iterdir() if path.is_dir()) if here is not None and here.is_dir() else []


def find(workload: str) -> Folder:
    """Return the folder of a workload that ships, by its name, or of a user's own, by its path.

    Raises
    ------
    UsageError
        When there is none, with the names there are; and as `read`.
    EnvironmentProblem
        When servsim is installed without the workloads that ship.
    """
    known = names()
    if workload in known:
        return read(shipped(workload))
    if Path(workload).is_dir():
        return read(Path(workload).absolute())
    if place() is None:
        checkout("a workload")
    raise UsageError(
        f"there is no workload {workload!r}; known: {', '.join(known)}; or name the folder of one (docs/workloads.md)"
    )


def read(path: Path) -> Folder:
    """Read the folder of a workload.

    Raises
    ------
    UsageError
        Naming what is missing or wrong in the folder.
    """
    missing = [name for name in (DESCRIPTION, *SCRIPTS) if not (path / name).is_file()]
    if missing:
        raise UsageError(f"{path} is no folder of a workload: it has no {', '.join(missing)}; see docs/workloads.md")
    there = (name for name in (*SCRIPTS, *MORE_SCRIPTS) if (path / name).is_file())
    idle = [name for name in there if not os.access(path / name, os.X_OK)]
    if idle:
        raise UsageError(f"{path / idle[0]} cannot be executed: make it a program with `chmod +x`")
    try:
        described = read_toml((path / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path / DESCRIPTION} cannot be read: {error}") from None
    return _Reader(path / DESCRIPTION, described).folder()


class _Reader:
    """Takes a description apart, key by key, and refuses what is left."""

    def __init__(self, file: Path, described: dict[str, Any]) -> None:
        self.file, self.rest = file, dict(described)

    def wrong(self, what: str) -> UsageError:
        return UsageError(f"{self.file}: {what}; see docs/workloads.md")

    def text(self, key: str) -> str | None:
        value = self.rest.pop(key, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.wrong(f"{key} must be a text")
        return value

    def required(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.wrong(f"{key} is missing")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.rest.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.wrong(f"{key} must be a list of texts")
        return tuple(value)

    def number(self, key: str, default: int, least: int, most: int) -> int:
        value = self.rest.pop(key, default)
        if not is_whole(value, least, most):
            raise self.wrong(f"{key} must be a number from {least} to {most}")
        return value

    def flag(self, key: str) -> bool:
        value = self.rest.pop(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} must be true or false")
        return value

    def settings(self) -> dict[str, Setting]:
        settings = {}
        tables = self.rest.pop("settings", {})
        if not isinstance(tables, dict):
            raise self.wrong("settings must be tables")
        for name, table in tables.items():
            if not SETTING_NAME.fullmatch(name):
                raise self.wrong(f"the setting {name!r} must be named in lower-case letters, digits and '_'")
            known = {"default", "meaning", "unit", "load", "choices"}
            if not isinstance(table, dict) or not {"default", "meaning"} <= table.keys() <= known:
                raise self.wrong(f"settings.{name} needs default and meaning, may have unit, load and choices")
            default, meaning, unit = table["default"], table["meaning"], table.get("unit", "")
            choices, load = table.get("choices", []), table.get("load", False)
            if not isinstance(choices, list) or not all(map(is_plain, [default, *choices])):
                raise self.wrong(f"settings.{name}: default and the list of choices must be texts or numbers")
            if not isinstance(meaning, str) or not isinstance(unit, str) or not isinstance(load, bool):
                raise self.wrong(f"settings.{name}: meaning and unit must be texts, load true or false")
            settings[name] = Setting(str(default), meaning, unit, load, tuple(map(str, choices)))
        return settings

    def scales(self, settings: Mapping[str, Setting]) -> dict[str, dict[str, str]]:
        scales = {}
        tables = self.rest.pop("scales", {})
        if not isinstance(tables, dict):
            raise self.wrong("scales must be tables")
        for name, table in tables.items():
            known = isinstance(table, dict) and table.keys() <= {*settings, MEMORY}
            if not known or not all(map(is_plain, table.values())):
                raise self.wrong(f"scales.{name} must give texts or numbers to settings that there are")
            scales[name] = {key: str(value) for key, value in table.items()}
        return scales

    def numbers(self, key: str) -> dict[str, int]:
        table = self.rest.pop(key, {})
        if not isinstance(table, dict):
            raise self.wrong(f"{key} must be a table of numbers")
        if not all(is_whole(value, 0) for value in table.values()):
            raise self.wrong(f"{key} must be whole numbers from 0")
        return table

    def locks(self) -> dict[str, str]:
        table = self.rest.pop("locks", {})
        if not isinstance(table, dict) or not all(value in list(LOCKING) for value in table.values()):
            raise self.wrong(f"locks must say of each function one of: {', '.join(LOCKING)}")
        return table

    def folder(self) -> Folder:
        memory = self.number("memory_mib", 512, LEAST_MEMORY_MIB, MOST_MEMORY_MIB)
        measured = self.number("measured", 200, 1, 10**9)
        settings = self.settings()
        found = Folder(
            path=self.file.parent,
            summary=self.required("summary"),
            packages=self.texts("packages"),
            client=self.required("client"),
            transactions=self.texts("transactions"),
            build=self.texts("build"),
            server=self.text("server"),
            locks=self.locks(),
            server_settings=self.flag("server_settings"),
            unread=self.texts("unread"),
            prepare=self.texts("prepare"),
            memory_mib=memory,
            measured=measured,
            users=self.text("users") or USERS,
            settings=settings,
            scales=self.scales(settings),
            sizes=self.texts("sizes"),
            data=self.text("data") or "",
            data_bytes=self.numbers("data_bytes"),
        )
        named = {
            *found.sizes,
            *({found.users} - {USERS}),
            *re.findall(r"{(\w+)}", found.data),
            *re.findall(r"[a-z]\w*", " ".join(found.data_bytes)),
        }
        if not named <= settings.keys():
            raise self.wrong(f"{', '.join(sorted(named - settings.keys()))} is no setting")
        if found.locks and not found.server:
            raise self.wrong("locks needs server, the executable that has these functions")
        if self.rest:
            raise self.wrong(f"{', '.join(self.rest)} is not known")
        if len(found.client) > _COMM or "/" in found.client:
            raise self.wrong(f"client must be a name of at most {_COMM} characters without '/'")
        if not found.transactions or len(found.transactions) > 127:
            raise self.wrong("transactions must name from 1 to 127 kinds")
        return found
