"""Every setting of a machine description, as the simulator reads it."""

import json
from dataclasses import dataclass
from functools import cache

from servsim import _core


@dataclass(frozen=True)
class Setting:
    """What is known of a setting.

    Attributes
    ----------
    key : str
        Its name, after that of its group and a dot where it has one.
    accepted : str
        Which values it takes, with their units.
    default : str
        What it is where a description does not say, as TOML.
    meaning, source : str
        What it does, and where the default is from.
    """

    key: str
    accepted: str
    default: str
    meaning: str
    source: str

    @property
    def choices(self) -> list[str]:
        """The words that it takes; none where it takes something else."""
        listed = self.accepted.removeprefix("one of ")
        return listed.split(", ") if listed != self.accepted else []


@cache
def settings() -> tuple[Setting, ...]:
    """Return every setting, those of a group one after the other."""
    return tuple(Setting(**fields) for fields in json.loads(_core.settings()))


def setting_keys() -> list[str]:
    """Return the keys of all settings."""
    return [setting.key for setting in settings()]
