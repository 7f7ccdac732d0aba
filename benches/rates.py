"""Write the rates of the engines and of the capture, as one run of `make bench` measured them, into a page.

Usage: rates.py out/bench.json --page docs/performance.md. Every figure is the median of its runs, with the lowest and
the highest, beside what is aimed at (`benches/engine.toml`).
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from common import ROOT, write_between

sys.path.insert(0, str(ROOT / "scripts"))

from bench import aimed, number

MARKS = ("<!-- rates: written by benches/rates.py --page -->", "<!-- rates end -->")
#: Benchmarks without a table or a picture of their own.
SHOWN = ("engines", "capture", "timing", "passes", "slowdown", "slowdown, several busy")


def row(figure: dict[str, Any]) -> str:
    """Return a figure's line of the table."""
    values = figure["values"]
    spread = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
    cells = [figure["benchmark"], figure["name"], number(figure["median"]) + spread, figure["unit"], aimed(figure)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Read what was measured, write the table."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("measured", type=Path)
    read.add_argument("--page", type=Path, required=True)
    given = read.parse_args()
    document = json.loads(given.measured.read_text(encoding="utf-8"))
    host = document["host"]
    told = f"Measured on {document['time'][:10]} at {host['commit']}: {host['processor']}, {host['cores']} processors."
    rows = [row(figure) for figure in document["figures"] if figure["benchmark"] in SHOWN]
    head = ["| benchmark | figure | median (lowest to highest) | unit | wanted |", "|---|---|---|---|---|"]
    write_between(given.page, MARKS, told, [*head, *rows])


if __name__ == "__main__":
    main()
