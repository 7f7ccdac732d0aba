"""The guest: built, booted to a checkpoint, and resumed for every capture.

``ensure_checkpoint`` gives a :class:`Checkpoint`; ``resume`` runs transactions from it, under a
plug-in if one is named.
"""

from servsim.capture.checkpoint import Checkpoint, ensure_checkpoint
from servsim.capture.folder_settings import FolderSettings
from servsim.capture.run import GuestResult, resume

__all__ = [
    "Checkpoint",
    "FolderSettings",
    "GuestResult",
    "ensure_checkpoint",
    "resume",
]
