"""Dependency direction: crates, pure sources, Python packages, and the map that describes them."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "servsim"
sys.path.insert(0, str(ROOT / "scripts"))

import architecture  # noqa: E402
import maps  # noqa: E402

#: What a pure crate must not touch: files, environment, clocks, thread counts.
IMPURE = re.compile(
    r"std::fs|std::env\b|std::thread|std::process|SystemTime|Instant\b"
    r"|available_parallelism|current_num_threads|num_cpus|File::(open|create)"
)

#: Modules too slow to load before a command needs them.
HEAVY = ("numpy", "scipy", "jinja2", "pandas", "polars", "matplotlib", "asyncio", "multiprocessing")


@pytest.fixture(scope="module")
def packages() -> list[dict[str, Any]]:
    return architecture.workspace()


def _package(name: str, *uses: tuple[str, str | None]) -> dict[str, Any]:
    return {"name": name, "dependencies": [{"name": used, "kind": kind} for used, kind in uses]}


def test_every_crate_depends_on_lower_layers_only(packages: list[dict[str, Any]]) -> None:
    assert architecture.faults(packages) == []


@pytest.mark.parametrize(
    ("package", "complaint"),
    [
        (_package("servsim-mem", ("servsim-cpu", None)), "not in a lower layer"),
        (_package("servsim-trace", ("servsim-core", "build")), "not in a lower layer"),
        (_package("servsim-mem", ("pyo3", None)), "only servsim-py may"),
        (_package("servsim-machine", ("servsim-oracle", None)), "make it a dev-dependency"),
        (_package("servsim-novelty"), "has no layer"),
    ],
)
def test_a_dependency_against_the_layers_is_named(package: dict[str, Any], complaint: str) -> None:
    (fault,) = architecture.faults([package])
    assert complaint in fault


def test_a_test_may_use_a_crate_of_any_layer() -> None:
    assert architecture.faults([_package("servsim-mem", ("servsim-oracle", "dev"))]) == []


def _shipped_code(source: Path) -> str:
    """Return a Rust source without its comments and without the tests at its end."""
    code = source.read_text(encoding="utf-8").split("#[cfg(test)]\nmod ")[0]
    return re.sub(r"//.*", "", code)


def test_pure_crates_touch_no_file_clock_environment_or_thread_count(packages: list[dict[str, Any]]) -> None:
    found = []
    for package in packages:
        if architecture.short(package["name"]) not in architecture.PURE:
            continue
        for source in (Path(package["manifest_path"]).parent / "src").rglob("*.rs"):
            if source.name != "tests.rs" and (hit := IMPURE.search(_shipped_code(source))):
                found.append(f"{source.relative_to(ROOT)}: {hit[0]}")
    assert found == []


def test_only_the_bindings_mention_pyo3(packages: list[dict[str, Any]]) -> None:
    others = [package for package in packages if package["name"] != "servsim-py"]
    sources = [path for item in others for path in Path(item["manifest_path"]).parent.rglob("*.rs")]
    assert sources
    assert [path for path in sources if "pyo3" in _shipped_code(path)] == []


def _imports(source: Path, everywhere: bool) -> set[str]:
    """Return the modules a Python file imports: at its top level only, or everywhere."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: imports are written in full"
            found.add(node.module or "")
    return found


def test_statistics_stand_on_numpy_and_scipy_only() -> None:
    allowed = {"numpy", "scipy", "servsim.statistics", "servsim.errors"} | sys.stdlib_module_names
    sources = list((PACKAGE / "statistics").glob("*.py"))
    assert sources
    for source in sources:
        for name in _imports(source, everywhere=True):
            known = name in allowed or name.split(".")[0] in allowed or name.startswith("servsim.statistics.")
            assert known, f"{source.name} imports {name}"


def test_nothing_but_the_command_line_imports_the_command_line() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    guilty = [path for path in outside if any(name.startswith("servsim.cli") for name in _imports(path, True))]
    assert guilty == []


def test_help_loads_no_heavy_module() -> None:
    code = "import sys, servsim.cli; servsim.cli.build(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded & set(HEAVY) == set()


def test_the_map_lists_exactly_the_crates_and_modules_that_exist(packages: list[dict[str, Any]]) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert text == maps.fresh(text), "ARCHITECTURE.md is stale: run `make maps`"
    table = text.split("<!-- crates:")[1].split("<!-- crates end -->")[0]
    assert sorted(re.findall(r"\[`(servsim-[a-z-]+)`\]", table)) == [package["name"] for package in packages]


def test_every_crate_and_module_says_what_it_is() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not re.search(r"\|\s*\|\s*$", text, re.M)
