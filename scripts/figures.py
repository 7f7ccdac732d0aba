"""Write docs/reference/figures.md from the registry of figures in the simulator; ``--check`` only compares.

Run with the Python of ``.venv`` after ``make build``.
"""

import sys
from pathlib import Path

from servsim.registry import Entry, entries

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "figures.md"

HEAD = """# Figures and counters of a run

Every number of a replication of a result, which `servsim explain NAME` explains too. All are of the measured window.
Those of the first table, and the counters that say so, are in the `summary` of a result: their mean over replications
with a 95 % interval, all processors and both modes together. `servsim compare --by` and `servsim sweep --show` take any
of them. A `*` stands for a number or for a name; counters of user and kernel mode stand in results under `user` and
`kernel`. Written from the registry by `.venv/bin/python scripts/figures.py`.
"""


def _table(title: str, found: list[Entry]) -> str:
    rows = (f"| `{f.path}` | {f.unit} | {f.meaning}{_more(f)} |\n" for f in found)
    return f"\n## {title}\n\n| figure | unit | meaning |\n|---|---|---|\n" + "".join(rows)


def _more(known: Entry) -> str:
    more = [f"one of {', '.join(f'`{part}`' for part in known.parts)}"] if known.parts else []
    more += ["summarised"] if known.counter and known.summarised else []
    more += ["also in every window of a run"] if known.windowed else []
    more += [f"{known.better} is better"] if known.better else []
    return f" ({'; '.join(more)})" if more else ""


def page() -> str:
    """Return the page that the registry asks for."""
    known = entries()
    return (
        HEAD
        + _table("Figures", [f for f in known if f.summarised and not f.counter])
        + _table("Counters", [f for f in known if f.counter])
        + _table("Further records", [f for f in known if not f.summarised and not f.counter])
    )


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is out of date: run scripts/figures.py")
    PAGE.write_text(page(), encoding="utf-8")
