"""Ratios from few pairs, with intervals by Student's t, and the normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from statistics import NormalDist, fmean, stdev

from stoker.model.distributions import student_quantile

NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio with its interval at ``level`` (0.95 is 95 %), from ``count`` pairs."""

    ratio: float
    low: float
    high: float
    level: float
    count: int


def find_ratio(logarithms: Sequence[float], level: float) -> Ratio:
    """The geometric mean of ratios, given as logarithms, with its interval; unbounded for one."""
    middle, count = fmean(logarithms), len(logarithms)
    width = inf
    if count > 1:
        quantile = student_quantile((1 + level) / 2, count - 1)
        width = quantile * stdev(logarithms) / sqrt(count)
    high = exp(min(middle + width, 700.0)) if width < inf else inf
    low = exp(middle - width) if width < inf else 0.0
    return Ratio(ratio=exp(middle), low=low, high=high, level=level, count=count)
