"""Sweeps over load, pages of disks, and the guide that uses both."""

import json
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from guides import ROOT, check_guide
from servsim import disk
from servsim.cli import run
from servsim.disk import plots
from servsim.disk.page import knee_text, refused_text, write_evaluation, write_sweep
from servsim.errors import UsageError


def test_the_guide_of_disks_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = ROOT / "python" / "servsim" / "data" / "pgbench-disk.csv.xz"
    (tmp_path / "requests.csv").write_bytes(lzma.decompress(packed.read_bytes()))
    assert check_guide(ROOT / "docs" / "disks.md", monkeypatch, capsys) == 3
    for name in ("evaluation", "sweep"):
        assert (tmp_path / f"{name}.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A trace of a disk that takes 10 ms or 5 for a write, and its model."""
    folder = tmp_path_factory.mktemp("sweep")
    draw = np.random.default_rng(4)
    now, free, rows = 0, 0, ["arrival_us,op,lba,sectors,completion_us"]
    for at in range(3000):
        now += int(draw.exponential(50_000))
        free = max(now, free) + (5_000 if at % 3 == 0 else 10_000)
        rows.append(f"{now},{int(at % 3 == 0)},{int(draw.integers(1 << 20)) * 8},8,{free}")
    trace, model = folder / "t.csv", folder / "t.model"
    trace.write_text("\n".join(rows))
    disk.fit(str(trace), str(model))
    return str(trace), str(model)


@pytest.fixture(scope="module")
def swept(fitted: tuple[str, str]) -> dict[str, Any]:
    return disk.sweep(*fitted, runs=3)


def test_loads_go_to_saturation_by_themselves_and_reads_and_writes_are_apart(swept: dict[str, Any]) -> None:
    (device,) = swept["devices"]
    sweep = device["sweep"]
    loads = [point["load"] for point in sweep["points"]]
    busy = [point["figures"]["utilization"] for point in sweep["points"]]
    assert 1.0 in loads and loads == sorted(loads) and len(loads) == 12
    assert busy[0] < 0.2 and busy[-1] > 0.98
    assert sweep["saturated_from"] == pytest.approx(loads[-1], rel=0.15)
    knee = sweep["knee"]
    assert 0.4 < busy[loads.index(knee["load"])] < 0.75 and knee["above"] < knee["load"] < knee["below"]
    lightest = sweep["points"][0]["figures"]["by_operation"]
    assert lightest["read"]["p50_ms"] == pytest.approx(10, abs=0.1)
    assert lightest["write"]["p50_ms"] == pytest.approx(5, abs=0.1)
    assert lightest["read"]["requests"] == 2 * lightest["write"]["requests"] == 3 * 2000
    assert any("near saturation" in warning for warning in device["warnings"])
    assert knee_text(sweep).startswith(f"knee at x{knee['load']:.3g} (between x")


def test_a_knee_outside_the_loads_is_said_to_lie_there(fitted: tuple[str, str]) -> None:
    below = disk.sweep(*fitted, [0.1, 0.2], runs=1)["devices"][0]["sweep"]
    assert knee_text(below) == "no knee up to x0.2; the last load: ask for more"
    above = disk.sweep(*fitted, [5.0, 6.0], runs=1)["devices"][0]["sweep"]
    assert knee_text(above) == "the knee is at x5 or below: ask for less"
    refused = {"load": 3.0, "refused": "it does not tell", "figures": None}
    known = {**below, "points": [*below["points"], refused, {**refused, "load": 4.0}]}
    assert knee_text(known) == "no knee up to x0.2; beyond, the model refuses to answer"
    assert refused_text(known) == "no figures at x3, x4: it does not tell"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--load", "3"], "is not FIRST:LAST or FIRST:LAST:POINTS"),
        (["--load", "3:1"], "give two loads above zero, the larger last"),
        (["--set", "raid7:2"], "accepted: raid0"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    fitted: tuple[str, str],
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["servsim", "disk", "sweep", fitted[0], "-m", fitted[1], *words])
    assert run() == 2
    assert message in capsys.readouterr().err
    with pytest.raises(UsageError, match="at least one load"):
        disk.sweep(*fitted, [])
    with pytest.raises(UsageError, match="do not ascend"):
        disk.sweep(*fitted, [2.0, 1.0])


def test_the_command_prints_json_with_every_run(
    fitted: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["disk", "sweep", fitted[0], "-m", fitted[1], "--load", "1:2:2", "--replications", "3", "--json"]
    monkeypatch.setattr(sys, "argv", ["servsim", *words])
    assert run() == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "servsim.disk.sweep/1"
    points = told["devices"][0]["sweep"]["points"]
    assert [point["load"] for point in points] == [1.0, 2.0]
    assert [run["seed"] for run in points[0]["figures"]["runs"]] == [0, 1, 2]


@pytest.fixture(scope="module")
def pages(fitted: tuple[str, str], swept: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in ("evaluation", "sweep")}
    result = disk.evaluate(fitted[0], loads=[1.5])
    # Names come from traces, and traces from anywhere.
    result["devices"][0]["device"] = "sd<b>a"
    result["devices"][0]["verdict"] = [
        "not worth using for this",
        "do not trust it for that",
        "distribution, run freely",
    ]
    write_evaluation(result, "t.csv", made["evaluation"])
    write_sweep(swept, "t.csv", "t.model", made["sweep"])
    return made


def test_the_pages_hold_what_was_found(pages: dict[str, Path], swept: dict[str, Any]) -> None:
    sweep, evaluation = (pages[name].read_text(encoding="utf-8") for name in ("sweep", "evaluation"))
    assert knee_text(swept["devices"][0]["sweep"]) in sweep
    assert "saturated from" in sweep and "near saturation" in sweep
    assert sweep.count('role="img"') == 2 and evaluation.count('role="img"') == 3
    for said in ("reads, measured", "writes, simulated", "of which chance", "x1.5", "run freely"):
        assert said in evaluation, said
    for said in ("Weak</b> not worth using", "Weak</b> do not trust", "Note</b> distribution"):
        assert said in evaluation, said
    assert "sd&lt;b&gt;a" in evaluation and "sd<b>a" not in evaluation
    assert re.search(r"<polyline[^>]*nan|<circle[^>]*nan", evaluation + sweep) is None


#: Whatever sticks out sideways but for what scrolls by itself, and the smallest text in pixels as it is shown.
_LOOKS = """(() => {
  const all = [...document.body.querySelectorAll('*')];
  const out = all.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'));
  const panels = [...document.querySelectorAll('.panels svg')].map(e => e.getBoundingClientRect().width / 340);
  const sizes = all.filter(e => e.textContent.trim() && e.getClientRects().length)
    .map(e => parseFloat(getComputedStyle(e).fontSize));
  return [out.length, Math.min(...sizes), Math.min(...panels)];
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with Browser() as opened:
        yield opened


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["evaluation", "sweep"])
def test_a_page_fits_fetches_nothing_and_is_readable(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width)
    outside, smallest, scaled = browser.evaluate(_LOOKS)
    assert (outside, scaled) == (0, 1) and smallest >= 12
    assert browser.requests() == [pages[name].resolve().as_uri()]
    assert browser.complaints() == []


def test_axes_have_round_ticks_within_their_ends() -> None:
    assert plots.Axis("a", 0.4, 30, log=True).ticks() == pytest.approx([0.5, 1, 2, 5, 10, 20])
    assert plots.Axis("a", 0, 8.7).ticks() == pytest.approx([0, 2, 4, 6, 8])
    wide = plots.Axis("a", 1e-3, 1e9, log=True).ticks()
    assert len(wide) <= 8 and all(1e-3 <= tick <= 1e9 for tick in wide)
    assert plots.positive("a", [0.0, None, 2.0]).place(2.0) == pytest.approx(0.5)
