"""``servsim classify``: which data miss, and why."""

from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import options, windows
from servsim.cli.options import Settings
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.cli.terminal import warn
from servsim.errors import UsageError
from servsim.text import columns

#: Classes of misses with a column of their own, and the word above it.
_MISSES = {
    "cold": "cold",
    "capacity": "capacity",
    "conflict": "conflict",
    "true_sharing": "true",
    "false_sharing": "false",
    "passive_sharing": "passive",
}
#: The same for coherence transactions.
_COHERENCE = {"needless": "needless", "true_sharing": "true", "false_sharing": "false", "passive_sharing": "passive"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("classify")(command)


def command(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Captured trace or importable file (text, raw16).")],
    machine: Annotated[str, typer.Option("--machine", "-m", help="Description: file or shipped name.")],
    by: Annotated[str | None, typer.Option(help="Group by area (structure), symbol, task, kind, line or page.")] = None,
    sort: Annotated[
        str, typer.Option(help="total, cold, capacity, conflict, true, false, passive or needless.")
    ] = "total",
    top: Annotated[int, typer.Option(min=1, help="Most rows to show.")] = 20,
    watch: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Print every transition of this address's line instead.")
    ] = None,
    symbols: Annotated[Path | None, typer.Option(help="The guest kernel's kallsyms or System.map.")] = None,
    transactions: Annotated[str | None, typer.Option(metavar="N|all", help=options.CLASSIFIED)] = None,
    warmup: Annotated[int | None, typer.Option("--warm-up", min=0, help=options.BEFORE_CLASSIFIED)] = None,
    settings: Settings = None,
    format: Annotated[str | None, typer.Option(help="Format of the trace: servsim, text, raw16.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.classify/1.")] = False,
) -> None:
    """Say which data miss, and why: by class, by mode, and by area, task, transaction kind, line or page."""
    from servsim.classification import classify
    from servsim.progress import expected_references, of_references

    if watch is not None:
        options.refuse_useless(context, "an address is watched from the beginning", "transactions", "warmup")
    counted = options.transactions(transactions)
    expected = expected_references(trace, transactions="all" if watch is not None else counted, warmup=warmup)
    address = None if watch is None else _address(watch)
    with Progress() as progress:
        result = classify(
            trace,
            machine,
            by=by,
            sort=sort,
            top=top,
            watch=address,
            symbols=symbols,
            format=format,
            overrides=settings or [],
            transactions=counted,
            warmup=warmup,
            progress=of_references(progress, "classifying", expected),
        )
    warn(warning["text"] for warning in result.get("warnings", []))
    if as_json:
        print_json(result)
    elif watch is not None:
        print(_steps(result))
    else:
        print(_tables(result, sort))


def _address(text: str) -> int:
    """Return a hexadecimal address, with or without 0x."""
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    if not 0 <= value < 2**64:
        raise UsageError(f"--watch: {text!r} is not a hexadecimal address, such as 0x1a2b40")
    return value


def _sum(modes: dict[str, int]) -> int:
    return modes["user"] + modes["kernel"]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _by_class(title: str, table: dict[str, Any]) -> list[str]:
    """Return a table of classes by mode."""
    whole = _sum(table["total"])
    rows = [[title, "user", "kernel", "total", "share"]]
    for name, modes in table.items():
        label = name.replace("_", " ")
        rows.append(
            [f"  {label}", f"{modes['user']:,}", f"{modes['kernel']:,}", f"{_sum(modes):,}", _share(_sum(modes), whole)]
        )
    return columns(rows)


def _caches(machine: dict[str, Any]) -> str:
    """Return the levels of a machine in words."""
    split = "split " if machine["cache"]["organisation"] == "split" else ""
    outer = [(name, machine[name]) for name in ("l2", "l3") if machine[name]["size"] != "none"]
    levels = [f"{level['size']} {level['sharing']} {name}" for name, level in outer]
    return ", ".join([f"{machine['cache']['size']} {split}caches", *levels])


def _tables(result: dict[str, Any], sort: str) -> str:
    """Return the totals and the rows for people."""
    from servsim.classification import NO_MIGRATION

    machine, total = result["machine"], result["total"]
    references = _sum(total["references"]["total"])
    misses = _sum(total["misses"]["total"])
    lines = [
        f"{result['trace']['name']} on {machine['name']}: {machine['processors']} processors, "
        f"{_caches(machine)}, {machine['cache']['line']} lines, {machine['protocol']['name']}",
        *windows.taken(result["window"], "classified"),
        f"{references:,} references, {misses:,} misses ({_share(misses, references)})",
        "",
        *_by_class("misses", total["misses"]),
        "",
        *_by_class("coherence transactions", total["coherence"]),
        "",
        *_by_class("context-switch misses", total["context_switch_misses"]),
        "  (part of cold, capacity and conflict)",
        "",
        f"({NO_MIGRATION})",
        "",
    ]
    removed = _sum(total["removed"]["copies"])
    if removed:
        lines += [f"copies removed by remote fetches: {removed:,}", ""]
    return "\n".join(lines + _rows(result, sort))


def _rows(result: dict[str, Any], sort: str) -> list[str]:
    """Return the table of groups."""
    by, rest = result["by"], result["left_out"]
    if not result["rows"]:
        return [f"by {by}: nothing of this class"]
    where = by in ("line", "page") and any("area" in row for row in result["rows"])
    head = [
        f"by {by}",
        *(["area"] if where else []),
        "misses",
        *_MISSES.values(),
        "|",
        "coherence",
        *_COHERENCE.values(),
    ]
    rows = [head]
    entries = [*result["rows"], *([{**rest["sum"], "name": f"{rest['rows']:,} others"}] if rest["rows"] else [])]
    for entry in entries:
        name = entry["name"] + (f"  {entry['symbol']}" if entry.get("symbol") else "")
        rows.append(
            [
                name,
                *([entry.get("area", "")] if where else []),
                f"{_sum(entry['misses']['total']):,}",
                *(_count(entry["misses"][key]) for key in _MISSES),
                "|",
                f"{_sum(entry['coherence']['total']):,}",
                *(_count(entry["coherence"][key]) for key in _COHERENCE),
            ]
        )
    order = "misses and transactions" if sort == "total" else f"the class {sort}"
    return [*columns(rows, left=2 if where else 1), f"(rows in order of {order})", *_words(result)]


def _count(modes: dict[str, int]) -> str:
    return f"{_sum(modes):,}" if _sum(modes) else "."


def _words(result: dict[str, Any]) -> list[str]:
    """Say who uses which words of the first lines: false sharing shows as tasks apart from one another."""
    lines: list[str] = []
    for row in [row for row in result["rows"] if row.get("words")][:5]:
        virtual = f", virtual {row['virtual_address']}" if "virtual_address" in row else ""
        lines += ["", f"line {row['address']}{virtual}: offsets that missed by sharing or took others' copies"]
        for word in row["words"][:12]:
            tasks = word["tasks"]
            more = f" and {len(tasks) - 6} more" if len(tasks) > 6 else ""
            lines.append(f"  +{word['offset']:<4} {', '.join(tasks[:6])}{more}")
        if len(row["words"]) > 12:
            lines.append(f"  and {len(row['words']) - 12} more offsets")
    return lines


def _steps(result: dict[str, Any]) -> str:
    """Return the transitions of the watched line."""
    watch = result["watch"]
    rows = [["reference", "cache", "by", "task", "mode", "op", "event", "from -> to", "bus", "class"]]
    for step in watch["steps"]:
        change = f"{step['from']} -> {step['to']}" if step["from"] is not None else ""
        rows.append(
            [
                f"{step['reference']:,}",
                f"cpu {step['cpu']} {step.get('cache', '')}".rstrip(),
                f"cpu {step['by_cpu']} {step.get('by_cache', '')}".rstrip(),
                step["task"],
                step["mode"],
                step["op"],
                step["event"] or "judged",
                change,
                step["transaction"] or "",
                (step["class"] or "").replace("_", " "),
            ]
        )
    head = f"line {watch['line']}: {len(watch['steps']):,} steps"
    if not watch["steps"]:
        return f"line {watch['line']}: the trace does not touch it"
    table = columns(rows, right=1)
    tail = [f"({watch['left_out']:,} further steps are left out)"] if watch["left_out"] else []
    return "\n".join([head, "", *table, *tail])
