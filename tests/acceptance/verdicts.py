"""Rerun a study with --quick and check that every row has a verdict and every missed one an explanation.

Exit 0 whatever the verdicts are: they are findings about the workload, printed for people. Exit 1 when
rows are missing, a missed row is not explained, or the command's exit code contradicts its hard rows.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SERVSIM = Path(sys.executable).with_name("servsim")


def is_explained(row: dict[str, Any]) -> bool:
    """Whether a row that is not reproduced says why: one that holds of printed figures alone does so in its claim."""
    holds = not row["measured"] and all(part["holds"] for part in row["parts"])
    return bool(row["verdict"] == "reproduced" or row["explanation"] or holds)


def main(study: str, wanted: int) -> int:
    """Run the check on a study that has ``wanted`` rows."""
    done = subprocess.run(
        [SERVSIM, "reproduce", study, "--quick", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        print(done.stderr, file=sys.stderr)
        return 1
    report = json.loads(done.stdout)
    for row in report["rows"]:
        print(f"{row['name']:4} {row['verdict']:10} {row['claim']}")
    rows = report["rows"]
    silent = [row["name"] for row in rows if not is_explained(row)]
    hard = any(row["hard"] and row["verdict"] == "missed" for row in rows)
    problems = [
        f"{len(rows)} rows instead of {wanted}" if len(rows) != wanted else "",
        f"not explained: {', '.join(silent)}" if silent else "",
        "the exit code contradicts the hard rows" if hard != (done.returncode == 1) else "",
    ]
    found = [problem for problem in problems if problem]
    print("; ".join(found) or "every row has a verdict, every missed one an explanation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
