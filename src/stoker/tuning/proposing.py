"""Which configuration is worth the next restart: the largest expected improvement.

A configuration's worth is what it is expected to gain over the best that was measured, times the
probability that it can run. In the beginning nothing is known of any knob, so configurations that
change many knobs at once promise most: they are the screening, and no design is needed beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from stoker.tuning.belief import Belief
from stoker.tuning.blame import Faults
from stoker.tuning.chance import Chance
from stoker.tuning.grid import (
    Grid,
    Point,
    find_cut,
    list_neighbours,
    list_points,
    make_canonical,
    to_group,
)
from stoker.tuning.student import NORMAL

#: Spaces up to this size are looked at whole.
_SMALL = 200
#: Where climbs begin, beside the best and the baseline; and how long one may be.
_RANDOM_STARTS = 2
_MOST_MOVES = 12
#: Offers whose worth differs by less than this share are equals.
_EQUAL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A configuration and its worth: the logarithm of the ratio that it is expected to gain."""

    point: Point
    worth: float
    mean: float
    deviation: float
    risk: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What proposals are made from. ``tried``: how often each point was measured or broken.
    ``best``: the best of the measured points, by belief."""

    grid: Grid
    belief: Belief
    faults: Faults
    tried: Mapping[Point, int]
    best: Point


def propose(scene: Scene, chance: Chance) -> Offer | None:
    """The worthiest point that was not tried; None where there is none."""
    if scene.grid.size <= _SMALL:
        points = list(list_points(scene.grid))
        return _choose(_weigh_all(scene, points), chance)
    offers: dict[Point, Offer | None] = {}
    for start in _list_starts(scene, chance):
        _climb(scene, start, offers)
    return _choose((offer for offer in offers.values() if offer is not None), chance)


def propose_near(scene: Scene, points: Iterable[Point], chance: Chance) -> Offer | None:
    """The worthiest of these points that was not tried."""
    return _choose(_weigh_all(scene, points), chance)


def _choose(offers: Iterable[Offer], chance: Chance) -> Offer | None:
    """The worthiest offer; among equals, which are many while nothing is known, one by chance."""
    known = list(offers)
    most = max((offer.worth for offer in known), default=0.0)
    equal = [offer for offer in known if offer.worth >= most * (1 - _EQUAL)]
    return equal[int(chance.random() * len(equal))] if equal else None


def _weigh_all(scene: Scene, points: Iterable[Point]) -> Iterator[Offer]:
    for point in points:
        offer = weigh(scene, point)
        if offer is not None and point not in scene.tried:
            yield offer


def weigh(scene: Scene, point: Point) -> Offer | None:
    """The point's worth; None where it is forbidden."""
    group = to_group(scene.grid, point)
    if scene.faults.forbids(point, group) or find_cut(scene.grid, point) is not None:
        return None
    risk = scene.faults.risk(group)
    gain = fmean(
        _expect_gain(guess.mean - best.mean, guess.deviation)
        for guess, best in zip(
            scene.belief.guess_each(point), scene.belief.guess_each(scene.best), strict=True
        )
    )
    guess = scene.belief.guess(point)
    return Offer(
        point=point,
        worth=gain * (1 - risk),
        mean=guess.mean,
        deviation=guess.deviation,
        risk=risk,
    )


def _expect_gain(lead: float, deviation: float) -> float:
    share = lead / deviation
    return max(lead * NORMAL.cdf(share) + deviation * NORMAL.pdf(share), 0.0)


def _list_starts(scene: Scene, chance: Chance) -> Iterator[Point]:
    yield scene.best
    yield scene.grid.baseline
    for _ in range(_RANDOM_STARTS):
        yield draw_point(scene.grid, chance)


def draw_point(grid: Grid, chance: Chance) -> Point:
    """A point by chance; it may be one that is cut."""
    drawn = tuple(int(chance.random() * len(knob.choices)) for knob in grid.space.knobs)
    return make_canonical(grid, drawn)


def _climb(scene: Scene, start: Point, offers: dict[Point, Offer | None]) -> None:
    """Walk to ever worthier neighbours, and remember all that were seen and not tried."""

    def look(point: Point) -> float:
        if point not in offers:
            offer = weigh(scene, point)
            offers[point] = None if point in scene.tried else offer
        found = offers[point]
        return -1.0 if found is None else found.worth

    here, height = start, look(start)
    for _ in range(_MOST_MOVES):
        near = list(list_neighbours(scene.grid, here))
        there = max(near, key=look, default=here)
        if look(there) <= height:
            return
        here, height = there, look(there)
