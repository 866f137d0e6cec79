"""Searches on a replayed surface: ours, with and without priors, and the rivals.

All see the same noise, know the baseline and what the space forbids, and pay for every restart.
Rivals never pay for a configuration that they propose again: they are given the value that they
know. What a method believes best is what it would hand over, never what is truly best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from random import Random

from stoker.evaluate.tuning_surfaces import Replay, Surface, without_priors
from stoker.model.tuning import Budget, Trial
from stoker.tuning.grid import Point, make_canonical, to_configuration, to_point
from stoker.tuning.search import Rules, next_step
from stoker.tuning.steps import Finish

#: The budget of our search; where the baseline is the goal already, a usual one is enough to see
#: what is claimed.
MOST_RESTARTS, FLAT_RESTARTS = 36, 24
OURS, OURS_BLIND = "stoker", "stoker without priors"
RANDOM, ONE_BY_ONE, TPE = "random", "one factor at a time", "Optuna TPE"
#: TPE is stopped here, since each of its proposals takes longer than the last; a seed that has not
#: reached the goal by then counts as one that never did.
_MOST_TPE = 250
#: A rival that only repeats itself is given something new after so many times.
_MOST_REPEATS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a search went. ``believed``: by the number of restarts, the truth (logarithm) of what
    the method believed best. ``finish``: how our search ended."""

    believed: tuple[float, ...]
    finish: Finish | None = None

    def reach(self, goal: float) -> int | None:
        """The restarts after which the belief was at least so good; None where never."""
        return next((n for n, value in enumerate(self.believed) if value >= goal), None)

    def after(self, restarts: int) -> float:
        """What was believed after so many restarts, or at the end."""
        return self.believed[min(restarts, len(self.believed) - 1)]


#: A search yields what it believes best after every trial.
_Search = Callable[[Replay, Random], Iterator[Point]]


def run_method(name: str, surface: Surface, seed: int, until: float) -> Course:
    """One search with one seed; a rival is stopped once it has reached ``until`` and spent 20
    restarts, since nothing is asked of it beyond."""
    replay = Replay(surface=surface, chance=Random(f"{surface.name}/{seed}"))
    if name in (OURS, OURS_BLIND):
        restarts = (
            MOST_RESTARTS if surface.spots[surface.grid.baseline].value < until else FLAT_RESTARTS
        )
        seen = surface if name == OURS else without_priors(surface)
        return run_ours(seen, replay, seed, restarts)
    believed: list[float] = []
    for best in _RIVALS[name](replay, Random(f"{name}/{seed}")):
        _note(believed, replay.restarts, surface.spots[best].value)
        is_over = name == TPE and replay.restarts >= _MOST_TPE
        if is_over or (replay.restarts >= 20 and max(believed) >= until):
            break
    return Course(believed=tuple(believed))


def run_asked(asked: tuple[str, Surface, int, float]) -> Course:
    """The same, for a pool of processes, which finds this function by its module."""
    return run_method(*asked)


def _note(believed: list[float], restarts: int, value: float) -> None:
    """Write what is believed after so many restarts; nothing is known before the first."""
    while len(believed) <= restarts:
        believed.append(believed[-1] if believed else -inf)
    believed[restarts] = value


def run_ours(surface: Surface, replay: Replay, seed: int, restarts: int) -> Course:
    """Our search until it finishes, confirmation included."""
    trials: list[Trial] = []
    believed: list[float] = []
    grid, rules = surface.grid, Rules()
    while True:
        chance = Random(f"{seed}/{len(trials)}")
        budget = Budget(restarts=restarts)
        step = next_step(grid.space, trials, budget=budget, chance=chance, rules=rules)
        incumbent = to_point(grid, step.incumbent)
        if trials and incumbent is not None and not trials[-1].pair:
            _note(believed, replay.restarts, surface.spots[incumbent].value)
        if isinstance(step, Finish):
            return Course(believed=tuple(believed), finish=step)
        point = to_point(grid, step.configuration)
        assert point is not None
        outcome, value, restarted = replay.measure(point)
        trials.append(
            Trial(
                number=len(trials) + 1,
                configuration=step.configuration,
                purpose=step.purpose,
                outcome=outcome,
                values=() if value is None else (value,),
                restarted=restarted,
                causes=surface.spots[point].causes,
                pair=step.pair,
            )
        )


class _Notes:
    """What a rival measured, and what it believes: the largest value."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.values: dict[Point, float] = {}
        self.ask(replay.surface.grid.baseline)

    def ask(self, point: Point) -> float:
        """The value of a point, measured if it is new; minus infinity where it does not run."""
        if point not in self.values:
            _, value, _ = self.replay.measure(point)
            self.values[point] = -inf if value is None else value
        return self.values[point]

    @property
    def best(self) -> Point:
        """The point with the largest value."""
        return max(self.values, key=lambda each: self.values[each])


def _search_random(replay: Replay, chance: Random) -> Iterator[Point]:
    notes = _Notes(replay)
    yield notes.best
    points = sorted(replay.surface.spots)
    chance.shuffle(points)
    for point in points:
        notes.ask(point)
        yield notes.best


def _search_one_by_one(replay: Replay, chance: Random) -> Iterator[Point]:
    """Every knob in turn, the best choice kept, until a whole turn changes nothing."""
    notes, surface = _Notes(replay), replay.surface
    yield notes.best
    here, before = surface.grid.baseline, None
    order = list(range(len(here)))
    chance.shuffle(order)
    while here != before:
        before = here
        for place in order:
            for point in _list_row(surface, here, place):
                here = point if notes.ask(point) > notes.values[here] else here
                yield here


def _list_row(surface: Surface, start: Point, place: int) -> list[Point]:
    """The points with any choice of one knob and all other knobs as they are."""
    choices = range(len(surface.grid.space.knobs[place].choices))
    row = [(*start[:place], number, *start[place + 1 :]) for number in choices]
    return [p for each in row if (p := make_canonical(surface.grid, each)) in surface.spots]


def _search_tpe(replay: Replay, chance: Random) -> Iterator[Point]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    notes, surface = _Notes(replay), replay.surface
    yield notes.best
    sampler = optuna.samplers.TPESampler(seed=chance.randrange(2**31))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    knobs = surface.grid.space.knobs
    study.enqueue_trial(to_configuration(surface.grid, surface.grid.baseline))
    repeats = 0
    while len(notes.values) < len(surface.spots):
        if repeats > _MOST_REPEATS:
            new = chance.choice([p for p in sorted(surface.spots) if p not in notes.values])
            study.enqueue_trial(to_configuration(surface.grid, new))
        trial = study.ask()
        chosen = {k.id: trial.suggest_categorical(k.id, [c.id for c in k.choices]) for k in knobs}
        point = to_point(surface.grid, chosen)
        repeats = 0 if point in surface.spots and point not in notes.values else repeats + 1
        value = notes.ask(point) if point is not None and point in surface.spots else -inf
        if value == -inf:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)
        yield notes.best


_RIVALS: dict[str, _Search] = {
    RANDOM: _search_random,
    ONE_BY_ONE: _search_one_by_one,
    TPE: _search_tpe,
}


def has_optuna() -> bool:
    """Whether the rival can be run here."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        return False
    return True
