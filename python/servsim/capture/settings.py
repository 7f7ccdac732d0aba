"""What a guest is made of: the settings of the OLTP workload, and the recipe's files that every guest has.

Everything here goes into the hashes under which image and checkpoint are cached.
"""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from servsim.cache import checkout
from servsim.capture import folder as folders
from servsim.capture.store import file_digest
from servsim.errors import EnvironmentProblem, UsageError

#: Debian release of the guest (kernel 6.1).
SUITE = "bookworm"
#: The recipe's files; all of them are hashed.
RECIPE_FILES = ("packages.txt", "initramfs-init", "init")
#: Bytes of the loaded database per customer (with orders and lines) and per item of a warehouse, indexes included.
_PER_CUSTOMER, _PER_STOCK = 2300, 520
#: The server's own files and its log.
_SERVER = 90 << 20
#: A server setting, as the guest's scripts can take it apart.
_WORD = re.compile(r"[a-z_]+=[\w.-]+")


#: What a client may send at a time, and how it may reach the server; the first of each is the default.
ROUND_TRIPS = ("transaction", "statement")
CONNECTIONS = ("unix", "tcp")


@dataclass(frozen=True)
class GuestSettings:
    """Size and load of the guest's database, and its memory.

    Attributes
    ----------
    warehouses, districts, customers, items
        Scale of the database: warehouses, districts per warehouse, customers per district, items.
    users
        Database users, one server process each.
    warmup
        Transactions run before the checkpoint, over all users; None: until the server has settled.
    seed
        Seed of the load and the warm-up.
    memory_mib
        Guest memory in MiB.
    round_trip
        What a client sends at a time: a whole ``transaction`` (a call of a procedure) or a ``statement``.
    connection
        How clients reach the server: ``unix`` socket, or ``tcp`` over the loopback.
    server
        Settings of the database server that replace those of the recipe's ``postgresql.conf``, as
        (name, value) in any order.
    """

    warehouses: int = 200
    districts: int = 3
    customers: int = 30
    items: int = 100
    users: int = 24
    warmup: int | None = None
    seed: int = 1
    memory_mib: int = 1024
    round_trip: str = ROUND_TRIPS[0]
    connection: str = CONNECTIONS[0]
    server: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what the guest does not know, and what cannot travel in the kernel's command line."""
        for given, known in ((self.round_trip, ROUND_TRIPS), (self.connection, CONNECTIONS)):
            if given not in known:
                raise UsageError(f"{given!r} is none of: {', '.join(known)}")
        wrong = [f"{name}={value}" for name, value in self.server if not _WORD.fullmatch(f"{name}={value}")]
        if wrong:
            raise UsageError(
                f"a server setting of the guest is NAME=VALUE of letters, digits, '.', '_', '-': {wrong[0]!r}"
            )

    @property
    def folder(self) -> folders.Folder:
        """The workload's folder."""
        return folders.read(folders.shipped("oltp"))

    def described(self) -> dict[str, Any]:
        """Return the settings for whoever reads a manifest."""
        return asdict(self)

    def data_bytes(self) -> int:
        """Return the bytes of the loaded database, the server's own files and its log."""
        rows = self.districts * self.customers * _PER_CUSTOMER + self.items * _PER_STOCK
        return _SERVER + self.warehouses * rows

    def load_arguments(self) -> tuple[str, ...]:
        """Return the arguments of ``servsim-oltp load``."""
        scale = asdict(self)
        names = ("warehouses", "districts", "customers", "items", "seed")
        return tuple(part for name in names for part in (f"--{name}", str(scale[name])))

    def kernel_words(self) -> tuple[str, ...]:
        """Return what the guest's init exports to the folder's scripts."""
        warmup = "settle" if self.warmup is None else self.warmup
        words = [f"servsim_users={self.users}", f"servsim_warmup={warmup}", f"servsim_seed={self.seed}"]
        if self.round_trip != ROUND_TRIPS[0]:
            words.append(f"servsim_round_trip={self.round_trip}")
        if self.connection != CONNECTIONS[0]:
            words.append(f"servsim_connection={self.connection}")
        options = ",".join(f"{name}={value}" for name, value in sorted(self.server))
        if options:
            words.append(f"servsim_server={options}")
        return tuple(words)


def recipe_dir() -> Path:
    """Return the folder of the recipe: ``capture/guest`` of the checkout this package runs from.

    Raises
    ------
    EnvironmentProblem
        When the package does not run from a checkout and ``SERVSIM_RECIPE`` names none.
    """
    given = os.environ.get("SERVSIM_RECIPE")
    path = Path(given) if given else checkout("capturing a workload") / "capture" / "guest"
    missing = [name for name in RECIPE_FILES if not (path / name).is_file()]
    if missing:
        raise EnvironmentProblem(
            f"the guest's recipe has no {missing[0]} in {path}: set SERVSIM_RECIPE to a folder that has it"
        )
    return path


def recipe_digests() -> dict[str, str]:
    """Return the hash of each of the recipe's files."""
    path = recipe_dir()
    return {name: file_digest(path / name) for name in RECIPE_FILES}


def packages() -> list[str]:
    """Return the packages the recipe names, sorted."""
    lines = (recipe_dir() / "packages.txt").read_text().splitlines()
    return sorted(line.strip() for line in lines if line.strip() and not line.startswith("#"))
