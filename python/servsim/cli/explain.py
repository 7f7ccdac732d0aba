"""``servsim explain``: what a setting of a machine description, an option of the method, or a figure means."""

import json
from typing import Annotated

import typer

from servsim.cli.options import EXPLAINED


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain")(command)


def command(
    key: Annotated[
        str | None, typer.Argument(help="Key, for example cache.line, or a group such as cache; all without it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema servsim.explain/1.")] = False,
) -> None:
    """Print meaning, accepted values, default and source of a setting, or of every setting of a group."""
    from servsim import _core

    keys = _core.setting_keys()
    if key is not None:
        keys = [name for name in keys if name == key or name.startswith(f"{key}.")] or [key]
    texts = [EXPLAINED[name] if name in EXPLAINED else _figure(name) or _core.explain(name) for name in keys]
    if not as_json:
        print("\n\n".join(texts))
        return
    settings = []
    for text in texts:
        head, *rest = text.splitlines()
        fields = dict(line.strip().split(": ", 1) for line in rest)
        settings.append({"key": head, **fields})
    print(json.dumps({"schema": "servsim.explain/1", "settings": settings}, indent=1))


def _figure(path: str) -> str | None:
    """Return what a figure of a result means, in the form of a setting's text; None for what is no figure."""
    from servsim import _core

    found = _core.figure(path)
    if found is None:
        return None
    entry = json.loads(found)
    return (
        f"{path}\n  meaning: {entry['meaning']}.\n  unit: {entry['unit']}\n"
        "  counted: in the measured window of each replication, over all processors"
    )
