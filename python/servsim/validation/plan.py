"""What is measured and predicted: one base configuration, and changes of one thing each.

The base is bound by its one processor: commits do not wait for the disk, and everything fits the
server's buffers. So the one figure taken from it, the rate of the processor, is well determined, and
every change tests another part of the simulator.
"""

from dataclasses import dataclass, replace

from servsim.capture.folder_settings import FolderSettings, chosen

#: Transactions that each user runs before any measurement, here and in the guest: a session plans a
#: procedure's statement anew five times before it keeps a generic plan (PostgreSQL 15, plancache.c),
#: and the rarest kinds are 1 in 23 (TPC-C 5.11, clause 5.2.4).
WARM_UP_PER_USER = 120
#: And all users together at least: what the server's buffers hold follows the transactions run, not the users.
LEAST_WARM_UP = 960


@dataclass(frozen=True)
class Configuration:
    """One way to run the workload.

    Attributes
    ----------
    name
        Short name, of the base or of the change.
    what
        The change in words.
    station
        What the change puts under load, named when its prediction is off.
    processors
        Processors that the server and its clients may use.
    users, warehouses
        Load and size of the database; a warehouse has 3 districts of 30 customers, and 100 items.
    server
        Settings of the server beyond those of the guest's recipe.
    """

    name: str
    what: str
    station: str
    processors: int = 1
    users: int = 8
    warehouses: int = 200
    server: tuple[tuple[str, str], ...] = (("synchronous_commit", "off"),)

    def guest(self) -> FolderSettings:
        """Return the guest that this is captured in; the number of processors makes no difference to it."""
        return chosen("oltp", users=self.users, warm_up=self.warm_up, warehouses=self.warehouses, **dict(self.server))

    @property
    def warm_up(self) -> int:
        """Return the transactions before any measurement, of all users together."""
        return max(LEAST_WARM_UP, self.users * WARM_UP_PER_USER)

    @property
    def scale(self) -> str:
        """The scale in the workload's notation."""
        guest = self.guest()
        return "x".join(guest.values()[name] for name in guest.folder.sizes)


BASE = Configuration("base", "1 processor, 8 users, 200 warehouses, commits do not wait", "processor")

CHANGES: tuple[Configuration, ...] = (
    replace(BASE, name="processors", what="processors 1 to 2", station="coherence, locks and scheduling", processors=2),
    replace(BASE, name="users", what="users 8 to 2", station="task switches and idle time", users=2),
    replace(BASE, name="warehouses", what="warehouses 200 to 10", station="caches and row locks", warehouses=10),
    replace(
        BASE,
        name="synchronous_commit",
        what="synchronous_commit off to on",
        station="log disk",
        server=(("synchronous_commit", "on"),),
    ),
    replace(
        BASE,
        name="shared_buffers",
        what="shared_buffers 128 MB to 4 MB",
        station="page cache of the kernel",
        server=(("synchronous_commit", "off"), ("shared_buffers", "4MB")),
    ),
)


def software(configuration: Configuration) -> str:
    """Return the name of the configuration whose captures serve this one."""
    return next(c.name for c in (BASE, *CHANGES) if c.guest() == configuration.guest())
