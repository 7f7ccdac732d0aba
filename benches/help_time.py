"""Prints the wall time of ``servsim --help`` in milliseconds."""

import json
import subprocess
import sys
import time
from pathlib import Path

start = time.perf_counter()
subprocess.run([Path(sys.executable).with_name("servsim"), "--help"], stdout=subprocess.DEVNULL, check=True)
elapsed = (time.perf_counter() - start) * 1000
print(json.dumps({"figures": [{"name": "servsim --help", "value": elapsed, "unit": "ms"}]}))
