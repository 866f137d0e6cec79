"""Finalists against the baseline, in interleaved pairs (A B, B A, ...) of fresh measurements.

Neighbours in time share the drift, and each start serves two pairs, so a pair costs one restart.
What the search measured before never counts here: the best of many noisy values is too good. How
many pairs a finalist gets is settled before its first, so looking does not make it luckier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean

from stoker.model.distributions import student_quantile
from stoker.model.tuning import Outcome, Purpose, Trial
from stoker.tuning.grid import Grid, Point, to_point
from stoker.tuning.student import Ratio, find_ratio

#: Two finalists at most; the second is asked more of, so that both together are wrong in at most
#: 3.75 of 100 campaigns where nothing is better.
LEVELS = (0.95, 0.975)
LEAST_PAIRS, MOST_PAIRS = 3, 6
#: So many pairs may come to nothing (a failure, an interruption) before a finalist is given up.
_MOST_VOID = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A configuration to be confirmed in so many pairs. ``gain``: what the search believes."""

    point: Point
    pairs: int
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """How far a finalist's confirmation is. ``wanted``: the point to measure next and its pair;
    None once it is over. ``ratio``: of whole pairs; None where there is none."""

    finalist: Finalist
    wanted: tuple[Point, int] | None
    ratio: Ratio | None

    @property
    def is_improved(self) -> bool:
        """Whether the interval of all wanted pairs lies above 1."""
        enough = self.ratio is not None and self.ratio.count >= min(self.finalist.pairs, 2)
        return self.wanted is None and enough and self.ratio is not None and self.ratio.low > 1


def count_pairs(gain: float, noise: float, most: int, level: float) -> int:
    """The pairs that will probably tell this gain from nothing; ``most`` where none do."""
    for pairs in range(LEAST_PAIRS, most):
        if find_width(noise, pairs, level) <= 0.7 * gain:
            return pairs
    return max(most, 1)


def find_width(noise: float, pairs: int, level: float) -> float:
    """Half of the interval that so many pairs will have, in logarithms."""
    return student_quantile((1 + level) / 2, pairs - 1) * noise * sqrt(2 / pairs)


def follow(grid: Grid, trials: Sequence[Trial], finalist: Finalist, level: float) -> Round:
    """Where the finalist's confirmation stands after these trials of confirmation, its own and
    those of the finalist before it, which are left out by their pairs."""
    own = _list_pairs(grid, trials, finalist.point)
    whole = [pair for pair in own if pair.is_whole]
    ratio = find_ratio([pair.logarithm for pair in whole], level) if whole else None
    void = sum(pair.is_void for pair in own)
    broken = any(pair.is_broken for pair in own)
    last = own[-1] if own else None
    wanted: tuple[Point, int] | None = None
    if broken or void > _MOST_VOID or len(whole) >= finalist.pairs:
        wanted = None
    elif last is not None and last.is_open:
        other = finalist.point if last.points == (grid.baseline,) else grid.baseline
        wanted = (other, last.number)
    else:
        number = max((trial.pair for trial in trials), default=0) + 1
        first = grid.baseline if _ended_with(grid, trials, grid.baseline) else finalist.point
        wanted = (first, number)
    return Round(finalist=finalist, wanted=wanted, ratio=None if broken else ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    number: int
    points: tuple[Point, ...]
    values: tuple[float | None, ...]
    outcomes: tuple[Outcome, ...]
    baseline: Point

    @property
    def is_void(self) -> bool:
        return any(value is None for value in self.values)

    @property
    def is_whole(self) -> bool:
        return len(self.values) == 2 and not self.is_void

    @property
    def is_open(self) -> bool:
        return len(self.values) == 1 and not self.is_void

    @property
    def is_broken(self) -> bool:
        """Whether the finalist itself failed."""
        return any(
            point != self.baseline and outcome not in (Outcome.MEASURED, Outcome.INTERRUPTED)
            for point, outcome in zip(self.points, self.outcomes, strict=True)
        )

    @property
    def logarithm(self) -> float:
        found = dict(zip(self.points, self.values, strict=True))
        old = found.pop(self.baseline)
        new = next(iter(found.values()))
        return (new or 0.0) - (old or 0.0)


def _list_pairs(grid: Grid, trials: Sequence[Trial], point: Point) -> list[_Pair]:
    """The pairs of the finalist, an open one that has only the baseline with them."""
    numbers = sorted({trial.pair for trial in trials})
    found = []
    for number in numbers:
        members = [trial for trial in trials if trial.pair == number]
        points = [to_point(grid, trial.configuration) for trial in members]
        known = tuple(each for each in points if each is not None)
        is_last = number == numbers[-1]
        if point in known or (is_last and set(known) == {grid.baseline}):
            found.append(
                _Pair(
                    number=number,
                    points=known,
                    values=tuple(_value(trial) for trial in members),
                    outcomes=tuple(trial.outcome for trial in members),
                    baseline=grid.baseline,
                )
            )
    return found


def _value(trial: Trial) -> float | None:
    is_measured = trial.outcome is Outcome.MEASURED and trial.values and min(trial.values) > 0
    return fmean(map(log, trial.values)) if is_measured else None


def _ended_with(grid: Grid, trials: Sequence[Trial], point: Point) -> bool:
    return bool(trials) and to_point(grid, trials[-1].configuration) == point


def is_confirmation(trial: Trial) -> bool:
    """Whether the trial belongs to a pair."""
    return trial.purpose is Purpose.CONFIRMATION


def render_ratio(ratio: Ratio) -> str:
    """``1.083 (95 % interval 1.051 to 1.117, 4 pairs)``."""
    interval = f"{100 * ratio.level:.4g} % interval {ratio.low:.3f} to {ratio.high:.3f}"
    return f"{ratio.ratio:.3f} ({interval}, {ratio.count} pairs)"


def render_gain(gain: float) -> str:
    """``+8.3 %`` for a logarithm of a ratio."""
    return f"{100 * (exp(gain) - 1):+.1f} %"
