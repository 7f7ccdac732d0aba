"""The files that printed examples name, made up so that every example has something to read."""

from pathlib import Path

import numpy as np
import printed_examples as examples
from servsim import _core
from servsim.environment import shipped_trace


def requests(path: Path, count: int = 1000) -> None:
    """Write a block trace: a first-come first-served disk with jumps and sequential requests."""
    random = np.random.default_rng(1)
    now = free = block = 0
    lines = ["arrival_us,op,lba,sectors,completion_us"]
    for _ in range(count):
        now += int(random.exponential(12_000))
        jump = random.random() < 0.7
        block = int(random.integers(0, 1_000_000)) * 8 if jump else block + 8
        free = max(now, free) + (int(random.integers(5000, 9000)) if jump else 1000)
        lines.append(f"{now},{int(random.random() < 0.4)},{block},8,{free}")
    path.write_text("\n".join(lines))


def furnish(folder: Path, trace: Path) -> None:
    """Put the files that the examples name into a folder; `trace` stands for every capture."""
    for name in ("oltp.svt", "java.svt", "static.svt", "webmix.svt", "a.svt", "b.svt"):
        (folder / name).symlink_to(trace)
    shipped = shipped_trace()
    assert shipped is not None
    for number, first in enumerate((2, 5, 7), start=1):  # different pieces of one trace stand for captures
        _core.trace_cut(shipped, folder / f"oltp.{number}.svt", (first, first + 2), None, None)
    for name in ("requests.csv", "trace.csv", "planned.csv"):
        requests(folder / name)
    (folder / "examples").symlink_to(examples.ROOT / "examples")
    for name in ("study.toml", "caches.toml"):
        (folder / name).write_text(examples.printed_study())
    (folder / "app.lackey").write_text("I  04000000,3\n L 1ffeffe7e0,8\n S 1ffeffe7e8,8\n M 1ffeffe7f0,4\n")
