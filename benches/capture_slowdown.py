"""How much slower the guest runs while it is captured: seconds of the host per transaction.

Without a plug-in the time of a transaction is the slope between a long and a short run from the same
checkpoint, so that resuming and powering off drop out. Under capture it is what the plug-in reports
between the start and the stop mark.
"""

import json
import sys
import tempfile
from pathlib import Path

from servsim.capture.checkpoint import ensure_checkpoint
from servsim.capture.folder_settings import chosen
from servsim.capture.run import resume
from servsim.capture.workload import capture

SHORT, LONG = 24, 144


def say(line: str) -> None:
    """Write progress."""
    print(line, file=sys.stderr)


def main() -> None:
    """Measure and print JSON."""
    settings = chosen("oltp")
    checkpoint = ensure_checkpoint(settings, say)
    short, long = (resume(checkpoint, n, 1, check=False).elapsed_s for n in (SHORT, LONG))
    plain = (long - short) / (LONG - SHORT)
    with tempfile.TemporaryDirectory() as folder:
        document = capture(LONG, Path(folder) / "t.svt", settings, say).as_document()
    captured = document["plugin"]["recording_seconds"] / LONG
    figures = (
        ("guest alone", plain, "s/transaction"),
        ("guest captured", captured, "s/transaction"),
        ("slowdown by capture", captured / plain, "x"),
        ("captured data references", document["data_references_per_second"], "1/s"),
        ("trace size", document["bytes_per_data_reference"], "bytes/data reference"),
    )
    named = [{"name": name, "value": value, "unit": unit} for name, value, unit in figures]
    print(json.dumps({"figures": named}))


if __name__ == "__main__":
    main()
