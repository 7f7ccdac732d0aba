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
import circles  # noqa: E402
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


def test_no_circle_of_imports_holds_many_files_or_leaves_its_folder(packages: list[dict[str, Any]]) -> None:
    sources = [Path(package["manifest_path"]).parent / "src" for package in packages]
    assert sum(len(circles.Crate(source).files) for source in sources) > 200
    assert [f"{source.parent.name}: {fault}" for source in sources for fault in circles.Crate(source).faults()] == []


#: An import of a module whose item is named in the code, and an item that another file defines.
IN_CODE, RE_EXPORT = "use crate::a;\nfn g() { a::h() }", "mod inner;\npub use inner::{\n    B,\n};"


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"a": "use crate::b::B;", "b": "use super::c::{self, C};", "c": "use crate::d::D as E;", "d": ""}, None),
        ({"a": "use crate::b::B;", "b": "use super::c::C;", "c": "fn f() { crate::d::g(); }", "d": IN_CODE}, "4 files"),
        ({"a": "use crate::b::B;", "b": "// use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }"}, None),
        ({"a": "use crate::b::inner::B;", "b/mod": "mod inner;", "b/inner": "use crate::a::A;"}, "several folders"),
        ({"a": "use crate::b::B;", "b/mod": RE_EXPORT, "b/inner": "use crate::a::A;"}, "several folders"),
        ({"b/mod": "mod inner;\nuse inner::B;\nstruct Shared;", "b/inner": "use super::Shared;"}, None),
    ],
)
def test_a_circle_of_imports_is_found_and_named(files: dict[str, str], complaint: str | None, tmp_path: Path) -> None:
    for name, code in {"lib": "mod a;\nmod b;", **files}.items():
        path = tmp_path / f"{name}.rs"
        path.parent.mkdir(exist_ok=True)
        path.write_text(code, encoding="utf-8")
    faults = circles.Crate(tmp_path).faults()
    assert (faults == []) if complaint is None else (len(faults) == 1 and complaint in faults[0]), faults


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
    outside = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("cli", "start.py")]
    guilty = [path for path in outside if any(name.startswith("servsim.cli") for name in _imports(path, True))]
    assert guilty == []


def test_help_loads_no_heavy_module() -> None:
    code = "import sys, servsim.cli; servsim.cli.build(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded & set(HEAVY) == set()


def _run_with_modules(command: list[str]) -> tuple[str, set[str]]:
    """Run a command; returns what it shows and the modules that are loaded at its end."""
    code = f"import sys; sys.argv = {command}; from servsim.cli import run; run(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *shown, modules = done.stdout.splitlines()
    return "\n".join(shown), set(modules.split())


def test_a_model_is_solved_without_other_commands_and_what_only_they_need() -> None:
    command = ["servsim", "model", "solve", str(ROOT / "examples/models/smp.toml")]
    _, loaded = _run_with_modules(command)
    needless = {"numpy", "pydantic", "rich", "servsim.cli.capture", "servsim.cli.model_fit", "servsim.model.plots"}
    assert "servsim.model.solving" in loaded and loaded & needless == set()


def test_a_simulation_begins_without_the_statistics_library_of_comparisons() -> None:
    code = "import sys, servsim.captures; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "scipy.stats" not in done.stdout.split(), "half a second of every `servsim simulate`"


def test_one_run_shows_its_table_without_a_library_of_statistics(tmp_path: Path) -> None:
    trace = tmp_path / "t.raw16"
    trace.write_bytes(bytes(8) + bytes([0, 4]) + bytes(6))
    command = ["servsim", "simulate", str(trace), "-m", "foglia-2004-4p", "--engine"]
    shown, loaded = _run_with_modules([*command, "functional"])
    assert "(n = 1, no interval)" in shown
    assert loaded & {"scipy", "servsim.report"} == set(), "a tenth to half a second of `servsim simulate`"
    shown, loaded = _run_with_modules([*command, "timing", "--replications", "2"])
    assert "n = 2" in shown
    assert "scipy.special" in loaded
    assert loaded & {"scipy.stats", "servsim.report"} == set(), "half a second of every `servsim simulate`"


def test_the_map_lists_exactly_the_crates_and_modules_that_exist(packages: list[dict[str, Any]]) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert text == maps.fresh(text), "ARCHITECTURE.md is stale: run `make maps`"
    table = text.split("<!-- crates:")[1].split("<!-- crates end -->")[0]
    assert sorted(re.findall(r"\[`(servsim-[a-z-]+)`\]", table)) == [package["name"] for package in packages]


def test_every_crate_and_module_says_what_it_is() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert not re.search(r"\|\s*\|\s*$", text, re.M)
