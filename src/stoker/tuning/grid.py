"""The configurations of a space as tuples of numbers: which are the same, which are forbidden.

A point holds the number of a choice for each knob, in the space's order. A knob that means nothing
beside the others (``only_with``) has its default there, so no two points are the same server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from stoker.model.tuning import Configuration, Cut, Space

Point = tuple[int, ...]
#: Knobs with their choices, both as numbers.
Group = frozenset[tuple[int, int]]
#: Where a knob means nothing.
IDLE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A space in numbers. ``needs``: for each knob the knobs that it asks for, with the choices.
    ``cuts``: what cannot stand together, with the cut itself."""

    space: Space
    numbers: tuple[Mapping[str, int], ...]
    baseline: Point
    needs: tuple[tuple[tuple[int, frozenset[int]], ...], ...]
    cuts: tuple[tuple[Cut, tuple[tuple[int, frozenset[int]], ...]], ...]
    restarting: tuple[int, ...]

    @property
    def size(self) -> int:
        """Configurations, before anything is cut."""
        return prod(len(knob.choices) for knob in self.space.knobs)


def make_grid(space: Space) -> Grid:
    """The space in numbers. A knob or choice that it does not have binds nothing."""
    places = {knob.id: place for place, knob in enumerate(space.knobs)}
    numbers = tuple(
        {choice.id: number for number, choice in enumerate(knob.choices)} for knob in space.knobs
    )

    def ask(where: Mapping[str, tuple[str, ...]]) -> tuple[tuple[int, frozenset[int]], ...]:
        return tuple(
            (places[id_], frozenset(numbers[places[id_]].get(each, IDLE) for each in choices))
            for id_, choices in where.items()
            if id_ in places
        )

    known = [cut for cut in space.cuts if cut.where and all(id_ in places for id_ in cut.where)]
    return Grid(
        space=space,
        numbers=numbers,
        baseline=tuple(
            choices[knob.default] for choices, knob in zip(numbers, space.knobs, strict=True)
        ),
        needs=tuple(ask(knob.only_with) for knob in space.knobs),
        cuts=tuple((cut, ask(cut.where)) for cut in known),
        restarting=tuple(place for place, knob in enumerate(space.knobs) if knob.restarts),
    )


def find_active(grid: Grid, point: Point) -> Point:
    """The point with ``IDLE`` for each knob that means nothing in it."""
    found = list(point)
    for _ in point:
        before = list(found)
        for place, needs in enumerate(grid.needs):
            if any(found[other] not in allowed for other, allowed in needs):
                found[place] = IDLE
        if found == before:
            break
    return tuple(found)


def make_canonical(grid: Grid, point: Point) -> Point:
    """The point with the default for each knob that means nothing in it."""
    active = find_active(grid, point)
    return tuple(
        default if choice == IDLE else choice
        for choice, default in zip(active, grid.baseline, strict=True)
    )


def to_point(grid: Grid, configuration: Configuration) -> Point | None:
    """The canonical point; None where the configuration names a choice that the space lacks."""
    found = []
    for knob, numbers in zip(grid.space.knobs, grid.numbers, strict=True):
        number = numbers.get(configuration.get(knob.id, knob.default))
        if number is None:
            return None
        found.append(number)
    return make_canonical(grid, tuple(found))


def to_configuration(grid: Grid, point: Point) -> dict[str, str]:
    """The choices by knob."""
    return {
        knob.id: knob.choices[number].id
        for knob, number in zip(grid.space.knobs, point, strict=True)
    }


def to_group(grid: Grid, point: Point) -> Group:
    """The choices that mean something in the point."""
    return frozenset(
        (place, choice) for place, choice in enumerate(find_active(grid, point)) if choice != IDLE
    )


def find_cut(grid: Grid, point: Point) -> Cut | None:
    """The first cut that forbids the point. A knob that means nothing breaks none."""
    active = find_active(grid, point)
    for cut, asked in grid.cuts:
        if all(active[place] in choices for place, choices in asked):
            return cut
    return None


def restart_part(grid: Grid, point: Point) -> Point:
    """What of the point needs a restart to be changed."""
    return tuple(point[place] for place in grid.restarting)


def list_neighbours(grid: Grid, point: Point) -> Iterator[Point]:
    """All points that differ by the choice of one knob, canonical."""
    active = find_active(grid, point)
    for place, knob in enumerate(grid.space.knobs):
        if active[place] == IDLE:
            continue
        for number in range(len(knob.choices)):
            if number != point[place]:
                yield make_canonical(grid, (*point[:place], number, *point[place + 1 :]))


def list_points(grid: Grid) -> Iterator[Point]:
    """All canonical points that no cut forbids, each once. Large for many knobs."""
    for point in product(*(range(len(knob.choices)) for knob in grid.space.knobs)):
        if make_canonical(grid, point) == point and find_cut(grid, point) is None:
            yield point
