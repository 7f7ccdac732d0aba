"""Verify the queueing model on a captured trace: each prediction within tolerance, or its miss named.

Exit 1 when a predicted configuration is beyond the tolerance without a station named, when a calibrated
one is not told apart, or when the command's exit code contradicts its rows.
"""

import json
import subprocess
import sys
from pathlib import Path

SERVSIM = Path(sys.executable).with_name("servsim")
#: Whose measurements the model uses (Du et al. 2001, section 4.3, and the recommended reading).
CALIBRATED = {"C1", "C2"}


def main(trace: str, *options: str) -> int:
    """Run the check on a trace, with further options of the command."""
    command: list[str | Path] = [SERVSIM, "model", "verify", trace, "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        return 1
    report = json.loads(done.stdout)
    problems = []
    for row in report["rows"]:
        seen = row["simulated"]
        print(
            f"{row['configuration']}: simulated {seen['mean']:.2f} [{seen['low']:.2f}, {seen['high']:.2f}] (n = "
            f"{seen['n']}), model {row['predicted']:.2f}, {100 * row['error']:+.1f} %: {row['verdict']} "
            f"{row['blamed'] or ''}"
        )
        beyond = abs(row["error"]) > report["tolerance"]
        if (row["verdict"] == "calibrated") != (row["configuration"] in CALIBRATED):
            problems.append(f"{row['configuration']} is {row['verdict']}")
        elif row["verdict"] != "calibrated" and beyond and not row["blamed"]:
            problems.append(f"{row['configuration']} is beyond the tolerance and names no station")
    if report["holds"] != (done.returncode == 0):
        problems.append("the exit code contradicts the rows")
    print("; ".join(problems) or "every prediction is within the tolerance or names what it misses by")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
