"""Cholesky factors in plain Python, for some sixty rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from operator import mul

Rows = list[list[float]]
#: Below this a pivot is rounding.
_LEAST_PIVOT = 1e-12


def factorise(lower: Sequence[Sequence[float]]) -> Rows:
    """The lower factor of a positive definite matrix of which the lower half is given."""
    factor: Rows = []
    for given in lower:
        row: list[float] = []
        for above, value in zip(factor, given, strict=False):
            row.append((value - sum(map(mul, row, above))) / above[-1])
        row.append(sqrt(max(given[-1] - sum(map(mul, row, row)), _LEAST_PIVOT)))
        factor.append(row)
    return factor


def solve_forward(factor: Rows, right: Sequence[float]) -> list[float]:
    """What the factor maps to ``right``."""
    solved: list[float] = []
    for row, value in zip(factor, right, strict=True):
        solved.append((value - sum(map(mul, row, solved))) / row[-1])
    return solved
