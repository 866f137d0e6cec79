"""Recorded and synthetic surfaces, and the replay of measurements on them.

The format is described in ``tests/tuning/surfaces/README.md``. Called by the report of tuning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, inf, log, pi, sin, sqrt
from pathlib import Path
from random import Random
from statistics import fmean

from stoker.errors import UsageError
from stoker.model.facts import Plain
from stoker.model.tuning import Choice, Cut, Knob, Outcome, Space
from stoker.tuning.grid import (
    Grid,
    Point,
    list_points,
    make_grid,
    restart_part,
    to_configuration,
    to_point,
)

_SCHEMA = "surface/1"
#: The wave of a drifting machine has this period in restarts.
_WAVE_RESTARTS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The truth of one configuration: ``value`` is the logarithm of the objective, minus infinity
    where ``outcome`` is not measured."""

    value: float
    outcome: Outcome = Outcome.MEASURED
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A complete grid. ``residuals``: logarithms to draw the noise from; of a synthetic surface
    ``noise`` is the deviation instead. ``drift``: how far the machine moves in 20 restarts.
    ``incomplete``: why it proves nothing and is shown all the same, empty for a whole one."""

    name: str
    title: str
    grid: Grid
    spots: Mapping[Point, Spot]
    residuals: tuple[float, ...] = ()
    noise: float = 0.0
    drift: float = 0.0
    is_recorded: bool = True
    incomplete: str = ""

    @property
    def best(self) -> float:
        """The logarithm of the best configuration's value."""
        return max(spot.value for spot in self.spots.values())

    @property
    def restarts(self) -> int:
        """How many restarts the whole grid costs."""
        return len({restart_part(self.grid, point) for point in self.spots})

    @property
    def is_flat(self) -> bool:
        """Whether no configuration is really better than the baseline."""
        return self.best - self.spots[self.grid.baseline].value < 1e-9

    @property
    def spread(self) -> float:
        """The deviation of one measurement's noise."""
        drawn = self.residuals
        return sqrt(fmean(each * each for each in drawn)) if drawn else self.noise


@dataclass(slots=True, kw_only=True)
class Replay:
    """One machine on which the surface is measured: noise and drift from one seed, the same for
    all methods as far as they measure at the same moment."""

    surface: Surface
    chance: Random
    restarts: int = 0
    running: Point | None = None

    def measure(self, point: Point) -> tuple[Outcome, float | None, bool]:
        """The outcome, the objective's value, and whether it cost a restart."""
        spot = self.surface.spots[point]
        part = restart_part(self.surface.grid, point)
        if spot.outcome is Outcome.REFUSED:
            return spot.outcome, None, False
        restarted = part != self.running
        self.restarts += restarted
        if spot.outcome is not Outcome.MEASURED:
            self.running = None
            return spot.outcome, None, True
        self.running = part
        return spot.outcome, exp(spot.value + self._disturb()), restarted

    def _disturb(self) -> float:
        """Noise, and drift as a slope and a wave."""
        surface, moment = self.surface, self.restarts / _WAVE_RESTARTS
        drift = surface.drift * (moment + sin(2 * pi * moment)) if surface.drift else 0.0
        if surface.residuals:
            return drift + self.chance.choice(surface.residuals)
        return drift + self.chance.gauss(0.0, surface.noise)


def read_surfaces(folder: Path) -> list[Surface]:
    """All surfaces of the folder, by name. Raises UsageError for one that is not whole."""
    return [read_surface(path) for path in sorted(folder.glob("*.json"))]


def read_surface(path: Path) -> Surface:
    """One surface. Raises UsageError with what is wrong."""
    try:
        told = json.loads(path.read_text("utf-8"))
        if told.get("schema") != _SCHEMA:
            raise UsageError(f"{path} is no {_SCHEMA}", "see README.md beside it")
        return _parse_synthetic(told) if "synthetic" in told else _parse_recorded(told)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error!r}", "see README.md beside it") from error


def without_priors(surface: Surface) -> Surface:
    """The same surface for a search that knows nothing of its knobs."""
    space = surface.grid.space
    knobs = tuple(
        replace(knob, spread=0.1, choices=tuple(replace(c, prior=0.0) for c in knob.choices))
        for knob in space.knobs
    )
    return replace(surface, grid=make_grid(replace(space, knobs=knobs)))


def _parse_space(told: Mapping[str, Plain]) -> Space:
    knobs = tuple(
        Knob(
            id=knob["id"],
            title=knob.get("title", knob["id"]),
            choices=tuple(
                Choice(id=each, prior=knob.get("priors", {}).get(each, 0.0))
                for each in knob["choices"]
            ),
            default=knob["default"],
            is_ordered=knob.get("is_ordered", False),
            restarts=knob.get("restarts", True),
            only_with={k: tuple(v) for k, v in knob.get("only_with", {}).items()},
            spread=knob.get("spread", 0.1),
        )
        for knob in told["knobs"]
    )
    cuts = tuple(
        Cut(
            where={k: tuple(v) for k, v in cut["where"].items()},
            because=cut.get("because", ""),
            source=cut.get("source", ""),
        )
        for cut in told.get("cuts", ())
    )
    return Space(
        engine=told.get("engine", "synthetic"),
        release=told.get("release", ""),
        knobs=knobs,
        cuts=cuts,
    )


def _parse_recorded(told: Mapping[str, Plain]) -> Surface:
    grid = make_grid(_parse_space(told))
    spots: dict[Point, Spot] = {}
    residuals: list[float] = []
    for each in told["points"]:
        point = to_point(grid, each["configuration"])
        if point is None:
            raise ValueError(f"no such configuration: {each['configuration']}")
        logs = [log(value) for value in each["values"]]
        outcome = Outcome(each.get("status", "measured"))
        causes = tuple(each.get("causes", ()))
        middle = fmean(logs) if outcome is Outcome.MEASURED else -inf
        spots[point] = Spot(value=middle, outcome=outcome, causes=causes)
        if outcome is Outcome.MEASURED and len(logs) > 1:
            widen = sqrt(len(logs) / (len(logs) - 1))
            residuals += [widen * (value - middle) for value in logs]
    missing = [point for point in list_points(grid) if point not in spots]
    if missing:
        raise ValueError(
            f"{len(missing)} configurations are missing, e.g. {to_configuration(grid, missing[0])}"
        )
    return Surface(
        name=told["name"],
        title=told.get("title", ""),
        grid=grid,
        spots=spots,
        residuals=tuple(residuals),
        incomplete=told.get("incomplete", ""),
    )


def _parse_synthetic(told: Mapping[str, Plain]) -> Surface:
    grid, made = make_grid(_parse_space(told)), told["synthetic"]
    spots = {
        point: _make_spot(told["name"], made, to_configuration(grid, point), point)
        for point in list_points(grid)
    }
    return Surface(
        name=told["name"],
        title=told.get("title", ""),
        grid=grid,
        spots=spots,
        noise=made.get("noise", 0.0),
        drift=made.get("drift", 0.0),
        is_recorded=False,
    )


def _make_spot(
    name: str, made: Mapping[str, Plain], configuration: Mapping[str, str], point: Point
) -> Spot:
    for failing in made.get("failing", ()):
        if all(configuration[knob] in choices for knob, choices in failing["where"].items()):
            causes = tuple(failing.get("causes", ()))
            return Spot(value=-inf, outcome=Outcome(failing["status"]), causes=causes)
    value = sum(
        effects.get(configuration[knob], 0.0) for knob, effects in made.get("main", {}).items()
    )
    value += sum(
        pair["effect"]
        for pair in made.get("pairs", ())
        if all(configuration[knob] == choice for knob, choice in pair["where"].items())
    )
    rough = made.get("roughness", 0.0)
    own = Random(f"{name}/{point}").gauss(0.0, rough) if rough else 0.0
    return Spot(value=log(100.0) + value + own)
