"""Types of the native module; structured values cross the boundary as JSON text."""

from collections.abc import Callable
from os import PathLike

__version__: str

def simulate(
    trace: str | PathLike[str],
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
