"""The exceptions a servsim command can end with, one per exit code."""

from typing import Any


class ServsimError(Exception):
    """Base class: the message is one clear sentence, with the remedy."""

    exit_code = 70


class Interrupted(KeyboardInterrupt):
    """A simulation was interrupted after some of its replications had ended.

    Attributes
    ----------
    result : dict
        The result with those replications, the first seeds; it says ``interrupted``.
    """

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("interrupted")
        self.result = result


class CheckFailed(ServsimError):
    """The run completed, but a check or a comparison failed."""

    exit_code = 1


class UsageError(ServsimError):
    """The command line or an input file is wrong."""

    exit_code = 2


class Saturated(UsageError):
    """A model's load is more than it can serve, or so nearly that its figures take too long to find."""


class EnvironmentProblem(ServsimError):
    """The machine lacks something: a program, a privilege, room on a disk."""

    exit_code = 3


class InternalBug(ServsimError):
    """A fault of servsim itself."""

    exit_code = 70
