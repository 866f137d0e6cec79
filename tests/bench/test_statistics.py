"""What is said of values, against tables, exact sums and counting."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.bench.statistics import (
    contrast,
    distribute,
    find_correlation,
    find_deviation,
    find_mean,
    find_mean_interval,
    find_percentile,
    find_percentile_interval,
    find_spread,
    geometric_mean,
    hold_together,
)
from stoker.model.distributions import (
    binomial_probability,
    incomplete_beta,
    student_probability,
    student_quantile,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
many = st.lists(finite, min_size=1, max_size=30)
moderate = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)

#: Two-sided 95 % and 99 % points of Student's t, as printed tables have them.
TABLE = [
    (0.975, 1, 12.7062),
    (0.975, 2, 4.3027),
    (0.975, 3, 3.1824),
    (0.975, 4, 2.7764),
    (0.975, 9, 2.2622),
    (0.975, 30, 2.0423),
    (0.975, 120, 1.9799),
    (0.995, 1, 63.6567),
    (0.995, 5, 4.0321),
    (0.995, 10, 3.1693),
    (0.995, 60, 2.6603),
    (0.9, 1, 3.0777),
    (0.9, 7, 1.4149),
    (0.9995, 3, 12.9240),
    (0.975, 1e6, 1.95996),
]


@pytest.mark.parametrize(("probability", "degrees", "value"), TABLE)
def test_quantiles_of_student_are_those_of_the_tables(
    probability: float, degrees: float, value: float
) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(value, abs=6e-5)
    assert student_quantile(1 - probability, degrees) == pytest.approx(-value, abs=6e-5)


@given(st.floats(-50, 50))
def test_student_has_its_closed_forms(value: float) -> None:
    one = 0.5 + math.atan(value) / math.pi
    two = 0.5 + value / (2 * math.sqrt(2 + value * value))
    assert student_probability(value, 1) == pytest.approx(one, abs=1e-12)
    assert student_probability(value, 2) == pytest.approx(two, abs=1e-12)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.5, 1e5))
def test_a_quantile_is_where_its_probability_is(probability: float, degrees: float) -> None:
    value = student_quantile(probability, degrees)
    assert student_probability(value, degrees) == pytest.approx(probability, rel=1e-8)


@pytest.mark.parametrize(("probability", "degrees"), [(0, 3), (1, 3), (0.5, 0), (2, 1)])
def test_no_quantile_outside_of_the_distribution(probability: float, degrees: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        student_quantile(probability, degrees)


def test_student_far_out_is_certain() -> None:
    assert student_probability(math.inf, 3) == 1
    assert student_probability(-math.inf, 3) == 0
    assert student_probability(1e200, 3) == 1
    assert student_probability(0.0, 3) == 0.5


@given(st.integers(1, 40), st.integers(-1, 41), st.integers(1, 99))
def test_the_binomial_is_its_exact_sum(count: int, most: int, percent: int) -> None:
    share = Fraction(percent, 100)
    exact = sum(
        math.comb(count, wins) * share**wins * (1 - share) ** (count - wins)
        for wins in range(min(most, count) + 1)
    )
    assert binomial_probability(most, count, percent / 100) == pytest.approx(
        float(exact), abs=1e-12
    )


@given(st.floats(0.5, 1e6), st.floats(0.5, 1e6), st.floats(0, 1))
def test_the_beta_function_is_a_probability_and_mirrors(a: float, b: float, x: float) -> None:
    value = incomplete_beta(a, b, x)
    assert 0 <= value <= 1
    if 1 - (1 - x) == x:
        assert value + incomplete_beta(b, a, 1 - x) == pytest.approx(1, abs=1e-6)


# --- percentiles ---


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([1, 2, 3, 4], 50, 2.5),
        ([4, 1, 3, 2], 90, 3.7),
        ([1, 2], 25, 1.25),
        ([7], 99, 7),
        ([0, 0, 0, 10], 95, 8.5),
        (range(101), 99, 99),
    ],
)
def test_percentiles_are_interpolated(values: list[float], percent: float, expected: float) -> None:
    assert find_percentile(distribute(values), percent) == pytest.approx(expected)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=40))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    expected = statistics.quantiles(values, n=100, method="inclusive")
    for percent, value in enumerate(expected, 1):
        found = find_percentile(distribute(values), percent)
        assert found == pytest.approx(value, rel=1e-9, abs=1e-6)


@given(many, st.lists(st.floats(0, 100), min_size=2, max_size=6))
def test_percentiles_rise_and_stay_within(values: list[float], percents: list[float]) -> None:
    distribution = distribute(values)
    found = [find_percentile(distribution, percent) for percent in sorted(percents)]
    assert all(min(values) <= value <= max(values) for value in found)
    if max(map(abs, values)) < 1e300:
        # A hair is rounding between two places next to each other.
        hair = 1e-12 * max(map(abs, values))
        assert all(after >= before - hair for before, after in pairwise(found))


def test_what_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="0 values"):
        find_percentile(distribute([]), 50)
    with pytest.raises(ValueError, match="percentile"):
        find_percentile(distribute([1]), 101)
    with pytest.raises(ValueError, match="finite"):
        distribute([1, math.nan])
    with pytest.raises(ValueError, match="finite"):
        distribute([math.inf])


@pytest.mark.parametrize(("percent", "least"), [(50, 6), (90, 36), (95, 72), (99, 368)])
def test_an_interval_needs_enough_values(percent: float, least: int) -> None:
    assert find_percentile_interval(distribute(range(least)), percent) is not None
    assert find_percentile_interval(distribute(range(least - 1)), percent) is None
    assert find_percentile_interval(distribute([]), percent) is None


def test_the_interval_of_a_median_is_the_known_one() -> None:
    assert find_percentile_interval(distribute(range(1, 11)), 50) == (2, 9)
    assert find_percentile_interval(distribute(range(1, 21)), 50) == (6, 15)


@pytest.mark.parametrize(("percent", "count"), [(50, 10), (50, 101), (90, 60), (95, 200)])
def test_intervals_hold_the_true_percentile_as_often_as_they_say(
    percent: float, count: int
) -> None:
    random = Random(7)
    truth = -math.log(1 - percent / 100)
    held = 0
    for _ in range(1000):
        interval = find_percentile_interval(
            distribute(random.expovariate(1) for _ in range(count)), percent
        )
        assert interval is not None
        held += interval[0] <= truth <= interval[1]
    assert held >= 935


# --- means ---


@given(moderate)
def test_mean_and_deviation_are_those_of_the_standard_library(values: list[float]) -> None:
    distribution = distribute(values)
    assert find_mean(distribution) == pytest.approx(statistics.fmean(values), abs=1e-6)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    assert find_deviation(distribution) == pytest.approx(deviation, rel=1e-6, abs=1e-6)


@given(st.lists(finite, max_size=30))
def test_no_size_overflows(values: list[float]) -> None:
    distribution = distribute(values)
    assert math.isfinite(find_mean(distribution))
    assert math.isfinite(find_deviation(distribution))
    if values:
        assert min(values) <= find_mean(distribution) <= max(values)


def test_the_smallest_numbers_keep_their_mean() -> None:
    assert find_mean(distribute([5e-324, 5e-324])) == 5e-324
    assert find_mean(distribute([])) == find_deviation(distribute([])) == 0
    assert find_deviation(distribute([3])) == 0


def test_an_interval_of_the_mean() -> None:
    assert find_mean_interval([]) is None
    assert find_mean_interval([1.0, 2.0]) is None
    assert find_mean_interval([4.0] * 5) == (4, 4)
    # Alternating batches count as independent ones: mean 2, s = 1, t(0.975, 5) = 2.5706.
    low, high = find_mean_interval([1.0, 3.0, 1.0, 3.0, 2.0, 2.0]) or (0, 0)
    half = 2.570582 * statistics.stdev([1, 3, 1, 3, 2, 2]) / math.sqrt(6)
    assert low == pytest.approx(2 - half)
    assert high == pytest.approx(2 + half)


def test_batches_that_resemble_each_other_are_less_sure() -> None:
    rising = [float(step) for step in range(10)]
    assert find_correlation(rising) > 0.5
    assert find_spread(rising, find_correlation(rising)).error > find_spread(rising).error
    assert find_correlation([1.0, 2.0] * 5) == 0
    assert find_correlation([], [1.0]) == find_correlation([2.0] * 9) == find_correlation() == 0
    assert find_spread([1.0]).error == math.inf


def autocorrelated(random: Random, count: int, resemblance: float) -> list[float]:
    value, values = random.gauss(0, 1), []
    for _ in range(count):
        value = resemblance * value + math.sqrt(1 - resemblance**2) * random.gauss(0, 1)
        values.append(value)
    return values


@pytest.mark.parametrize("resemblance", [0.0, 0.3, 0.5])
def test_equal_runs_seldom_differ(resemblance: float) -> None:
    random = Random(11)
    trials = 600
    false = 0
    for _ in range(trials):
        a, b = (autocorrelated(random, 12, resemblance) for _ in range(2))
        found = contrast(a, b)
        assert found is not None
        false += found.chance < 0.05
    assert false <= 0.07 * trials


def test_a_contrast_knows_its_ends() -> None:
    assert contrast([1.0, 2.0], [1.0, 2.0, 3.0]) is None
    same = contrast([2.0] * 3, [2.0] * 3)
    assert same is not None
    assert (same.chance, same.effect, same.difference) == (1, 0, 0)
    exact = contrast([2.0] * 3, [3.0] * 3)
    assert exact is not None
    assert (exact.chance, exact.effect, exact.low) == (0, None, 1)
    doubted = contrast([2.0] * 3, [3.0] * 3, run_variance=1.0)
    assert doubted is not None
    assert doubted.low < 0 < doubted.high
    assert doubted.chance == pytest.approx(0.4795, abs=1e-4)


@given(
    st.lists(st.floats(-100, 100), min_size=3, max_size=12),
    st.lists(st.floats(-100, 100), min_size=3, max_size=12),
)
def test_a_contrast_is_the_same_from_the_other_side(a: list[float], b: list[float]) -> None:
    there, back = contrast(a, b, 0.01), contrast(b, a, 0.01)
    assert there is not None
    assert back is not None
    assert there.difference == pytest.approx(-back.difference)
    assert there.low == pytest.approx(-back.high)
    assert there.chance == pytest.approx(back.chance)
    assert (there.low <= 0 <= there.high) == (there.chance >= 0.05)


# --- several ---


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holding_together_only_raises_and_keeps_the_order(chances: list[float]) -> None:
    raised = hold_together(chances)
    assert len(raised) == len(chances)
    assert all(before <= after <= 1 for before, after in zip(chances, raised, strict=True))
    pairs = sorted(zip(chances, raised, strict=True))
    assert all(one[1] <= other[1] for one, other in pairwise(pairs))


def test_the_steps_of_holm() -> None:
    assert hold_together([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert hold_together([0.02]) == (0.02,)


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_a_geometric_mean_lies_within(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) <= mean <= max(values)
    assert mean == pytest.approx(statistics.geometric_mean(values), rel=1e-9)


def test_geometric_means_at_the_ends() -> None:
    assert geometric_mean([]) == 1
    assert geometric_mean([2, 0]) == 0
    assert geometric_mean([2, 8]) == pytest.approx(4)
    with pytest.raises(ValueError, match="below 0"):
        geometric_mean([1, -1])
