"""A small study for the tests of sweeps: a text trace of a few hundred milliseconds per run."""

from pathlib import Path


def write_trace(folder: Path, references: int) -> Path:
    """Write a trace of two tasks over shared and private blocks, with transactions."""
    lines = []
    for i in range(references):
        for task in (0, 1):
            lines.append(f"{task} L {0x100000 * task + 64 * (i * 17 % 5003):x}")
            lines.append(f"{task} S {0x900000 + 64 * ((i * 7 + task) % 991):x} 4 s")
            if i % 500 == 499:
                lines.append(f"{task} X done")
    path = folder / "small.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_study(folder: Path, *, references: int = 2000, seeds: int = 3, extra: str = "", factors: str = "") -> Path:
    """Write a study of two factors with two levels each."""
    write_trace(folder, references)
    study = folder / "small.toml"
    study.write_text(
        f"""name = "small"
trace = "small.txt"
machine = "foglia-2004-4p"
seeds = {{ first = 1, count = {seeds} }}
{extra}
[factors]
processors = [1, 2]
cache.size = ["16 KiB", "64 KiB"]
{factors}
"""
    )
    return study
