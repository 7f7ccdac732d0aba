"""Docs that cannot drift: links lead somewhere, files and tests that are named exist, layers hold real crates."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import architecture  # noqa: E402

#: A path of the repository in a text, without places for the reader's own names.
PATH = re.compile(r"`((?:crates|scripts|python|examples|docs|benches|schemas)/[\w./-]+)`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PLACEHOLDER = re.compile(r"NAME|<\w+>")


def documents() -> list[Path]:
    """Return the documents of the repository."""
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split()]


def anchors(text: str) -> set[str]:
    """Return the names under which the headings of a document can be linked."""
    heads = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken(path: Path, text: str) -> list[str]:
    """Return the links of a document that lead nowhere, and the paths that it names in vain."""
    found = []
    for link in (one or other for one, other in LINK.findall(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists():
            found.append(link)
            continue
        headings = anchors(target.read_text(encoding="utf-8")) if anchor else set()
        if anchor and anchor not in headings and target.suffix == ".md":
            found.append(link)
    named = [name for name in PATH.findall(text) if not PLACEHOLDER.search(name)]
    return found + [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_of_a_document_lead_somewhere(path: Path) -> None:
    # A change log names what was there then.
    if path.name != "CHANGELOG.md":
        assert broken(path, path.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    text = "# A b\n[x](no.md) [y](#a-b) [z](#c) `scripts/no.py` `crates/servsim-<name>/x` [w](https://x.org)"
    path = tmp_path / "a.md"
    path.write_text(text)
    assert broken(path, text) == ["no.md", "#c", "scripts/no.py"]


def test_every_invariant_names_a_test_that_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## Invariants")[1].split("\n## ")[0]
    entries = re.split(r"^- ", section, flags=re.M)[1:]
    assert len(entries) > 5
    for entry in entries:
        names = re.findall(r"\[`(\w+)`\]", entry)
        assert names, f"no test holds: {entry}"
        for name in names:
            places = [ROOT / "tests" / "python" / f"{name}.py", *ROOT.glob(f"crates/*/tests/**/{name}.rs")]
            assert any(place.is_file() for place in places), f"there is no {name}"


def test_the_layers_hold_no_crate_that_does_not_exist() -> None:
    there = {architecture.short(package["name"]) for package in architecture.workspace()}
    named = set().union(*(crates for _, crates in architecture.LAYERS), architecture.PURE, architecture.TEST_ONLY)
    assert named - there == set()
