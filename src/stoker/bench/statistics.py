"""What can be said of measured values: percentiles, means, how sure they are, and differences.

Called by :mod:`stoker.bench.measuring` and :mod:`stoker.bench.comparing`. Pure, and in the standard
library alone, since a whole numerical package would weigh more than Stoker does. All values must be
finite. Percentiles are interpolated between neighbours, as NumPy does by default.
"""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from stoker.model.distributions import (
    binomial_probability,
    student_probability,
    student_quantile,
)

#: How much of all such intervals hold the truth.
LEVEL = 0.95
#: Two batches have an interval too, but one of twelve standard errors to each side.
LEAST_BATCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Values in their order: each distinct one, and how many are no larger than it."""

    values: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.ranks[-1] if self.ranks else 0

    def at(self, index: int) -> float:
        """The value at a place of the order, from 0."""
        return self.values[bisect_right(self.ranks, index)]


def distribute(values: Iterable[float]) -> Distribution:
    """The values in order. Millions of gaps have few distinct ones, so equal values are counted."""
    tally = Counter(values)
    distinct = sorted(tally)
    if not all(map(math.isfinite, distinct)):
        raise ValueError("a measured value is no finite number")
    return Distribution(
        values=tuple(distinct), ranks=tuple(accumulate(tally[value] for value in distinct))
    )


def find_mean(distribution: Distribution) -> float:
    """The mean; 0 of no values."""
    scale = _scale(distribution.values)
    if not scale:
        return 0.0
    parts = (value / scale * times for value, times in _counted(distribution))
    mean = math.fsum(parts) / distribution.count * scale
    # Rounding must not carry a mean of equal values out of them.
    return min(max(mean, distribution.values[0]), distribution.values[-1])


def find_deviation(distribution: Distribution) -> float:
    """The standard deviation of a sample (divided by n - 1); 0 of fewer than two values."""
    mean = find_mean(distribution)
    offsets = [(value / 2 - mean / 2, times) for value, times in _counted(distribution)]
    scale = max((abs(offset) for offset, _ in offsets), default=0.0)
    if not scale or distribution.count < 2:
        return 0.0
    total = math.fsum((offset / scale) ** 2 * times for offset, times in offsets)
    return min(math.sqrt(total / (distribution.count - 1)) * scale * 2, sys.float_info.max)


def find_percentile(distribution: Distribution, percent: float) -> float:
    """The percentile, interpolated linearly between neighbours. Raises ValueError for no values."""
    if not distribution.count or not 0 <= percent <= 100:
        raise ValueError(f"the percentile {percent} of {distribution.count} values")
    place = (distribution.count - 1) * percent / 100
    index = min(int(place), distribution.count - 1)
    below = distribution.at(index)
    above = distribution.at(min(index + 1, distribution.count - 1))
    part = place - index
    return min(max(below * (1 - part) + above * part, below), above)


def find_percentile_interval(
    distribution: Distribution, percent: float, level: float = LEVEL
) -> tuple[float, float] | None:
    """Two of the values between which the true percentile lies, whatever the distribution is.

    By order statistics: the number of values below the true percentile is binomial, and each tail
    gets half of what ``level`` leaves. None where there are too few values (6 at least for the
    median, 72 for the 95th, 368 for the 99th). It takes values as independent.
    """
    low, high = _find_ranks(distribution.count, percent, level)
    # So many values below the percentile, `low`, are too few to believe, and `high` and more are
    # too many: the percentile is not below the value at `low`, and not above the one at `high`.
    if low < 0 or high > distribution.count - 1:
        return None
    return distribution.at(low), distribution.at(high)


@lru_cache(maxsize=1024)
def _find_ranks(count: int, percent: float, level: float) -> tuple[int, int]:
    share, tail = percent / 100, (1 - level) / 2
    low = _last(count, lambda below: binomial_probability(below, count, share) <= tail)
    high = _last(count, lambda below: binomial_probability(below, count, share) < 1 - tail) + 1
    return low, high


def _last(count: int, holds: Callable[[int], bool]) -> int:
    """The last number from 0 to ``count`` for which a condition that turns false once still holds;
    -1 where it never does."""
    low, high = -1, count + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; 0 where one value is 0, 1 of no values (of ratios: unchanged).

    Raises ValueError for values below 0.
    """
    if any(value < 0 for value in values):
        raise ValueError("the geometric mean of a value below 0")
    if not values:
        return 1.0
    if not all(values):
        return 0.0
    mean = math.exp(math.fsum(math.log(value) for value in values) / len(values))
    return min(max(mean, min(values)), max(values))


# --- means of batches ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A mean of batches and what is known of it. ``error``: its standard error, for
    ``degrees`` of freedom. ``deviation``: of the batches."""

    mean: float
    error: float
    degrees: float
    deviation: float


def find_correlation(*runs: Sequence[float]) -> float:
    """How much batches resemble the batch before, from 0 to 0.9, over all runs together.

    The plain estimate is too small by about (1 + 4 r) / n (Marriott and Pope 1954), which matters
    with ten batches; that is put right. Batches that alternate count as independent.
    """
    products, squares, count = 0.0, 0.0, 0
    for run in runs:
        scale = _scale(run)
        mean = find_mean(distribute(run))
        offsets = [(value - mean) / scale if scale else 0.0 for value in run]
        products += math.fsum(map(operator.mul, offsets, offsets[1:]))
        squares += math.fsum(offset * offset for offset in offsets)
        count += len(run)
    size = count / max(len(runs), 1)
    if not squares or size <= 4:
        return 0.0
    return min(max((products / squares + 1 / size) / (1 - 4 / size), 0.0), 0.9)


def find_spread(batches: Sequence[float], correlation: float = 0.0) -> Spread:
    """The mean of batches with its standard error, for batches of which each resembles the one
    before so much: they are worth n (1 - r) / (1 + r) independent ones. Of fewer than two batches
    nothing is known: the error is infinite."""
    distribution = distribute(batches)
    mean, deviation, count = find_mean(distribution), find_deviation(distribution), len(batches)
    if count < 2:
        return Spread(mean=mean, error=math.inf, degrees=1.0, deviation=deviation)
    worth = max(count * (1 - correlation) / (1 + correlation), 2.0)
    # Batches that resemble each other also scatter less about their own mean.
    seen = max(1 - (count / worth - 1) / (count - 1), 0.1)
    error = deviation / math.sqrt(seen * worth)
    # The correlation is itself a guess from few batches; to let it take nearly all degrees of
    # freedom costs power and, with simulated AR(1) noise, makes no fewer false verdicts.
    degrees = max(worth - 1, (count - 1) / 2)
    return Spread(mean=mean, error=error, degrees=degrees, deviation=deviation)


def find_mean_interval(
    batches: Sequence[float], level: float = LEVEL
) -> tuple[float, float] | None:
    """The interval of the mean from means of batches, by Student's t; None for fewer than three.

    Requests of one run depend on each other, so the batch is what repeats; where batches resemble
    the one before, the interval is wider.
    """
    if len(batches) < LEAST_BATCHES:
        return None
    spread = find_spread(batches, find_correlation(batches))
    width = student_quantile((1 + level) / 2, spread.degrees) * spread.error
    return spread.mean - width, spread.mean + width


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """How far two runs differ. ``difference``: b less a, with its interval. ``chance``: how often
    equal servers would differ as much. ``effect``: the difference in standard deviations of a batch
    (Hedges' g), None where batches do not vary at all."""

    difference: float
    low: float
    high: float
    chance: float
    effect: float | None


def contrast(a: Sequence[float], b: Sequence[float], run_variance: float = 0.0) -> Contrast | None:
    """Welch's test on the batches of two runs; None where one has fewer than three.

    ``run_variance``: how much the means of two runs of an unchanged server vary beyond what their
    batches show. Batches that resemble the one before count for less.
    """
    if min(len(a), len(b)) < LEAST_BATCHES:
        return None
    correlation = find_correlation(a, b)
    spreads = find_spread(a, correlation), find_spread(b, correlation)
    difference = spreads[1].mean - spreads[0].mean
    parts = [spread.error**2 for spread in spreads]
    variance = math.fsum(parts) + 2 * run_variance
    if variance == 0:
        return Contrast(
            difference=difference,
            low=difference,
            high=difference,
            chance=0.0 if difference else 1.0,
            effect=None if difference else 0.0,
        )
    # The variance of runs is given, so it takes part with endless degrees of freedom.
    doubt = math.fsum(
        (part / variance) ** 2 / spread.degrees for part, spread in zip(parts, spreads, strict=True)
    )
    degrees = min(1 / doubt, 1e6) if doubt else 1e6
    width = student_quantile((1 + LEVEL) / 2, degrees) * math.sqrt(variance)
    return Contrast(
        difference=difference,
        low=difference - width,
        high=difference + width,
        chance=2 * student_probability(-abs(difference) / math.sqrt(variance), degrees),
        effect=_effect(difference, (len(a), spreads[0]), (len(b), spreads[1])),
    )


def _effect(difference: float, *sides: tuple[int, Spread]) -> float | None:
    degrees = sum(count - 1 for count, _ in sides)
    squares = math.fsum((count - 1) * spread.deviation**2 for count, spread in sides)
    if not squares:
        return None if difference else 0.0
    # The factor of Hedges (1981): the plain ratio is too large where there are few batches.
    return difference / math.sqrt(squares / degrees) * (1 - 3 / (4 * degrees - 1))


def hold_together(chances: Sequence[float]) -> tuple[float, ...]:
    """The chances of several tests, raised by Holm's steps so that all verdicts at one level
    together are wrong no more often than that level says."""
    raised = [0.0] * len(chances)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min((len(chances) - place) * chances[index], 1.0))
        raised[index] = highest
    return tuple(raised)


def _counted(distribution: Distribution) -> Iterable[tuple[float, int]]:
    before = 0
    for value, rank in zip(distribution.values, distribution.ranks, strict=True):
        yield value, rank - before
        before = rank


def _scale(values: Sequence[float]) -> float:
    """The largest size, by which sums are divided so that none overflows."""
    return max((abs(value) for value in values), default=0.0)
