"""Fixtures that several files use."""

from block_capture import kernel_program, loop_device, tracefs

__all__ = ["kernel_program", "loop_device", "tracefs"]
