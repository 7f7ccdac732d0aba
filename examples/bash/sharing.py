"""Write a trace in which 16 tasks read and write lines of one another at random: sharing.py FILE [SEED].

Each task touches a random one of 2,048 shared lines, half of the times to write it, and then 20 times a line of its
own. So nearly every shared access finds the line in another cache. 20 shared accesses are a transaction.
"""

import random
import sys
from pathlib import Path

TASKS, TRANSACTIONS, ACCESSES, OWN, LINES = 16, 150, 20, 20, 2048


def trace(seed: int) -> str:
    """Return the trace as text."""
    draw = random.Random(seed)
    lines = []
    for _ in range(TRANSACTIONS):
        for task in range(TASKS):
            for _ in range(ACCESSES):
                shared = 0x100_0000 + draw.randrange(LINES) * 64
                lines.append(f"{task} {draw.choice('LS')} {shared:x} 4 s")
                lines.extend([f"{task} L {0x8000_0000 + task * 4096:x} 4 p"] * OWN)
            lines.append(f"{task} X 0")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(trace(int(sys.argv[2]) if len(sys.argv) > 2 else 1), encoding="ascii")
