"""The report in a real browser: nothing fetched, no complaint, no sideways scrolling, readable charts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from layout_result import layout_result
from servsim.comparison import Design, judge, metric
from servsim.comparison.page import write as write_comparison
from servsim.report import check, write
from servsim.simulation import simulate

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

SHIPPED = Path(__file__).parents[2] / "python" / "servsim" / "data" / "quickstart.svt"
#: Width of a common phone, of a desk, and of a wide screen, in CSS pixels.
PHONE, DESK, WIDE = 390, 1200, 1920

#: Elements that stick out of the page sideways, except inside a frame that scrolls by itself.
OVERFLOWING = """[...document.body.querySelectorAll('*')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll'))
  .map(e => e.outerHTML.slice(0, 120))"""

#: Font size, in pixels, of the smallest visible text, SVG text included.
SMALLEST = """Math.min(...[...document.body.querySelectorAll('*')]
  .filter(e => e.textContent.trim() && e.getClientRects().length)
  .map(e => parseFloat(getComputedStyle(e).fontSize)))"""

#: Pairs of axis labels that overlap.
COLLISIONS = """[...document.querySelectorAll('svg.axis')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text:not(.unit)')].map(t => t.getBoundingClientRect());
  return boxes.slice(1).filter((box, i) => box.left < boxes[i].right + 2).map(() => svg.textContent);
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


def functional_result(*overrides: str) -> dict[str, Any]:
    return simulate(SHIPPED, "foglia-2004-4p", overrides=list(overrides), engine="functional", replications=1)


def study() -> list[dict[str, Any]]:
    """Return as many designs as have a page of a study, of machines with names as long as they come."""
    made = layout_result()
    return [
        {
            **made,
            "machine": {**made["machine"], "name": f"layout only, with the long name of machine {n % 7}", "way": n},
        }
        for n in range(42)
    ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    one, other = (
        layout_result(),
        layout_result("layout only, with a rather long name of a machine", 8, seed=3),
    )
    contents = {
        "one": [one],
        "several": [one, other, layout_result("third", 2)],
        "single run": [layout_result(replications=1)],
        "study": study(),
        "functional": [functional_result(), functional_result("cache.size=64KiB", "l2.size=1MiB")],
    }
    made = {name: write(results, folder / f"{name}.html") for name, results in contents.items()}
    designs = [
        Design(text, check(document, text)) for text, document in (("one", one), (str(other["machine"]["name"]), other))
    ]
    made["comparison"] = write_comparison(judge(designs, metric("cycles_per_transaction")), folder / "comparison.html")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_stands_outside_the_boxes_of_a_picture_has_the_colour_of_the_page(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    browser.open(write([functional_result()], tmp_path / "one.html"), DESK, scheme=scheme)
    page = browser.evaluate("getComputedStyle(document.body).color")
    fills = "[...document.querySelectorAll('.picture text.t, .picture text.about')].map(t => getComputedStyle(t).fill)"
    assert set(browser.evaluate(fills)) == {page}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK, WIDE])
@pytest.mark.parametrize("name", ["one", "several", "single run", "study", "functional", "comparison"])
def test_the_page_fits_fetches_nothing_and_raises_no_complaint(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    browser.open(pages[name], width, scheme=scheme)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []
    assert browser.requests() == [pages[name].resolve().as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize("name", ["one", "several", "single run", "study", "functional", "comparison"])
@pytest.mark.parametrize("width", [PHONE, DESK, WIDE])
def test_text_is_readable_and_axis_labels_do_not_collide(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width)
    assert browser.evaluate(SMALLEST) >= 12
    assert browser.evaluate(COLLISIONS) == []


def test_every_replication_is_drawn_as_a_dot_inside_the_page(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["one"], PHONE)
    assert browser.evaluate("document.querySelectorAll('circle.dot').length") == 20
    edge = "Math.max(...[...document.querySelectorAll('circle')].map(c => c.getBoundingClientRect().right))"
    assert browser.evaluate(edge) <= PHONE


def test_dark_and_light_schemes_differ(browser: Browser, pages: dict[str, Path]) -> None:
    seen = []
    for scheme in ("light", "dark"):
        browser.open(pages["one"], DESK, scheme=scheme)
        seen.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert seen[0] == "rgb(255, 255, 255)" and seen[1] != seen[0]


def test_print_is_black_on_white_and_opens_what_is_folded(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["one"], DESK, scheme="dark", media="print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("document.querySelector('details table').getBoundingClientRect().height") > 50


def test_the_browser_test_would_notice_a_wide_page_a_request_and_a_complaint(browser: Browser, tmp_path: Path) -> None:
    bad = "<p style='width:2000px'>wide</p><img src='missing.png'><script>console.error('no')</script>"
    (tmp_path / "bad.html").write_text(bad)
    browser.open(tmp_path / "bad.html", PHONE)
    assert browser.evaluate(OVERFLOWING) != []
    assert len(browser.requests()) == 2
    assert browser.complaints() != []
