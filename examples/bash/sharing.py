"""Write a trace in which 16 tasks read and write lines of one another at random: sharing.py FILE [SEED]."""

import sys
from pathlib import Path

from servsim.reproduce.broadcasts import sharing_trace

if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    Path(sys.argv[1]).write_text(sharing_trace(seed), encoding="ascii")
