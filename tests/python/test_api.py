"""The objects of the Python interface: they do what the command line does, and fail with our errors only."""

import doctest
import importlib
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import servsim
from layout_result import layout_result
from servsim import _core
from servsim.errors import EnvironmentProblem, UsageError
from servsim.result import check

SERVSIM = Path(sys.executable).with_name("servsim")
WINDOW = ("--warm-up", "2", "--transactions", "2", "--replications", "2")

PACKAGE = Path(servsim.__file__).parent
#: Modules with examples in their docstrings.
DOCUMENTED = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if re.search(r">>> (?!.*doctest: \+SKIP)", path.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def result() -> servsim.Result:
    machine = servsim.Machine("foglia-2004-4p", {"cache.size": "1 MiB"})
    return servsim.simulate(servsim.Trace.example(), machine, warmup=2, transactions=2, replications=2)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed


def test_the_example_of_the_readme_runs_as_printed(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    _core.trace_cut(servsim.Trace.example().path, tmp_path / "oltp.svt", (4, 6), None, None)
    # Three replications of two transactions prove as much as the ten of many that a reader wants.
    code = example.replace("replications=10", "replications=3")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and code != example, done.stderr
    assert "cycles per transaction" in done.stdout


def test_a_run_from_python_is_the_run_of_the_command_line(result: servsim.Result, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    command = [SERVSIM, "simulate", servsim.Trace.example().path, "-m", "foglia-2004-4p", "--set", "cache.size=1 MiB"]
    subprocess.run([*command, *WINDOW, "-o", path], check=True, capture_output=True)
    assert json.loads(path.read_text()) == result.document
    assert servsim.load(path).document == result.document
    assert servsim.load(result.save(tmp_path / "s.json")).digest == result.digest


def test_every_figure_is_a_row_of_the_table_and_an_estimate(result: servsim.Result) -> None:
    rows = result.to_arrow().to_pylist()
    cold = [row["value"] for row in rows if row["path"] == "misses.cold.user"]
    assert cold == [run["misses"]["cold"]["user"] for run in result.replications]
    assert result.estimate("misses.cold.user").mean == sum(cold) / 2
    assert {row["seed"] for row in rows} == {1, 2}
    assert {"cycles_per_transaction", "misses_per_reference"} <= set(result.figures())
    with pytest.raises(UsageError, match="did you mean 'cycles_per_transaction'"):
        result.estimate("cycles_per_transactoin")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_of_an_optional_library_or_a_remedy(
    result: servsim.Result, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(EnvironmentProblem, match=f"pip install {library}"):
        getattr(result, f"to_{library}")()


def test_a_result_shows_itself_in_a_notebook(result: servsim.Result) -> None:
    shown = result._repr_html_()
    inside = unescape(shown[shown.index('srcdoc="') + 8 : shown.index('" sandbox')])
    assert inside.startswith("<!doctype html>") and "transactions per second" in inside and "<svg" in inside
    assert 'id="throughput"' in inside and 'id="provenance"' not in inside
    bare = check({"schema": "servsim.simulate/1", "engine": "functional", "replications": [{}]}, "<f>", needs=())
    assert bare._repr_html_() == "<pre>Result(&#39;&lt;f&gt;&#39;, 1 replications)</pre>"


def test_a_comparison_joins_replications_and_prints_what_the_command_prints(tmp_path: Path) -> None:
    documents = [layout_result("slow", 4), layout_result("fast", 8)]
    parts = [
        check({**document, "replications": half}, "part")
        for document in documents
        for half in (document["replications"][:5], document["replications"][5:])
    ]
    comparison = servsim.compare(parts)
    assert [known.t.n for known in comparison.known] == [10, 10] and comparison.pairs[0].better == "fast"
    paths = [check(d, "x").save(tmp_path / f"{i}.json") for i, d in enumerate(documents)]
    printed = subprocess.run([SERVSIM, "compare", *paths], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == str(comparison).strip()
    assert {known.name for known in servsim.compare({"a": parts[0], "b": parts[2]}).known} == {"a", "b"}


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: servsim.Trace("none.svt"), "there is no trace"),
        (lambda: servsim.Machine("none"), "there is no machine description"),
        (lambda: servsim.Machine("foglia-2004-4p", {"cache.size": "big"}), "cache.size"),
        (lambda: servsim.Machine("foglia-2004-4p")["cache.siez"], "no setting 'cache.siez'"),
        (lambda: servsim.load("none.json"), "does not exist"),
        (lambda: servsim.compare([]), "two designs"),
    ],
)
def test_every_fault_is_one_of_our_errors(make: object, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=complaint):
        make()


def test_importing_the_package_loads_no_numerical_library() -> None:
    script = "import servsim, sys; print([m for m in ('numpy', 'scipy', 'pyarrow', 'jinja2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    assert set(servsim.__all__) <= set(dir(servsim))
