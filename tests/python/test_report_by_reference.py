"""The page of runs without transactions: the counts of the result, for 1,000 references, and time where it passed."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from servsim.errors import UsageError
from servsim.report import check, read, render, write
from servsim.simulation import simulate

SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
SERVSIM = Path(sys.executable).with_name("servsim")


def functional(*overrides: str) -> dict[str, Any]:
    """Run the shipped trace functionally."""
    return simulate(SHIPPED, "foglia-2004-4p", overrides=list(overrides), engine="functional", replications=1)


def kept(folder: Path, name: str, document: dict[str, Any]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def text(page: str) -> str:
    """Return a page's visible text with ordinary spaces."""
    body = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S)
    return re.sub(r"[\s\u00a0\u202f]+", " ", body)


def test_a_page_tells_misses_by_cause_levels_and_tasks_and_how_to_repeat_it(tmp_path: Path) -> None:
    document = functional()
    page = text(render([read(kept(tmp_path, "run", document))]))
    (run,) = document["replications"]
    references, misses = run["references"], run["misses"]
    for kind, name in (("total", "all causes together"), ("cold", "cold"), ("true_sharing", "true sharing")):
        counted = 1000 * sum(misses[kind].values()) / references
        found = re.search(rf"{name} ([\d.]+) \(n = 1\)", page)
        assert found and float(found[1]) == pytest.approx(counted, rel=1e-3), name
    share = 100 * sum(misses["cold"].values()) / sum(misses["total"].values())
    assert re.search(r"Of 1,000 references [\d.]+ \(n = 1\) miss the caches of foglia-2004-4p: ", page)
    assert f"{share:.0f} % cold" in page
    level = run["levels"][0]
    assert f"L1 {100 * level['misses'] / (level['misses'] + level['hits']):.3g} %" in page
    task = max(run["tasks"], key=lambda one: sum(sum(one[kind].values()) for kind in ("fetch", "load", "store")))
    assert task["name"] in page
    assert "--engine functional" in page and "transactions per second" not in page


def test_machines_stand_side_by_side_and_other_engines_are_refused(tmp_path: Path) -> None:
    large, small = kept(tmp_path, "large", functional()), kept(tmp_path, "small", functional("cache.size=64KiB"))
    page = text(render([read(large), read(small)]))
    assert "of foglia-2004-4p, cache.size=2 MiB, and" in page.partition("Machine")[0], "fewest misses come first"
    assert "2 designs compared" in page
    timed = kept(tmp_path, "timed", layout_result())
    done = subprocess.run([SERVSIM, "report", large, timed], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "a page holds results of one engine" in done.stderr) == (2, True), done.stderr
    done = subprocess.run(
        [SERVSIM, "report", large, "-o", "f.html"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and (tmp_path / "f.html").stat().st_size > 10_000, done.stderr


def test_a_functional_result_without_references_is_refused(tmp_path: Path) -> None:
    document = functional()
    del document["replications"][0]["references"]
    with pytest.raises(UsageError, match="has no positive `references`"):
        write([document], tmp_path / "f.html")


def test_timed_runs_without_transactions_have_a_page_by_references_with_their_time(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"{i % 2} L {64 * (i % 999):x} 4\n" for i in range(40_000)), "ascii")
    # The shipped trace cut so short that no transaction ends, and a trace that has no marks of any.
    for trace, options in ((SHIPPED, {"references": 20_000}), (tmp_path / "t.txt", {})):
        results = {
            name: simulate(trace, "foglia-2004-4p", overrides=[f"cache.size={name}"], replications=3, **options)
            for name in ("4 KiB", "64 KiB")
        }
        files = [kept(tmp_path, name, document) for name, document in results.items()]
        page = text(render([read(file) for file in files]))
        told = re.findall(r"([\d ]+\d)(?: ±|$)", re.search(r"The runs take (.*?)\. ", page)[1])  # type: ignore[index]
        cycles = [sum(run["cycles"] for run in one["replications"]) / 3 for one in results.values()]
        assert sorted(float(one.replace(" ", "")) for one in told) == pytest.approx(sorted(cycles), rel=0.02)
        assert "Where processor time goes" in page and "per 1,000 references" in page
        assert "Each is per transaction" not in page and "transactions per second" not in page
        one = text(render([read(files[0])]))
        assert ("warm-up 20000 references" in one) == ("references" in options)
        assert "The run takes" in one and "Over the run" in one
        # Two of the four processors are idle all the time: they neither execute nor wait.
        (run,) = [sum(map(Counter, run["processors"]), Counter()) for run in results["4 KiB"]["replications"][:1]]
        assert run["idle"] > 0
        found = re.search(r"While not idle, processors execute ([\d.]+) ", one)
        executed = 100 * (run["busy_user"] + run["busy_kernel"]) / (run.total() - run["idle"])
        assert found and float(found[1]) == pytest.approx(executed, rel=0.02)
        with pytest.raises(UsageError, match=r"transaction ended in 3 of 3 runs|measured references, and in them"):
            check(results["4 KiB"], "r.json")
