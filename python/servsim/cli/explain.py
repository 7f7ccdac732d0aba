"""``servsim explain``: what a setting, an option of the method or a figure means, and the picture of a machine."""

import json
from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.options import EXPLAINED


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain")(command)


def command(
    key: Annotated[
        str | None,
        typer.Argument(
            help="Key such as cache.line, group such as cache, figure such as misses; all settings without it. With "
            "--picture a machine."
        ),
    ] = None,
    drawn: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Draw the machine, a name or a file, as SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.explain/1.")] = False,
) -> None:
    """Print what a setting, a figure or a counter means, with accepted values, default and source, or unit."""
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
    if not texts:
        texts.append(_core.explain(str(key)))
    if not as_json:
        print("\n\n".join(texts))
        return
    entries = []
    for text in texts:
        head, *rest = text.splitlines()
        fields = dict(line.strip().split(": ", 1) for line in rest)
        entries.append({"key": head, **fields})
    print(json.dumps({"schema": "servsim.explain/1", "settings": entries}, indent=1))


def _draw(machine: str | None, out: Path) -> None:
    """Write the picture of a machine."""
    from servsim.errors import UsageError
    from servsim.files import atomic_write
    from servsim.report.picture import picture
    from servsim.simulation import machine_path, resolve

    if machine is None:
        raise UsageError(
            "--picture draws a machine: name one, as in `servsim explain brock-2001-4x4 --picture out.svg`"
        )
    path = machine_path(machine)
    description = path.read_text(encoding="utf-8", errors="replace")
    atomic_write(out, picture(resolve(description, str(path), [])) + "\n")
    print(out)
