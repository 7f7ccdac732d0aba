"""A value of a kind that its key does not take is refused, in every description that people write."""

import copy
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import printed_examples as examples
import pytest
from servsim import _core
from servsim.capture import folder
from servsim.errors import UsageError
from servsim.manager import goals
from servsim.sweep import study
from servsim.workloads import tuning

ROOT = examples.ROOT
MODELS, REDIS = ROOT / "examples" / "models", ROOT / "examples" / "workloads" / "redis"
WORKLOADS = [path.parent for path in (ROOT / "capture" / "workloads").glob("*/workload.toml")]
OLTP = ROOT / "capture" / "workloads" / "oltp"
#: No key takes one of these, but that a switch takes the last.
NONSENSE: tuple[Any, ...] = ({"zebra": {"zebra": "zebra"}}, [[["zebra"]]], True)

Document = dict[str, Any]


def _printed(page: str) -> list[Document]:
    """Return the descriptions that a page of the documentation prints."""
    return [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)]


def _file(path: Path) -> Document:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def _toml(document: Document) -> str:
    """Write a document as a person would: lists of tables each with a heading of its own."""

    def is_list_of_tables(value: Any) -> bool:
        return isinstance(value, list) and value != [] and all(isinstance(item, dict) for item in value)

    lines = [f"{key} = {_inline(value)}" for key, value in document.items() if not is_list_of_tables(value)]
    for key, tables in document.items():
        for table in tables if is_list_of_tables(tables) else []:
            lines += [f"[[{key}]]", *(f"{json.dumps(name)} = {_inline(value)}" for name, value in table.items())]
    return "\n".join(lines)


def _model(document: Document, _: Path) -> None:
    _core.model_describe(json.dumps(document), True)


def _allocation(document: Document, _: Path) -> None:
    _core.model_allocate(json.dumps(document), True)


def _measurements(document: Document, _: Path) -> None:
    _core.model_fit(json.dumps(document), True, "nnls", 0.01, 0.01)


def _study(document: Document, here: Path) -> None:
    study.parse(_toml(document), "study.toml", here, "study")


def _goals(document: Document, _: Path) -> None:
    goals.parse(_toml(document))


def _placement(document: Document, _: Path) -> None:
    _core.placement_check(_toml(document), "placement.toml")


def _workload(document: Document, here: Path) -> None:
    if not (here / "redis").is_dir():
        shutil.copytree(REDIS, here / "redis")
    (here / "redis" / folder.DESCRIPTION).write_text(_toml(document), encoding="utf-8")
    folder.read(here / "redis")


def _ladder(document: Document, here: Path) -> None:
    (here / tuning.LADDER).write_text(_toml(document), encoding="utf-8")
    tuning.read(folder.read(OLTP), here / tuning.LADDER)


#: Descriptions with all their keys, and what reads them.
READ: dict[str, tuple[list[Document], Callable[[Document, Path], None]]] = {
    "models": ([*_printed("docs/models.md"), _file(MODELS / "web-shop.toml"), _file(MODELS / "smp.toml")], _model),
    "allocations": ([_file(MODELS / "tpcc-tables.toml")], _allocation),
    "measurements": ([_file(MODELS / "measurements.toml")], _measurements),
    "studies": ([tomllib.loads(examples.printed_study())], _study),
    "goals": (_printed("docs/parts/rset.md"), _goals),
    "placements": (_printed("docs/placement.md"), _placement),
    "workloads": ([_file(path / folder.DESCRIPTION) for path in (REDIS, *WORKLOADS)], _workload),
    "ladders": ([_file(OLTP / tuning.LADDER)], _ladder),
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Go through a document; of values side by side in a list one tells for all."""
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(min(len(value), 1)) if isinstance(value, list) else ():
        yield from _places(value[key], (*path, key))


def _with(document: Document, path: tuple[Any, ...], value: Any) -> tuple[Document, Any]:
    """Return the document with another value at a place, and what was there."""
    changed = copy.deepcopy(document)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    before, at[path[-1]] = at[path[-1]], value
    return changed, before


@pytest.mark.parametrize("kind", READ)
def test_a_value_of_another_kind_is_refused(kind: str, tmp_path: Path) -> None:
    documents, read = READ[kind]
    assert documents
    taken = []
    for document in documents:
        read(document, tmp_path)
        for path in _places(document):
            for value in NONSENSE:
                changed, before = _with(document, path, value)
                if isinstance(before, bool) and value is True:
                    continue
                try:
                    read(changed, tmp_path)
                except UsageError:
                    continue
                taken.append(f"{'.'.join(map(str, path))} = {value!r} for {before!r}")
    assert taken == []
