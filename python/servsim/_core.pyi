"""Types of the native module; structured values cross the boundary as JSON text."""

from pathlib import Path

__version__: str

def trace_info(path: Path) -> str: ...
def trace_stats(path: Path) -> str: ...
def trace_cut(
    path: Path,
    output: Path,
    transactions: tuple[int, int] | None = None,
    time_ns: tuple[int, int] | None = None,
    pids: list[int] | None = None,
) -> str: ...
def trace_sample(path: Path, output: Path, keep: int, of: int) -> str: ...
def trace_merge(paths: list[Path], output: Path) -> str: ...
