"""What benchmarks share: the programs of `cargo bench`, and tables of pages that a benchmark writes."""

import json
import subprocess
from pathlib import Path

from servsim.files import atomic_write

ROOT = Path(__file__).resolve().parent.parent


def built(name: str) -> str:
    """Build benchmark ``name`` of the machine; its program."""
    command = ["cargo", "bench", "-q", "-p", "servsim-machine", "--bench", name, "--no-run", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    artefacts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return str(next(one["executable"] for one in artefacts if one.get("target", {}).get("name") == name))


def write_between(page: Path, marks: tuple[str, str], told: str, table: list[str]) -> None:
    """Replace what stands between two marks of a page by a sentence and the lines of a table."""
    text = page.read_text(encoding="utf-8")
    first, last = (text.index(mark) for mark in marks)
    atomic_write(page, text[:first] + "\n".join([marks[0], told, "", *table, ""]) + text[last:])
