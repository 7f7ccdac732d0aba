"""Comparisons against hand-worked figures, SciPy's own tests and simulated truth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from servsim.errors import UsageError
from servsim.statistics.bootstrap import LEAST, bootstrap_interval
from servsim.statistics.comparison import (
    difference,
    holm,
    runs_for_absolute,
    runs_for_precision,
    runs_to_separate,
    wrong_conclusion,
    wrong_with_means,
)
from servsim.statistics.intervals import estimate
from servsim.statistics.series import autocorrelation, is_autocorrelated, outliers, truncation, warm_up

A, B = [5.1, 4.9, 5.6, 5.2, 4.8, 5.5], [5.9, 5.0, 6.1, 5.8, 5.3, 6.4]
FIGURES = st.lists(st.integers(0, 50), min_size=1, max_size=9)


def test_differences_agree_with_scipys_tests() -> None:
    paired, welch = difference(A, B, paired=True), difference(A, B, paired=False)
    assert paired.p == pytest.approx(stats.ttest_rel(A, B).pvalue)
    assert welch.p == pytest.approx(stats.ttest_ind(A, B, equal_var=False).pvalue)
    known = stats.ttest_rel(A, B).confidence_interval(0.95)
    assert (paired.low, paired.high) == (pytest.approx(known.low), pytest.approx(known.high))
    other = stats.ttest_ind(A, B, equal_var=False).confidence_interval(0.95)
    assert (welch.low, welch.high) == (pytest.approx(other.low), pytest.approx(other.high))
    assert paired.correlation == pytest.approx(float(np.corrcoef(A, B)[0, 1]))


@given(FIGURES, FIGURES)
def test_the_wrong_share_is_what_counting_all_pairs_gives(a: list[int], b: list[int]) -> None:
    right = np.mean(a) <= np.mean(b)
    better, worse = (a, b) if right else (b, a)
    pairs = [0.5 if x == y else float(x > y) for x in better for y in worse]
    expected = 0.5 if np.mean(a) == np.mean(b) else sum(pairs) / len(pairs)
    found = wrong_conclusion([float(v) for v in a], [float(v) for v in b])
    assert found.probability == pytest.approx(expected)
    assert 0 <= found.low <= found.probability <= found.high <= 1


def test_higher_can_be_better() -> None:
    a, b = [9.0, 8.0, 7.0], [1.0, 2.0, 7.5]
    assert wrong_conclusion(a, b, lower_is_better=False).probability == pytest.approx(1 / 9)


def test_a_share_of_zero_still_has_an_upper_end() -> None:
    found = wrong_conclusion([1.0] * 5 + [1.1] * 5, [2.0] * 5 + [2.1] * 5)
    assert found.probability == 0 and found.low == 0 and 0.05 < found.high < 0.35


def test_the_interval_of_the_wrong_share_covers_the_truth() -> None:
    # Normal runs whose means lie so far apart that 31 % of pairs are wrong, as in Alameldeen et al. 2003.
    chance, held, shift = np.random.default_rng(7), 0, -stats.norm.ppf(0.31) * math.sqrt(2)
    for _ in range(2000):
        found = wrong_conclusion(
            chance.normal(0, 1, 20).tolist(), chance.normal(shift, 1, 20).tolist(), a_is_better=True
        )
        held += found.low <= 0.31 <= found.high
    assert 0.93 <= held / 2000 <= 0.98


def test_the_normal_estimate_is_that_of_two_normal_runs() -> None:
    chance = np.random.default_rng(3)
    a, b = chance.normal(0, 1, 4000).tolist(), chance.normal(1, 1, 4000).tolist()
    found = wrong_conclusion(a, b)
    assert found.normal == pytest.approx(stats.norm.cdf(-1 / math.sqrt(2)), abs=0.02)
    assert found.normal == pytest.approx(found.probability, abs=0.02)
    many = wrong_with_means(estimate(a), estimate(b), 4)
    assert many == pytest.approx(stats.norm.cdf(-2 / math.sqrt(2)), abs=0.02)


def test_two_independent_estimates_of_one_share_differ_by_one_standard_error_typically() -> None:
    chance, far = np.random.default_rng(11), 0
    for _ in range(400):
        a, b = chance.normal(0, 1, (2, 10)), chance.normal(0.7, 1, (2, 10))
        first, second = (wrong_conclusion(a[i].tolist(), b[i].tolist(), a_is_better=True) for i in (0, 1))
        far += abs(first.consistent_with(second, (10, 10), (10, 10))) > 1.96
    assert far / 400 < 0.10


def test_further_runs_are_the_fewest_that_suffice() -> None:
    known = estimate(A)
    assert known.sd is not None
    for precision in (0.2, 0.05, 0.01):
        n = runs_for_precision(known, precision)
        assert n is not None

        def half(runs: int) -> float:
            assert known.sd is not None
            return float(stats.t.ppf(0.975, runs - 1)) * known.sd / math.sqrt(runs)

        assert half(n) <= precision * known.mean
        assert n == 2 or half(n - 1) > precision * known.mean


def test_the_runs_said_to_part_two_designs_part_them() -> None:
    a, b = estimate(A), estimate(B)
    n = runs_to_separate(a, b)
    assert n is not None and a.sd is not None and b.sd is not None
    halves = [float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n) for sd in (a.sd, b.sd)]
    assert sum(halves) < b.mean - a.mean
    assert runs_to_separate(a, a) is None


def test_holms_adjustment_is_the_published_one() -> None:
    # Holm 1979: the smallest times 3, the next times 2, the last times 1, never falling.
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_steins_number_of_runs_follows_its_formula() -> None:
    assert runs_for_absolute(1.0, 10, 0.5) == math.ceil((2.262157 / 0.5) ** 2)
    assert runs_for_absolute(1.0, 10, 5.0) == 10
    with pytest.raises(UsageError):
        runs_for_absolute(1.0, 10, 0.0)


def test_one_run_has_no_difference_and_few_have_no_bootstrap() -> None:
    with pytest.raises(UsageError):
        difference([1.0], [2.0, 3.0], paired=False)
    with pytest.raises(UsageError):
        difference([1.0, 2.0, 3.0], [2.0, 3.0], paired=True)
    assert bootstrap_interval([1.0, 2.0, 3.0]) is None
    assert bootstrap_interval([4.0] * LEAST) is None


def test_an_outlier_is_found_and_ordinary_figures_are_left_alone() -> None:
    assert outliers([10.0, 10.1, 9.9, 10.05, 9.95, 14.0]) == [5]
    assert outliers([10.0, 10.1, 9.9, 10.05, 9.95, 10.2]) == []


def test_a_drifting_sequence_is_autocorrelated_and_noise_is_not() -> None:
    noise = np.random.default_rng(5).normal(size=200)
    assert abs(autocorrelation(noise.tolist())) < 0.2 and not is_autocorrelated(noise.tolist())
    assert is_autocorrelated(np.cumsum(noise).tolist())


def test_a_warm_up_is_found_with_its_length_and_a_settled_series_has_none() -> None:
    chance = np.random.default_rng(9)
    settled = [(1 + chance.normal(0, 0.02, 100)).tolist() for _ in range(6)]
    warming = [[value + math.exp(-i / 8) for i, value in enumerate(line)] for line in settled]
    seen = warm_up(warming)
    assert seen is not None and 0.1 < seen.share < 0.5 and seen.change > 0.05
    assert warm_up(settled) is None
    assert truncation([9.0, 8.0, 1.0, 1.1, 0.9, 1.0, 1.05, 0.95]) == 2
