"""Check of a ``servsim validate --json`` document: variation shrinks with the window, natively."""

import json
import sys
from pathlib import Path

document = json.loads(Path(sys.argv[1]).read_text())
found = [(row["seconds"], row["within_percent"]) for row in document["variability"]["native"]]
for seconds, percent in found:
    print(f"windows of {seconds:g} s: standard deviation {percent:.1f} % of the mean")
if len(found) < 3 or found[-1][1] >= found[0][1]:
    sys.exit("native variation does not shrink with the window")
