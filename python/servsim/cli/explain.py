"""``servsim explain``: what a setting, an option of the method or a figure means, and the picture of a machine."""

import difflib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.options import EXPLAINED
from servsim.cli.printing import deliver, print_json
from servsim.errors import UsageError
from servsim.machines import beside_defaults, changed, machine_text, resolve, shipped_machines
from servsim.machines.settings import setting_keys, settings


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
    known = setting_keys()
    found = [name for name in known if key is None or name == key or name.startswith(f"{key}.")]
    texts = [_core.explain(name) for name in found]
    if key in EXPLAINED:
        texts.append(EXPLAINED[key])
    elif key is not None and key not in found:
        # A figure, or a word that settings take, as the field writes it: MESI, LRU.
        texts += explained(key) or [_core.explain(one.key) for one in settings() if key.lower() in one.choices]
    if not texts and _is_machine(str(key)):
        _machine(str(key), as_json=as_json)
        return
    if not texts:
        raise _unknown(str(key), [*known, *EXPLAINED])
    if not as_json:
        print("\n\n".join(texts))
        return
    entries = []
    for text in texts:
        head, *rest = text.splitlines()
        entries.append({"key": head, **_fields(rest)})
    print_json({"schema": "servsim.explain/1", "settings": entries})


def _fields(lines: list[str]) -> dict[str, str]:
    return dict(line.strip().split(": ", 1) for line in lines)


def _unknown(name: str, keys: list[str]) -> UsageError:
    """Return the refusal of a name that is no key, figure or machine, with up to three that may be meant."""
    from servsim.registry import entries

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
    return Path(name).exists() or bool(difflib.get_close_matches(name, shipped_machines(), n=1, cutoff=0.7))


def _machine(name: str, *, as_json: bool) -> None:
    """Print what a machine is, or every setting of it in JSON."""
    from servsim.cli.machine import told

    described = resolve(machine_text(name), name, [])
    settings = [asdict(one) for one in beside_defaults(described)]
    document = {"schema": "servsim.explain/1", "machine": name, "settings": settings}
    deliver(document, as_json, lambda: told(described, changed(described)))


def _draw(machine: str | None, out: Path) -> None:
    """Write the picture of a machine."""
    from servsim.cli.machine import draw

    if machine is None:
        raise UsageError(
            "--picture draws a machine: name one, as in `servsim explain brock-2001-4x4 --picture out.svg`"
        )
    draw(resolve(machine_text(machine), machine, []), out)
    print(out)
