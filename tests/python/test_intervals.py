"""Means and intervals against published values and against their own definition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servsim.errors import UsageError
from servsim.statistics.intervals import estimate

FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)


def test_the_interval_uses_students_factor_for_n_minus_one() -> None:
    # Student's 97.5 % point with 4 degrees of freedom is 2.776 in every table.
    known = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert known.half_width == pytest.approx(2.776 * math.sqrt(2.5) / math.sqrt(5), rel=1e-3)


@given(FIGURES)
def test_the_mean_lies_in_the_middle_of_its_interval(values: list[float]) -> None:
    known = estimate(values)
    assert known.low is not None and known.high is not None
    assert known.low <= known.mean <= known.high
    assert known.mean - known.low == pytest.approx(known.high - known.mean, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("count", range(2, 30))
def test_equal_values_have_no_spread(count: int) -> None:
    known = estimate([0.1] * count)
    assert (known.mean, known.sd, known.half_width) == (0.1, 0.0, 0.0)


def test_one_replication_has_a_mean_and_no_interval() -> None:
    known = estimate([7.0])
    assert (known.mean, known.sd, known.low, known.high, known.half_width) == (7.0, None, None, None, None)


def test_about_95_of_100_intervals_hold_the_true_mean() -> None:
    chance = np.random.default_rng(1)
    held = sum(
        1
        for _ in range(1000)
        if (e := estimate(chance.normal(10, 2, 8))).low <= 10 <= e.high  # type: ignore[operator]
    )
    assert 930 <= held <= 968


def test_intervals_overlap_when_they_share_a_point() -> None:
    low, high, far = estimate([1.0, 2.0, 3.0]), estimate([2.0, 3.0, 4.0]), estimate([90.0, 91.0, 92.0])
    assert low.overlaps(high) and high.overlaps(low)
    assert not low.overlaps(far)
    assert low.overlaps(estimate([90.0])), "without an interval nothing can be excluded"


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_no_values_and_senseless_values_are_refused(values: list[float]) -> None:
    with pytest.raises(UsageError):
        estimate(values)


def test_a_senseless_confidence_is_refused() -> None:
    with pytest.raises(UsageError):
        estimate([1.0, 2.0], confidence=95)
