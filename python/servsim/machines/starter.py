"""A machine description to begin with: each setting with its default, what it means and what it takes."""

from textwrap import wrap

from servsim.machines.settings import Setting, settings
from servsim.text import printable, toml_string

#: Columns of a comment, without its mark.
_WIDTH = 98
#: What a description says first: how many cores how fast, their caches, what joins them to the memory, the disks. All
#: else is left to `servsim explain`, or written with a mark before it.
_FIRST = (
    "name",
    "processors",
    "clock",
    "processor.model",
    "processor.cycles_per_reference",
    "cache.organisation",
    "cache.size",
    "cache.associativity",
    "cache.line",
    "l2.size",
    "l2.associativity",
    "l2.sharing",
    "l2.latency",
    "protocol.name",
    "interconnect.kind",
    "bus.memory_read",
    "bus.cache_read",
    "bus.bytes_per_cycle",
    "scheduler.policy",
    "scheduler.time_slice",
    "disk.read_time",
    "disk.write_time",
    "disk.parallel",
)


def starter(name: str, *, everything: bool = False) -> str:
    """Return a description to begin with.

    Parameters
    ----------
    name
        What the machine is called.
    everything
        Every setting, those that a description seldom says behind a ``#``.

    Returns
    -------
    str
        TOML, of the machine with all defaults.
    """
    wanted = [one for one in settings() if everything or one.key in _FIRST]
    left = len(settings()) - len(wanted)
    more = (
        f"{left} more settings have their defaults. `servsim explain` tells of them; --all writes them too."
        if left
        else "A setting behind a # has the value that stands there: take the # away to change it."
    )
    lines = [
        "# A machine for servsim.",
        "#     servsim machine check FILE    finds all faults at once",
        "#     servsim machine show FILE     says what it is; --picture FILE.svg draws it",
        *_comment(more),
    ]
    group = ""
    for setting in wanted:
        of, _, key = setting.key.rpartition(".")
        lines.append("")
        if of != group:
            lines.append(f"[{of}]")
            group = of
        said = toml_string(printable(name)) if setting.key == "name" else setting.default
        mark = "" if setting.key in _FIRST else "#"
        lines += [*_comment(_about(setting)), f"{mark}{key} = {said}"]
    return "\n".join(lines) + "\n"


def _about(setting: Setting) -> str:
    """Return what a setting means, and what it takes."""
    accepted = "" if setting.accepted == "text" else f" {setting.accepted[0].upper()}{setting.accepted[1:]}."
    return setting.meaning + accepted


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH)]
