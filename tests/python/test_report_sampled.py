"""The page of a sampled answer: the promised interval, how it was reached, and no figure without it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from layout_result import layout_result

SERVSIM = Path(sys.executable).with_name("servsim")


def sampled() -> dict[str, Any]:
    """Return a document with the shape of a sampled answer; layout only."""
    entry = {"mean": 50_000.0, "interval_95": [49_000.0, 51_000.0], "n": 8, "unit": "cycles"}
    window = {"first": 401, "last": 6400, "of": 8000}
    return {
        "schema": "servsim.sample/1",
        "engine": "timing",
        "machine": {"name": "smp", "clock": "1 GHz", "processors": 4},
        "trace": {"name": "t.svt", "hash": "sha256:12"},
        "options": {
            "transactions": 6000,
            "warmup": 400,
            "seed": 1,
            "precision": 0.04,
            "choice": "phases",
            "window": window,
        },
        "warnings": [{"rank": "note", "code": "x", "text": "compare once with a full run"}],
        "summary": {"cycles_per_transaction": entry},
        "precision": {"half_width": 0.02, "of_windows": 0.015, "of_order": 0.004, "of_model": 0.0123, "of_misses": 0.0},
        "cost": {"share_of_full_run": 0.026, "windows": 8, "live_points": 100},
    }


def report(folder: Path, *documents: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    names = [f"{number}.json" for number in range(len(documents))]
    for name, document in zip(names, documents, strict=True):
        (folder / name).write_text(json.dumps(document))
    return subprocess.run(
        [SERVSIM, "report", *names, "-o", "r.html"], capture_output=True, text=True, check=False, cwd=folder
    )


def test_a_sampled_answer_has_a_page_with_its_interval_and_its_cost(tmp_path: Path) -> None:
    done = report(tmp_path, sampled())
    assert done.returncode == 0, done.stderr
    page = re.sub(r"<style>.*?</style>|<[^>]+>", " ", (tmp_path / "r.html").read_text(), flags=re.S)
    page = re.sub(r"[\s\u00a0\u202f]+", " ", page)
    # The interval of an inverse: 1 GHz by 49,000 and 51,000 cycles.
    assert "smp completes 20 000 ± 400 transactions per second (95 % interval, from 8 sampled windows)." in page
    assert "cycles per transaction 50 000 ± 1 000 cycles 8" in page
    for told in (
        "± 4 %",
        "± 2 %",
        "± 1.5 %",
        "of it by what misses cost beside the windows ± 1.2 %",
        "401 to 6400 of 8000 in the trace",
        "8 of 100",
        "2.6 %",
        "compare once with",
    ):
        assert told in page, told
    assert "servsim simulate t.svt --machine smp --precision 4% --transactions 6000 --warm-up 400 --seed 1" in page


def test_a_sampled_answer_stands_alone_and_must_have_its_figure(tmp_path: Path) -> None:
    for other in (sampled(), layout_result()):
        done = report(tmp_path, sampled(), other)
        assert (done.returncode, "`servsim compare --sampled` ranks designs" in done.stderr) == (2, True), done.stderr
    figure = {"mean": 5.0, "n": 8}
    for broken in (
        {},
        {"cycles_per_transaction": figure},
        {"cycles_per_transaction": {**figure, "interval_95": [4.0]}},
        {"cycles_per_transaction": {**figure, "interval_95": [4.0, None]}},
    ):
        done = report(tmp_path, {**sampled(), "summary": broken})
        assert (done.returncode, "0.json is damaged: it has no cycles_per_transaction" in done.stderr) == (2, True)
