"""Write docs/reference/figures.md from the registry of figures in the simulator; ``--check`` only compares.

Run with the Python of ``.venv`` after ``make build``.
"""

import json
import sys
from pathlib import Path

from servsim import _core

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "figures.md"

HEAD = """# Figures of a run

Every figure that the `summary` of a result describes, that `servsim compare` and `servsim sweep` can show, and that
`servsim explain FIGURE` explains. All of them are counted in the measured window, over all processors and both modes,
and are summarised by their mean over replications with a 95 % interval. A `*` stands for a number from 1 or for a name.
Written from `crates/servsim-machine/src/figures.rs` by `.venv/bin/python scripts/figures.py`.

| figure | unit | meaning |
|---|---|---|
"""


def page() -> str:
    """Return the page that the registry asks for."""
    rows = (f"| `{f['path']}` | {f['unit']} | {f['meaning']} |\n" for f in json.loads(_core.figures()))
    return HEAD + "".join(rows)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is out of date: run scripts/figures.py")
    PAGE.write_text(page(), encoding="utf-8")
