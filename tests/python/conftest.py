"""Fixtures that several files use, and how properties are tried: the same cases in every run, however busy the host."""

from block_capture import kernel_program, loop_device, tracefs
from hypothesis import HealthCheck, settings

__all__ = ["kernel_program", "loop_device", "tracefs"]

settings.register_profile("fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")
