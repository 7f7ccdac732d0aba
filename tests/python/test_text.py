"""Tables on a terminal: aligned, plain off one, and safe whatever their cells hold."""

import subprocess
import sys

import pytest
from servsim.report.charts.svg import scale
from servsim.text import columns


def test_columns_are_aligned_and_cells_are_neither_styles_nor_commands() -> None:
    rows = [["name", "n"], ["[bold]x[/bold]", "1,000"], ["a\x1b[31m\nb", "7"]]
    assert columns(rows) == ["name                n", "[bold]x[/bold]  1,000", "a\\x1b[31m\\nb        7"]
    assert columns(rows[:2], right=1) == ["          name  n", "[bold]x[/bold]  1,000"]
    assert columns([]) == []


@pytest.mark.parametrize("length", [80, 5000])
def test_a_wide_table_is_neither_wrapped_nor_cut(length: int) -> None:
    assert columns([["x" * length, "1"]]) == ["x" * length + "  1"]


def test_characters_that_take_two_columns_or_none_are_aligned_as_a_terminal_shows_them() -> None:
    rows = [["漢字", "1"], ["e\u0301 ", "22"], ["four", "3"]]
    assert columns(rows) == ["漢字   1", "e\u0301     22", "four   3"]


def test_a_table_of_plain_text_loads_no_library() -> None:
    code = "import sys; from servsim.text import columns; columns([['a', 'b']]); sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e308), (-1e308, 1e308), (1.6e308, 1.7e308), (0.0, 5.0)])
def test_an_axis_of_any_numbers_has_ticks_that_fit_in_it(low: float, high: float) -> None:
    across = scale(low, high)
    assert 0 < len(across.ticks) < 12
    assert all(-1e-6 <= across(tick) <= 100 + 1e-6 and len(across.label(tick)) < 12 for tick in across.ticks)
