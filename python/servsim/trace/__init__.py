"""Traces: how they are shown. The format itself is read and written by the Rust core."""
