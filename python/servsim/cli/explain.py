"""``servsim explain``: what a setting, an option of the method or a figure means, and the picture of a machine."""

import difflib
import json
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.options import EXPLAINED
from servsim.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain")(command)


def command(
    key: Annotated[
        str | None,
        typer.Argument(
            help="Key such as cache.line, group such as cache, figure such as misses, or a machine, a name or a file; "
            "all settings without it."
        ),
    ] = None,
    drawn: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Draw the machine, a name or a file, as SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.explain/1.")] = False,
) -> None:
    """Print what a setting, figure or counter means (values, default and source, or unit), or what a machine sets."""
    from servsim import _core
    from servsim.registry import explained

    if drawn is not None:
        _draw(key, drawn)
        return
    settings = _core.setting_keys()
    found = [name for name in settings if key is None or name == key or name.startswith(f"{key}.")]
    texts = [_core.explain(name) for name in found]
    if key in EXPLAINED:
        texts.append(EXPLAINED[key])
    elif key is not None and key not in found:
        texts += explained(key)
    if not texts and _is_machine(str(key)):
        _machine(str(key), as_json=as_json)
        return
    if not texts:
        raise _unknown(str(key), [*settings, *EXPLAINED])
    if not as_json:
        print("\n\n".join(texts))
        return
    entries = []
    for text in texts:
        head, *rest = text.splitlines()
        entries.append({"key": head, **_fields(rest)})
    print(json.dumps({"schema": "servsim.explain/1", "settings": entries}, indent=1))


def _fields(lines: list[str]) -> dict[str, str]:
    return dict(line.strip().split(": ", 1) for line in lines)


def _unknown(name: str, keys: list[str]) -> UsageError:
    """Return the refusal of a name that is no key, figure or machine, with up to three that may be meant."""
    from servsim.registry import entries
    from servsim.simulation import shipped_machines

    figures = [path for entry in entries() for path in entry.names if "*" not in path]
    known = [*keys, *figures, *sorted(shipped_machines())]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75) or [one for one in known if name in one][:3]
    if near:
        return UsageError(f"unknown key `{name}`; did you mean {' or '.join(f'`{one}`' for one in near)}?")
    return UsageError(
        f"unknown key `{name}`; `servsim explain` lists every key of a machine, docs/reference/figures.md every figure"
    )


def _is_machine(name: str) -> bool:
    """Whether a name that is no key is meant as a machine: one that ships, nearly so, or a file."""
    from servsim.simulation import shipped_machines

    return Path(name).exists() or bool(difflib.get_close_matches(name, shipped_machines(), n=1, cutoff=0.7))


def _machine(name: str, *, as_json: bool) -> None:
    """Print what a machine's description sets: what differs from the defaults, or all of it in JSON."""
    from servsim.result import flat
    from servsim.simulation import machine_text, resolve
    from servsim.text import columns

    values = dict(flat(resolve(machine_text(name), name, [])))
    defaults = dict(flat(resolve("", "defaults", [])))
    settings = [{"key": key, "value": text, "default": defaults.get(key)} for key, text in values.items()]
    if as_json:
        print(json.dumps({"schema": "servsim.explain/1", "machine": name, "settings": settings}, indent=1))
        return
    others = [one for one in settings if one["value"] != one["default"]]
    rows = [(one["key"] or "", one["value"] or "", one["default"] or "-") for one in others]
    print("\n".join(columns([("setting", "here", "default"), *rows], left=3)))
    print(f"\n{len(settings) - len(others)} settings have their defaults; --json prints all, KEY says what one means.")


def _draw(machine: str | None, out: Path) -> None:
    """Write the picture of a machine."""
    from servsim.files import atomic_write
    from servsim.report.picture import picture
    from servsim.simulation import machine_text, resolve

    if machine is None:
        raise UsageError(
            "--picture draws a machine: name one, as in `servsim explain brock-2001-4x4 --picture out.svg`"
        )
    atomic_write(out, picture(resolve(machine_text(machine), machine, [])) + "\n")
    print(out)
