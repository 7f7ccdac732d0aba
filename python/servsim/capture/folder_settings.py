"""A workload's folder with values for its settings: what image, checkpoint and capture are made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from servsim.capture.emulator import LEAST_MEMORY_MIB, MOST_MEMORY_MIB
from servsim.capture.folder import MEMORY, SETTING_NAME, Folder, find
from servsim.errors import UsageError

#: What a value may be, so that it can travel in the kernel's command line.
_VALUE = re.compile(r"[\w.:/-]+")


@dataclass(frozen=True)
class FolderSettings:
    """A workload's folder with values for its settings: what image and checkpoint are made of.

    Examples
    --------
    >>> from pathlib import Path
    >>> from servsim.capture.folder import Setting
    >>> kv = Folder(Path("kv"), "a store", (), "kv", ("get",), settings={"users": Setting("4", "clients")})
    >>> FolderSettings(kv, {"users": "8"}).kernel_words()
    ('servsim_users=8',)
    """

    folder: Folder
    given: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that the folder does not have, and values that cannot travel to the guest."""
        for name, value in self.given.items():
            if name not in self.folder.settings and name != MEMORY and not self.folder.server_settings:
                known = ", ".join(self.folder.settings) or "none"
                raise UsageError(f"{self.folder.path} has no setting {name!r}; there is: {known}")
            if not SETTING_NAME.fullmatch(name):
                raise UsageError(f"{name!r}: a setting is named in lower-case letters, digits and '_'")
            if not _VALUE.fullmatch(value):
                raise UsageError(f"{name}={value!r}: a value is letters, digits, '.', ':', '/', '_' and '-'")
        for name, setting in self.folder.settings.items():
            if setting.choices and self.values()[name] not in setting.choices:
                is_none = f"{name}={self.given[name]!r} is none" if name in self.given else f"give --set {name}=, one"
                raise UsageError(f"{self.folder.path.name}: {is_none} of: {', '.join(setting.choices)}")
        users = self.values().get(self.folder.users, "1")
        if not users.isdecimal() or int(users) < 1:
            raise UsageError(f"{self.folder.users}={users!r}: how many users there are is a number of at least 1")
        memory = self.given.get(MEMORY, str(self.folder.memory_mib))
        if not memory.isdecimal() or not LEAST_MEMORY_MIB <= int(memory) <= MOST_MEMORY_MIB:
            bounds = f"a number from {LEAST_MEMORY_MIB} to {MOST_MEMORY_MIB}"
            raise UsageError(f"{MEMORY}={memory!r}: the guest's memory in MiB is {bounds}")

    @property
    def users(self) -> int:
        """How many users there are; one where the folder has no such setting."""
        return int(self.values().get(self.folder.users, "1"))

    @property
    def memory_mib(self) -> int:
        """Memory of the guest in MiB."""
        return int(self.given.get(MEMORY, self.folder.memory_mib))

    def values(self) -> dict[str, str]:
        """Return the value of every setting."""
        return {name: self.given.get(name, setting.default) for name, setting in self.folder.settings.items()}

    def kernel_words(self) -> tuple[str, ...]:
        """Return what the guest's init exports to the folder's scripts; a setting without a value is not exported."""
        words = {**self.values(), **({"server": self.of_server()} if self.of_server() else {})}
        return tuple(f"servsim_{name}={value}" for name, value in sorted(words.items()) if value)

    def of_server(self) -> str:
        """Return the settings that are the server's own, as ``NAME=VALUE,NAME=VALUE``."""
        own = {name: value for name, value in self.given.items() if name not in {*self.folder.settings, MEMORY}}
        return ",".join(f"{name}={value}" for name, value in sorted(own.items()))

    def data(self) -> str:
        """Say what the data are, in the folder's words."""
        value = {name: f"{int(text):,}" if text.isdecimal() else text for name, text in self.values().items()}
        return self.folder.data.format_map(value)

    def load_arguments(self) -> tuple[str, ...]:
        """Return the arguments of the folder's ``load``: the settings that the data depend on."""
        loads = (name for name, setting in sorted(self.folder.settings.items()) if setting.load)
        return tuple(f"{name}={self.values()[name]}" for name in loads)

    def data_bytes(self) -> int:
        """Return about how many bytes ``load`` makes: what the folder says, or a quarter of a GiB."""
        value = {name: int(text) if text.isdecimal() else 0 for name, text in self.values().items()}
        terms = ((product.split("*"), each) for product, each in self.folder.data_bytes.items())
        factors = (([value.get(name.strip(), 1) for name in names], each) for names, each in terms)
        return sum(prod(numbers) * each for numbers, each in factors) or 256 << 20

    def described(self) -> dict[str, Any]:
        """Return the settings for whoever reads a manifest or a trace."""
        own = {"server": self.of_server()} if self.of_server() else {}
        return {"workload": self.folder.path.name, **self.values(), MEMORY: str(self.memory_mib), **own}


def chosen(name: str, **given: object) -> FolderSettings:
    """Return a workload that ships, with values for some of its settings."""
    return FolderSettings(find(name), {key: str(value) for key, value in given.items()})
