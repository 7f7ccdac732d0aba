"""Types of the native module; structured values cross the boundary as JSON text."""

from collections.abc import Callable
from pathlib import Path

__version__: str

def simulate(
    trace: Path,
    machine: str,
    *,
    machine_file: str,
    trace_hash: str,
    format: str | None = None,
    overrides: list[str] = ...,
    engine: str = "timing",
    transactions: int | None = None,
    warmup: int = 0,
    replications: int = 1,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> str: ...
def explain(key: str) -> str: ...
def setting_keys() -> list[str]: ...
def protocol_table(name: str) -> str: ...
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
