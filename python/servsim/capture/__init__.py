"""The guest: built, booted to a checkpoint, and resumed for every capture.

``ensure_checkpoint`` gives a :class:`Checkpoint`; ``resume`` runs transactions from it, under a
plug-in if one is named; ``kernel_facts`` and ``server_facts`` tell a plug-in where to hook.
"""

from servsim.capture.checkpoint import Checkpoint, ensure_checkpoint
from servsim.capture.facts import kernel_facts, server_facts
from servsim.capture.run import GuestResult, resume
from servsim.capture.settings import GuestSettings

__all__ = [
    "Checkpoint",
    "GuestResult",
    "GuestSettings",
    "ensure_checkpoint",
    "kernel_facts",
    "resume",
    "server_facts",
]
