"""Student's t for few measurements, and the normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan, cos, exp, inf, pi, sin, sqrt
from statistics import NormalDist, fmean, stdev

NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio with its interval at ``level`` (0.95 is 95 %), from ``count`` pairs."""

    ratio: float
    low: float
    high: float
    level: float
    count: int


def find_probability(value: float, degrees: int) -> float:
    """How probable it is that a t of so many degrees of freedom lies below ``value``."""
    angle = atan(value / sqrt(degrees))
    if degrees % 2:
        total, term = angle, cos(angle) * sin(angle)
        for step in range(3, degrees + 1, 2):
            total += term
            term *= cos(angle) ** 2 * (step - 1) / step
        return 0.5 + total / pi
    total, term = 0.0, sin(angle)
    for step in range(2, degrees + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (step - 1) / step
    return 0.5 + total / 2


def find_quantile(probability: float, degrees: int) -> float:
    """The t that lies above so much of the probability (0.5 or more)."""
    low, high = 0.0, 1.0
    while find_probability(high, degrees) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        below = find_probability(middle, degrees) < probability
        low, high = (middle, high) if below else (low, middle)
    return high


def find_ratio(logarithms: Sequence[float], level: float) -> Ratio:
    """The geometric mean of ratios, given as logarithms, with its interval; unbounded for one."""
    middle, count = fmean(logarithms), len(logarithms)
    width = inf
    if count > 1:
        quantile = find_quantile((1 + level) / 2, count - 1)
        width = quantile * stdev(logarithms) / sqrt(count)
    high = exp(min(middle + width, 700.0)) if width < inf else inf
    low = exp(middle - width) if width < inf else 0.0
    return Ratio(ratio=exp(middle), low=low, high=high, level=level, count=count)
