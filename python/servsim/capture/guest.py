"""What the settings of a workload tell those who make an image and a checkpoint of it."""

from typing import Any, Protocol

from servsim.capture.folder import Folder


class Guest(Protocol):
    """A workload with its settings."""

    @property
    def folder(self) -> Folder:
        """The workload's folder."""

    @property
    def memory_mib(self) -> int:
        """Memory of the guest in MiB."""

    def kernel_words(self) -> tuple[str, ...]:
        """Return what the guest's init exports to the folder's scripts, as ``servsim_NAME=VALUE``."""

    def load_arguments(self) -> tuple[str, ...]:
        """Return the arguments of the folder's ``load``."""

    def data_bytes(self) -> int:
        """Return about how many bytes ``load`` makes."""

    def described(self) -> dict[str, Any]:
        """Return the settings for whoever reads a manifest."""
