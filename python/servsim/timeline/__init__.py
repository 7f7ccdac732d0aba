"""What happened along a run: every counter per window as a table, and a picture for Perfetto."""

from servsim.timeline.perfetto import trace_events
from servsim.timeline.windows import parquet, windows

__all__ = ["parquet", "trace_events", "windows"]
