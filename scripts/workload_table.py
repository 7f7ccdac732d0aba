"""Captures small runs of workloads and says what is known of them: a row of a table for each.

For each: memory touched, share of the kernel, data references per transaction, misses on one machine by class and by
the data with most of them, seconds of the capture from its checkpoint, bytes of the trace per data reference. All come
from commands of servsim; a trace that does not agree with the independent counter ends the script.

``workload_table.py [--write] [--keep FOLDER | --trace FILE] [ROW ...]``: prints the rows, all or those whose name holds
a word; ``--write`` puts them into docs/workloads.md, where the other rows stay. With ``--keep``, captures stay in a
folder and are taken from there if they are in it. Of one row, ``--trace`` takes a trace that was captured before with
``--verify``; how long that took is then not known.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "workloads.md"


def kernel(name: str, size: str, *more: str) -> tuple[str, tuple[str, ...]]:
    """Return the row of a kernel, on four threads unless it is said how many, one iteration measured."""
    chosen = (f"kernel={name}", f"size={size}", *more)
    sets = tuple(part for word in chosen for part in ("--set", word))
    threads = "".join(f", {word.removeprefix('threads=')} threads" for word in more if word.startswith("threads="))
    return f"kernels: {name}, {size}{threads}", ("kernels", *sets, "--transactions", "1")


#: What is captured: a name for the row, and the words of ``servsim capture``.
CAPTURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    kernel("fft", "32"),
    kernel("ocean", "66"),
    kernel("water-nsquared", "216"),
    kernel("water-spatial", "512"),
    kernel("barnes", "1024"),
    kernel("fmm", "1024"),
    kernel("membench", "1MiB", "test=all"),
    kernel("fft", "64", "threads=16"),
    kernel("ocean", "130", "threads=16"),
    kernel("water-nsquared", "512", "threads=16"),
    kernel("water-spatial", "1728", "threads=16"),
    kernel("barnes", "4096", "threads=16"),
    kernel("fmm", "4096", "threads=16"),
    ("javaserver, 4 warehouses", ("javaserver", "--transactions", "1000")),
    ("staticweb, 8 users", ("staticweb", "--transactions", "400")),
    ("oltp, 12 users", ("oltp", "--users", "12", "--transactions", "144")),
    ("oltp-sqlite, 8 users", ("oltp-sqlite", "--transactions", "150")),
    ("ecommerce, 8 users", ("ecommerce", "--transactions", "320")),
    ("board, 8 users", ("board", "--transactions", "100")),
    ("webmix, 8 users", ("webmix", "--transactions", "200")),
    ("redis (example), 4 users", (str(ROOT / "examples" / "workloads" / "redis"), "--transactions", "300")),
)
MACHINE = "foglia-2004-4p"
CLASSES = ("cold", "capacity", "conflict", "true_sharing", "false_sharing", "passive_sharing")
HEADING = (
    *("workload", "memory touched", "kernel", "data references per transaction"),
    *("misses: cold, capacity, conflict, true, false, passive sharing", "most misses"),
    *("capture", "bytes per reference"),
)
SERVSIM = Path(sys.executable).with_name("servsim")


def answer(*words: str) -> Any:
    """Return the JSON that a command prints."""
    done = subprocess.run([SERVSIM, *words, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def row(name: str, words: tuple[str, ...], trace: Path) -> list[str]:
    """Return the row of a workload: of its trace, or of a capture if there is none."""
    told = trace.with_suffix(".json")
    if not trace.exists():
        told.write_text(json.dumps(answer("capture", *words, "--verify", "-o", str(trace))))
    seconds = f"{json.loads(told.read_text())['guest_seconds']:.0f} s" if told.exists() else "-"
    described = answer("trace", "info", str(trace))
    captured = described["totals"]
    # Of a workload that does not say what lies where in its memory, areas are known.
    grouping = "relation" if described["shared_data_ranges"] else "area"
    classified = answer("classify", str(trace), "-m", MACHINE, "--by", grouping)
    pages = answer("classify", str(trace), "-m", MACHINE, "--by", "page")
    references, misses = classified["total"]["references"], classified["total"]["misses"]
    total, every = references["total"], sum(misses["total"].values())
    # Every page that is touched misses once; pages are those of the guest, 4 KiB.
    touched = 4 * (len(pages["rows"]) + (pages["left_out"] or {"rows": 0})["rows"])
    structures = [
        f"{found['name']} {sum(found['misses']['total'].values()) / every:.0%}" for found in classified["rows"]
    ]
    return [
        name,
        f"{touched / 1024:.1f} MiB",
        f"{total['kernel'] / (total['user'] + total['kernel']):.0%}",
        f"{captured['data_references'] / captured['transactions']:,.0f}",
        ", ".join(f"{sum(misses[kind].values()) / every:.0%}" for kind in CLASSES),
        ", ".join(structures[:3]),
        seconds,
        f"{captured['file_bytes'] / captured['data_references']:.2f}",
    ]


def line(cells: list[str] | tuple[str, ...]) -> str:
    """Return a line of the table."""
    return "| " + " | ".join(cells) + " |"


def with_row(text: str, cells: list[str]) -> str:
    """Return the document with a row put into its table, in the order of `CAPTURES`; other rows stay."""
    found = re.search(r"(<!-- captured: .*?-->\n)(.*?)(<!-- captured end -->)", text, re.S)
    if found is None:
        raise SystemExit(f"{DOCUMENT} has no place for the table")
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in found[2].splitlines()[2:]}
    rows[cells[0]] = line(cells)
    kept = [rows[name] for name, _ in CAPTURES if name in rows]
    table = "\n".join([line(HEADING), "|" + "---|" * len(HEADING), *kept])
    return text[: found.start()] + found[1] + table + "\n" + found[3] + text[found.end() :]


def main() -> None:
    """Print the rows, and write them if that is asked for."""
    parser = argparse.ArgumentParser(description="Rows of the table in docs/workloads.md.")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("rows", nargs="*")
    given = parser.parse_args()
    wanted = [(name, words) for name, words in CAPTURES if not given.rows or any(word in name for word in given.rows)]
    if given.trace and len(wanted) != 1:
        parser.error(f"--trace is of one row, not of {len(wanted)}")
    print(line(HEADING) + "\n|" + "---|" * len(HEADING), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in wanted:
            file = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") + ".svt"
            cells = row(name, words, given.trace or (given.keep or Path(folder)) / file)
            print(line(cells), flush=True)
            if given.write:
                DOCUMENT.write_text(with_row(DOCUMENT.read_text(), cells))


if __name__ == "__main__":
    main()
