"""What is believed of every configuration after some were measured: a Gaussian process.

The logarithm of a value is a sum of what each knob does alone, what each two do together, a part
of the configuration's own, the drift of the machine, and noise. How strong each of these is, is
chosen by the measurements themselves (the largest posterior density), from what knowledge expects:
so a knob that does nothing is soon known for one, and few trials find the few that matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt
from operator import mul
from statistics import fmean

from stoker.tuning.chance import Chance
from stoker.tuning.grid import IDLE, Grid, Point, find_active
from stoker.tuning.triangular import Rows, factorise, solve_forward

#: The variance of the level, of which nothing is known before.
_LEVEL_VARIANCE = 1.0
#: After so many restarts a machine's drift has forgotten a third of itself. Reason: drift by
#: heat and neighbours goes in tens of minutes, a restart takes some.
_DRIFT_RESTARTS = 12.0
#: How much of an ordered knob's effect is smooth in its order.
_SMOOTH_SHARE = 0.85
#: Steps of a strength, and how far (in logarithms) it may lie from what was expected.
_STEP = log(2.0)
_LOOSENESS = 1.5
_MOST_STEPS = 4
#: Expected strengths, as deviations of logarithms, before anything is measured.
_EXPECTED_NOISE, _EXPECTED_DRIFT, _EXPECTED_ROUGHNESS = 0.015, 0.006, 0.01
_EXPECTED_PAIRS = 0.15
#: From so many rows on the strengths are known well enough for one round of steps.
_MANY_ROWS = 25

#: So many draws of the strengths beside the likeliest, so many moves apart.
_VIEWS, _WALK = 3, 8

_Sums = tuple[list[float], list[float], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. ``value``: logarithm of the ratio to the first baseline. ``weight``: full
    workloads it is worth. ``moment``: restarts that came before."""

    point: Point
    value: float
    weight: float = 1.0
    moment: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """Deviations of logarithms: of each knob, the noise, the drift and the configuration's own
    part. ``pairs``: the variance of two knobs together, as a share of the product of theirs."""

    knobs: tuple[float, ...]
    pairs: float
    noise: float
    drift: float
    roughness: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    steps: tuple[int, ...]
    strengths: Strengths
    factor: Rows
    solved: list[float]
    sums: _Sums
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What is believed of one configuration: the logarithm of its ratio, and how sure."""

    mean: float
    deviation: float


class Belief:
    """The process after its measurements. Made once for a step; asked for many points.

    With ``chance`` it is asked under several strengths, drawn by their density, since a few
    measurements do not settle which knobs matter; without, under the likeliest alone.
    """

    def __init__(self, grid: Grid, rows: Sequence[Row], chance: Chance | None = None) -> None:
        kernels = tuple(
            _make_kernel(len(knob.choices), smooth=knob.is_ordered) for knob in grid.space.knobs
        )
        self._grid = grid
        active = [find_active(grid, row.point) for row in rows]
        priors = [[choice.prior for choice in knob.choices] for knob in grid.space.knobs]
        values = [row.value - _expect(priors, a) for row, a in zip(rows, active, strict=True)]
        fitting = _Fitting(grid, rows, active, kernels)
        found = fitting.climb(values)
        fits = [found, *(fitting.wander(found, chance) if chance and len(rows) > 1 else ())]
        self.strengths = fits[0].strengths
        self._views = [_View(kernels, priors, active, fit) for fit in fits]
        self._memory: dict[Point, tuple[Guess, ...]] = {}

    def guess(self, point: Point) -> Guess:
        """What is believed of the point, the drift and the noise left out."""
        guesses = self.guess_each(point)
        mean = fmean(each.mean for each in guesses)
        square = fmean(each.deviation**2 + (each.mean - mean) ** 2 for each in guesses)
        return Guess(mean=mean, deviation=sqrt(square))

    def guess_each(self, point: Point) -> tuple[Guess, ...]:
        """The same under each of the strengths."""
        if point not in self._memory:
            active = find_active(self._grid, point)
            self._memory[point] = tuple(view.guess(active) for view in self._views)
        return self._memory[point]


class _View:
    """The process under one choice of strengths."""

    def __init__(
        self,
        kernels: Sequence[Sequence[Sequence[float]]],
        priors: Sequence[Sequence[float]],
        active: Sequence[Point],
        fit: _Fit,
    ) -> None:
        self._priors, self._strengths = priors, fit.strengths
        self._factor, self._solved = fit.factor, fit.solved
        self._columns = [
            [_make_column(near, place, size, active) for near in kernel]
            for place, (kernel, size) in enumerate(zip(kernels, fit.strengths.knobs, strict=True))
        ]
        self._seen = {a: [float(a == other) for other in active] for a in active}

    def guess(self, active: Point) -> Guess:
        cross, own = self._cross(active)
        solved = solve_forward(self._factor, cross)
        mean = _expect(self._priors, active) + sum(map(mul, solved, self._solved))
        return Guess(mean=mean, deviation=sqrt(max(own - sum(map(mul, solved, solved)), 1e-12)))

    def _cross(self, active: Point) -> tuple[list[float], float]:
        """The covariances of a point with all rows, and its own variance."""
        strengths = self._strengths
        used = [self._columns[place][number] for place, number in enumerate(active) if number >= 0]
        once = map(sum, zip(*(column[0] for column in used), strict=True))
        plain = map(sum, zip(*(column[1] for column in used), strict=True))
        square = map(sum, zip(*(column[2] for column in used), strict=True))
        half = strengths.pairs / 2
        found = [
            _LEVEL_VARIANCE + a + half * (b * b - c)
            for a, b, c in zip(once, plain, square, strict=True)
        ]
        rough = strengths.roughness**2
        if active in self._seen:
            found = [f + rough * s for f, s in zip(found, self._seen[active], strict=True)]
        sizes = [strengths.knobs[place] for place, number in enumerate(active) if number >= 0]
        squares = sum(size * size for size in sizes)
        own = _LEVEL_VARIANCE + squares + half * (sum(sizes) ** 2 - squares) + rough
        return found, own


def _expect(priors: Sequence[Sequence[float]], active: Point) -> float:
    return sum(
        prior[number] for prior, number in zip(priors, active, strict=True) if number != IDLE
    )


def _make_column(
    near: Sequence[float], place: int, size: float, active: Sequence[Point]
) -> tuple[list[float], list[float], list[float]]:
    """What a choice has in common with all rows, thrice as the sums need it."""
    alike = [near[a[place]] if a[place] >= 0 else 0.0 for a in active]
    plain = [size * each for each in alike]
    return [size * each for each in plain], plain, [each * each for each in plain]


def _make_kernel(count: int, *, smooth: bool) -> tuple[tuple[float, ...], ...]:
    """How alike the effects of two choices are, from 0 to 1."""
    if not smooth or count < 3:
        return tuple(tuple(float(i == j) for j in range(count)) for i in range(count))
    length = (count - 1) / 2
    return tuple(
        tuple(
            _SMOOTH_SHARE * exp(-(((i - j) / length) ** 2) / 2)
            + (1 - _SMOOTH_SHARE) * float(i == j)
            for j in range(count)
        )
        for i in range(count)
    )


class _Fitting:
    """The search for the strengths. Lower halves of matrices lie flat, row after row."""

    def __init__(
        self,
        grid: Grid,
        rows: Sequence[Row],
        active: Sequence[Point],
        kernels: Sequence[Sequence[Sequence[float]]],
    ) -> None:
        self._count = len(rows)
        pairs = [(i, j) for i in range(self._count) for j in range(i + 1)]
        self._alike = [
            [
                kernel[a][b]
                if (a := active[i][place]) >= 0 and (b := active[j][place]) >= 0
                else 0.0
                for i, j in pairs
            ]
            for place, kernel in enumerate(kernels)
        ]
        self._alike_square = [[each * each for each in alike] for alike in self._alike]
        self._same = [float(active[i] == active[j]) for i, j in pairs]
        self._near = [
            exp(-abs(rows[i].moment - rows[j].moment) / _DRIFT_RESTARTS) for i, j in pairs
        ]
        self._noise = [1 / rows[i].weight if i == j else 0.0 for i, j in pairs]
        knobs = len(kernels)
        self._expected = [
            *(max(knob.spread, 1e-3) for knob in grid.space.knobs),
            _EXPECTED_PAIRS,
            _EXPECTED_NOISE,
            _EXPECTED_DRIFT,
            _EXPECTED_ROUGHNESS,
        ]
        self._knobs = knobs

    def climb(self, values: Sequence[float]) -> _Fit:
        """The likeliest strengths, by steps of one at a time."""
        self._values = values
        steps = (0,) * len(self._expected)
        best = self._fit(steps, self._add_up(self._strengths(steps)))
        sweeps = 2 if self._count <= _MANY_ROWS else 1
        for _ in range(sweeps if self._count > 1 else 0):
            for place in range(len(steps)):
                best = self._climb_one(best, place)
        return best

    def _climb_one(self, best: _Fit, place: int) -> _Fit:
        for move in (1, -1):
            while (tried := self._step(best, place, move)) and tried.score > best.score:
                best = tried
        return best

    def wander(self, fit: _Fit, chance: Chance) -> Iterator[_Fit]:
        """Strengths drawn by their density: a walk by chance (Metropolis) from the likeliest."""
        for _ in range(_VIEWS):
            for _ in range(_WALK):
                place = int(chance.random() * len(fit.steps))
                move = (-2, -1, 1, 2)[int(chance.random() * 4)]
                tried = self._step(fit, place, move)
                if tried and chance.random() < exp(min(tried.score - fit.score, 0.0)):
                    fit = tried
            yield fit

    def _step(self, fit: _Fit, place: int, move: int) -> _Fit | None:
        old = fit.steps[place]
        if abs(old + move) > _MOST_STEPS:
            return None
        steps = (*fit.steps[:place], old + move, *fit.steps[place + 1 :])
        return self._fit(steps, self._move(fit.sums, place, old, old + move))

    def _add_up(self, strengths: Strengths) -> _Sums:
        """What the knobs have in common, summed: once for themselves, twice for their pairs."""
        scaled = [
            [size * each for each in alike]
            for size, alike in zip(strengths.knobs, self._alike, strict=True)
        ]
        once = [sum(map(mul, strengths.knobs, each)) for each in zip(*scaled, strict=True)]
        plain = [sum(each) for each in zip(*scaled, strict=True)]
        square = [sum(map(mul, each, each)) for each in zip(*scaled, strict=True)]
        return once, plain, square

    def _move(self, sums: _Sums, place: int, old: int, new: int) -> _Sums:
        """The sums after one knob's strength went from the old step to the new."""
        if place >= self._knobs:
            return sums
        before, after = (self._expected[place] * exp(_STEP * step) for step in (old, new))
        single, double = after - before, after**2 - before**2
        once, plain, square = sums
        alike, alike_square = self._alike[place], self._alike_square[place]
        return (
            [value + double * each for value, each in zip(once, alike, strict=True)],
            [value + single * each for value, each in zip(plain, alike, strict=True)],
            [value + double * each for value, each in zip(square, alike_square, strict=True)],
        )

    def _strengths(self, steps: Sequence[int]) -> Strengths:
        found = [
            expected * exp(_STEP * step)
            for expected, step in zip(self._expected, steps, strict=True)
        ]
        pairs, noise, drift, roughness = found[self._knobs :]
        return Strengths(
            knobs=tuple(found[: self._knobs]),
            pairs=pairs,
            noise=noise,
            drift=drift,
            roughness=roughness,
        )

    def _fit(self, steps: tuple[int, ...], sums: _Sums) -> _Fit:
        """``score``: the logarithm of the posterior density, but for a constant."""
        strengths = self._strengths(steps)
        factor = factorise(self._matrix(strengths, sums))
        solved = solve_forward(factor, self._values)
        score = -sum(map(mul, solved, solved)) / 2 - sum(log(row[-1]) for row in factor)
        score -= sum((_STEP * step / _LOOSENESS) ** 2 for step in steps) / 2
        return _Fit(
            steps=steps,
            strengths=strengths,
            factor=factor,
            solved=solved,
            sums=sums,
            score=score,
        )

    def _matrix(self, strengths: Strengths, sums: _Sums) -> Rows:
        half = strengths.pairs / 2
        rough, drift, noise = strengths.roughness**2, strengths.drift**2, strengths.noise**2
        others = zip(self._same, self._near, self._noise, strict=True)
        flat = [
            _LEVEL_VARIANCE + a + half * (b * b - c) + rough * s + drift * d + noise * n
            for a, b, c, (s, d, n) in zip(*sums, others, strict=True)
        ]
        starts = [row * (row + 1) // 2 for row in range(self._count + 1)]
        return [flat[a:b] for a, b in pairwise(starts)]
