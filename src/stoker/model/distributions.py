"""Student's t, the binomial, and the incomplete beta function under both.

What benchmarks and searches say about chance rests on these. No library that is small enough for
the base install has them.
"""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300
_ENOUGH = 1e-15
_CLOSE = 1e-13
_MOST_STEPS = 100_000


def student_probability(value: float, degrees: float) -> float:
    """How probable it is that Student's t of so many degrees of freedom lies below ``value``."""
    if math.isinf(value):
        return float(value > 0)
    square = value * value
    if square < degrees:
        # Near the middle the other tail of the beta function keeps all digits.
        inner = incomplete_beta(0.5, degrees / 2, square / (degrees + square))
        return 0.5 + math.copysign(inner / 2, value)
    tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + square)) / 2
    return 1 - tail if value > 0 else tail


@lru_cache(maxsize=1024)
def student_quantile(probability: float, degrees: float) -> float:
    """The t below which so much of the probability lies; to about ten digits.

    Raises ValueError for a probability that is not between 0 and 1, or no degrees of freedom.
    """
    if not 0 < probability < 1 or degrees <= 0:
        raise ValueError(f"the quantile {probability} of Student's t of {degrees} degrees")
    if probability < 0.5:
        return -_student_upper(probability, degrees)
    return _student_upper(1 - probability, degrees) if probability > 0.5 else 0.0


def _student_upper(tail: float, degrees: float) -> float:
    """The t above which so much lies: by Newton's steps, and halving where one would leave the
    bounds that are known."""
    low, high = 0.0, 1.0
    while student_probability(-high, degrees) > tail and high < 1e150:
        low, high = high, high * 2
    value = (low + high) / 2
    for _ in range(200):
        excess = student_probability(-value, degrees) - tail
        low, high = (value, high) if excess > 0 else (low, value)
        following = value + excess / _student_density(value, degrees)
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - value) <= _CLOSE * value:
            return following
        value = following
    return value


def _student_density(value: float, degrees: float) -> float:
    ratio = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    power = (degrees + 1) / 2 * math.log1p(value * value / degrees)
    return max(math.exp(ratio - power) / math.sqrt(degrees * math.pi), _TINY)


def binomial_probability(most: int, count: int, share: float) -> float:
    """How probable at most so many successes are in ``count`` trials of chance ``share``."""
    if most < 0:
        return 0.0
    if most >= count:
        return 1.0
    return incomplete_beta(count - most, most + 1, 1 - share)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (NIST's
    Digital Library of Mathematical Functions, 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast on this side of the mean, and the other side is its complement.
    if x <= (a + 1) / (a + b + 2):
        return min(front / a / _fraction(a, b, x), 1.0)
    return max(1 - front / b / _fraction(b, a, 1 - x), 0.0)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction below the front factor, by Lentz' method as Thompson and Barnett
    changed it (1986)."""
    value = c = 1.0
    d = 0.0
    for step in range(1, _MOST_STEPS):
        half = step // 2
        if step % 2:
            factor = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        d = 1 / _away_from_zero(1 + factor * d)
        c = _away_from_zero(1 + factor / c)
        value *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
