"""What ``servsim trace`` prints for people."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servsim.text import printable
from servsim.trace.syscalls import SYSCALL_NAMES

#: Sources of interrupts, by their number in the trace (FORMAT.md).
INTERRUPT_SOURCES = {0: "device", 1: "timer", 2: "reschedule", 3: "function call", 4: "other"}


class _Plain(Console):
    """Shows names of others as they are: no markup in them, no commands to the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **{**options, "markup": False, "emoji": False})


def _console(stderr: bool = False) -> Console:
    return _Plain(stderr=stderr, markup=False, emoji=False)


def _totals(totals: dict[str, Any]) -> str:
    transactions = totals["transactions"]
    return (
        f"{transactions:,} transaction{'' if transactions == 1 else 's'}, {totals['instructions']:,} instructions, "
        f"{totals['data_references']:,} data references"
    )


def info(found: dict[str, Any]) -> None:
    """Print the answer of ``trace info``."""
    console = _console()
    meta, totals = found["meta"], found["totals"]
    console.print(f"{found['path']}: {meta['workload'] or 'unnamed workload'}, {_size(found['file_bytes'])}")
    if totals:
        console.print(
            f"{_totals(totals)}, {found['file_bytes'] / max(totals['data_references'], 1):.2f} bytes per data reference"
        )
    console.print(f"{found['epochs']:,} epochs, {found['block_shapes']:,} block shapes, {len(found['tasks'])} tasks")
    for key, value in (meta["provenance"] or {}).items():
        console.print(f"  {key}: {value}", highlight=False)
    table = _table("task", "pid", "name", "kind", "client")
    for number, task in enumerate(found["tasks"]):
        table.add_row(str(number), str(task["pid"]), task["name"], task["kind"], "yes" if task["client"] else "")
    console.print(table)


def check(found: dict[str, Any]) -> None:
    """Print the answer of ``trace check``."""
    for finding in found["findings"]:
        print(finding)
    if found["more_findings"]:
        print(f"... and {found['more_findings']:,} more")
    if not found["findings"]:
        print(
            f"{found['path']}: {found['items']:,} blocks and events of {found['tasks']:,} tasks "
            f"in {found['epochs']:,} epoch{'' if found['epochs'] == 1 else 's'} keep every rule"
        )


def stats(found: dict[str, Any]) -> None:
    """Print the answer of ``trace stats``."""
    console = _console()
    console.print(_references(found))
    console.print(_tasks(found))
    console.print(_counts("transaction", found["transactions"], found["rolled_back"]))
    calls = {SYSCALL_NAMES.get(int(n), f"number {n}"): count for n, count in found["syscalls"].items()}
    console.print(_counts("system call", calls))
    sources = {INTERRUPT_SOURCES.get(int(n), n): count for n, count in found["interrupts"].items()}
    console.print(_counts("interrupt", sources))
    console.print(
        f"disk: {found['io_reads']:,} reads ({_size(found['io_read_bytes'])}), "
        f"{found['io_writes']:,} writes ({_size(found['io_written_bytes'])}), "
        f"{found['io_flushes']:,} flushes, {found['io_completed']:,} completed"
    )
    console.print(f"locks: {found['lock_acquires']:,} acquired, {found['lock_releases']:,} released")
    console.print(f"guest time {found['duration_ns'] / 1e6:,.3f} ms")
    if found["bytes_per_data_reference"] is not None:  # none where a trace ends before its first data reference
        console.print(f"{found['bytes_per_data_reference']:.3f} bytes per data reference")


def formats(found: dict[str, Any]) -> None:
    """Print the answer of ``trace formats``."""
    console = _console()
    for entry in found["formats"]:
        endings = ", ".join(f".{extension}" for extension in entry["extensions"])
        way = "read and written" if entry["written"] else "read"
        console.print(f"{entry['name']}  {endings}  ({way})", style="bold", highlight=False)
        for key in ("about", "holds", "lacks"):
            console.print(f"    {key}: {entry[key]}", highlight=False, markup=False, soft_wrap=True)
    compressions = ", ".join(f".{extension}" for extension in found["compressions"])
    console.print(f"Foreign formats but raw16 and text may be compressed: {compressions}.", highlight=False)


def written(output: Path, totals: dict[str, Any]) -> None:
    """Say what a new trace holds."""
    _console(stderr=True).print(
        f"{output}: {_totals(totals)}, {_size(totals['file_bytes'])}",
        highlight=False,
    )


def _references(found: dict[str, Any]) -> Table:
    """Build the table of instructions and references by mode."""
    table = _table("", "instructions", "loads", "stores", title="Captured references")
    for title, counts in (("all", found["total"]), ("without client and idle", found["measured"])):
        for mode in ("user", "kernel"):
            cells = [f"{counts[f'{mode}_{what}']:,}" for what in ("instructions", "loads", "stores")]
            table.add_row(f"{mode}, {title}", *cells)
    return table


def _tasks(found: dict[str, Any]) -> Table:
    """Build the table of tasks, busiest first."""
    table = _table("task", "user instr.", "kernel instr.", "data refs", "waits", "preempted", "wakes", title="Tasks")
    busy = sorted(found["tasks"], key=lambda task: -_instructions(task["counts"]))
    for task in busy:
        counts = task["counts"]
        if not _instructions(counts):
            continue
        data = sum(counts[f"{mode}_{what}"] for mode in ("user", "kernel") for what in ("loads", "stores"))
        numbers = (counts["user_instructions"], counts["kernel_instructions"], data)
        events = (task["blocks"], task["preemptions"], task["wakes"])
        name = f"{task['name']} ({task['pid']})" + (" client" if task["client"] else "")
        table.add_row(name, *(f"{number:,}" for number in numbers + events))
    return table


def _instructions(counts: dict[str, int]) -> int:
    return counts["user_instructions"] + counts["kernel_instructions"]


def _counts(what: str, counts: dict[str, int], rolled_back: int = 0) -> Table:
    """Build a table of counted things, most frequent first."""
    table = _table(what, "count")
    for name, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        table.add_row(str(name), f"{count:,}")
    if rolled_back:
        table.add_row("of these rolled back as specified", f"{rolled_back:,}")
    return table


def _table(first: str, *others: str, title: str | None = None) -> Table:
    """Make a table whose later columns hold numbers."""
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _size(count: float) -> str:
    """Format a number of bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"
