"""Write the tables of crates and Python modules in ARCHITECTURE.md, or check that they are fresh.

A map kept by hand drifts; these are made from each crate's ``description`` and from the first line
of each module's docstring. ``make maps`` writes them, ``make check`` fails when they are stale.
"""

import ast
import re
import sys
from pathlib import Path

from architecture import LAYERS, ROOT, TEST_ONLY, layer_of, short, workspace

MAP = ROOT / "ARCHITECTURE.md"


def crate_table() -> str:
    """Return the Markdown table of the workspace's crates, bottom layer first."""
    rows = ["| layer | crate | what it is |", "|---|---|---|"]
    packages = sorted(workspace(), key=lambda package: (_rank(package["name"]), package["name"]))
    for package in packages:
        folder = Path(package["manifest_path"]).parent.relative_to(ROOT)
        title = "tests only" if short(package["name"]) in TEST_ONLY else LAYERS[_rank(package["name"])][0]
        rows.append(f"| {title} | [`{package['name']}`]({folder}) | {package['description'] or ''} |")
    return "\n".join(rows)


def _rank(crate: str) -> int:
    rank = layer_of(crate)
    return len(LAYERS) - 1 if rank is None else rank


def package_table() -> str:
    """Return the Markdown table of the Python modules and packages directly under ``servsim``."""
    rows = ["| module | what it is |", "|---|---|"]
    top = ROOT / "python" / "servsim"
    for path in sorted(top.iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix != ".py" or not source.exists() or path.name == "__init__.py":
            continue
        name = f"servsim.{path.stem}"
        rows.append(f"| [`{name}`]({path.relative_to(ROOT)}) | {_summary(source)} |")
    return "\n".join(rows)


def _summary(source: Path) -> str:
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def fresh(text: str) -> str:
    """Return the map's text with both tables written anew."""
    for name, table in (("crates", crate_table()), ("modules", package_table())):
        pattern = re.compile(rf"(<!-- {name}: .*?-->\n).*?(<!-- {name} end -->)", re.S)
        text = pattern.sub(lambda match, table=table: match[1] + table + "\n" + match[2], text)  # type: ignore[misc]
    return text


def main() -> int:
    """Rewrite the map; with ``--check`` only say whether it is stale."""
    old = MAP.read_text(encoding="utf-8")
    new = fresh(old)
    if "--check" in sys.argv:
        if old != new:
            print("ARCHITECTURE.md: a table is stale; run `make maps`", file=sys.stderr)
            return 1
        return 0
    MAP.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
