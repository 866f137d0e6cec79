"""The next step of a tuning campaign, from its space and all trials so far: pure.

Called by ``stoker tune`` after every trial. It keeps nothing, so a campaign that was killed goes on
by itself: the same trials give the same step. The order: the baseline; configurations that promise
most, where knobs that need no restart are tried between restarts and the baseline comes back now
and then (drift); the finalists against the baseline in interleaved pairs; the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp

from stoker.model.tuning import Budget, Purpose, Space, Trial
from stoker.tuning.belief import Belief
from stoker.tuning.chance import Chance
from stoker.tuning.confirming import (
    LEAST_PAIRS,
    LEVELS,
    MOST_PAIRS,
    Finalist,
    Round,
    count_pairs,
    find_width,
    follow,
    is_confirmation,
    render_gain,
    render_ratio,
)
from stoker.tuning.grid import (
    Grid,
    Point,
    list_neighbours,
    make_grid,
    restart_part,
    to_configuration,
)
from stoker.tuning.history import SHORT_SHARE, History, read_history
from stoker.tuning.proposing import Offer, Scene, propose, propose_near
from stoker.tuning.steps import Finish, Step, Try

#: A restart is worth it while it is expected to gain this much (logarithm of a ratio).
_WORTH = 0.0005
#: The same of a trial without a restart, of which there are at most so many after each start.
_FREE_WORTH = 0.0005
_MOST_FREE = 4
#: The baseline comes back after so many restarts.
_DRIFT_RESTARTS = 10
#: A gain below this is not worth the restarts that would confirm it.
_LEAST_GAIN = 0.004
#: A trial is given up where a short workload shows it so far below the best: this much, or this
#: many deviations of the short workload's noise.
_GIVE_UP, _GIVE_UP_DEVIATIONS = 0.12, 4.0
#: The baseline is tried so often before a campaign is given up.
_MOST_BASELINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a campaign knows beside its space. ``blamed``: the knobs that each kind of cause blames,
    so that one diagnosis teaches a constraint. ``metric``: the objective's name, for sentences.
    ``usual_restarts``: the bound where the budget has none; 0 asks the space."""

    blamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metric: str = "throughput"
    usual_restarts: int = 0


def next_step(
    space: Space,
    trials: Sequence[Trial],
    *,
    budget: Budget,
    chance: Chance,
    rules: Rules | None = None,
) -> Step:
    """What to do after these trials. ``chance``: made anew for each step from the campaign's seed
    and ``len(trials)``; then the same trials give the same step."""
    grid = make_grid(space)
    rules = rules or Rules()
    first = next((n for n, trial in enumerate(trials) if is_confirmation(trial)), len(trials))
    history = read_history(grid, trials, rules.blamed)
    before = history if first == len(trials) else read_history(grid, trials[:first], rules.blamed)
    limit = _Limit.make(history, budget, rules)
    if not before.rows:
        return _start(history, limit)
    is_searching = first == len(trials)
    scene = _make_scene(before, chance if is_searching else None)
    search = _Search(before=before, history=history, limit=limit, chance=chance, scene=scene)
    if is_searching:
        if (step := search.explore()) is not None:
            return step
        # What is confirmed must not hang on chance: later steps have to find the same finalists.
        search = replace(search, scene=_make_scene(before, None))
    return search.confirm()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """What may still be spent. ``restarts`` and ``trials`` are counts, ``seconds`` is None without
    a bound; ``restart_seconds``: what the dearest trial took."""

    restarts: int
    total: int
    trials: int
    seconds: float | None
    trial_seconds: float

    @classmethod
    def make(cls, history: History, budget: Budget, rules: Rules) -> _Limit:
        total = budget.restarts or rules.usual_restarts or usual_restarts(history.grid.space)
        spent = sum(trial.seconds for trial in history.trials)
        return cls(
            restarts=total - history.restarts,
            total=total,
            trials=_MOST_FREE * 3 * total + 20 - len(history.trials),
            seconds=60 * budget.minutes - spent if budget.minutes else None,
            trial_seconds=max((trial.seconds for trial in history.trials), default=0.0),
        )

    def allows(self, restarts: int, trials: int = 1) -> bool:
        """Whether so many more restarts and trials can be afforded."""
        has_time = self.seconds is None or self.seconds >= trials * self.trial_seconds > 0
        if self.seconds is not None and not self.trial_seconds:
            has_time = self.seconds > 0
        return restarts <= self.restarts and trials <= self.trials and has_time

    @property
    def reserve(self) -> int:
        """Restarts that are kept for the confirmation."""
        return min(max(LEAST_PAIRS, self.total // 6), MOST_PAIRS) if self.total > 4 else 1


def usual_restarts(space: Space) -> int:
    """How many restarts a campaign gets where nothing bounds it: what tells the effects of all
    choices apart, and the confirmation."""
    effects = sum(len(knob.choices) - 1 for knob in space.knobs if knob.restarts)
    return 2 + effects + MOST_PAIRS


def _start(history: History, limit: _Limit) -> Step:
    """The baseline, or why there is none."""
    grid = history.grid
    baseline = to_configuration(grid, grid.baseline)
    ends = [trial for trial in history.trials if trial.purpose is Purpose.BASELINE]
    if grid.baseline in history.faults.broken:
        reason = "The deployment as it is did not run, so there is nothing to compare with."
        return Finish(configuration=baseline, is_improved=False, reason=f"{reason} Mend it first.")
    if len(ends) >= _MOST_BASELINES:
        reason = "The deployment as it is could not be measured: its trials were interrupted."
        return Finish(configuration=baseline, is_improved=False, reason=reason)
    if not limit.allows(int(history.would_restart(grid.baseline))):
        reason = "The budget is too small for one trial. Give it two restarts or more."
        return Finish(configuration=baseline, is_improved=False, reason=reason)
    return Try(
        configuration=baseline,
        purpose=Purpose.BASELINE,
        reason="The deployment as it is comes first; everything is compared with it.",
        restarts=history.would_restart(grid.baseline),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """One step's view. ``before``: the trials before the first confirmation; ``history``: all."""

    before: History
    history: History
    limit: _Limit
    chance: Chance
    scene: Scene

    def explore(self) -> Step | None:
        """The next trial of the search; None where the confirmation should begin."""
        scene = self.scene
        if (step := self._try_free(scene)) is not None:
            return step
        if not self.limit.allows(1 + self.limit.reserve, 1 + 2 * self.limit.reserve):
            return None
        if self.before.since_baseline >= _DRIFT_RESTARTS and self._may_repeat():
            return self._make(scene.grid.baseline, Purpose.BASELINE, _say_drift(self.before))
        offer = propose(scene, self.chance)
        if offer is None or offer.worth < _WORTH:
            return None
        return self._try_offer(scene, offer)

    def _may_repeat(self) -> bool:
        """Whether the baseline still runs: two failures of a known server end its repetitions."""
        last = [t for t in self.before.trials if t.purpose is Purpose.BASELINE][-2:]
        return any(trial.values for trial in last)

    def _try_free(self, scene: Scene) -> Step | None:
        """A change that needs no restart, beside what runs."""
        if self.before.running is None or not self.limit.allows(0):
            return None
        run = 0
        for trial in reversed(self.before.trials):
            if trial.restarted:
                break
            run += 1
        if run >= _MOST_FREE:
            return None
        offer = propose_near(scene, self._list_free(scene), self.chance)
        if offer is None or offer.worth < _FREE_WORTH:
            return None
        return self._try_offer(scene, offer)

    def _list_free(self, scene: Scene) -> list[Point]:
        """Points that what runs can become, one or two changes away from what was measured."""
        part = self.before.running
        grid = scene.grid
        if len(grid.restarting) == len(grid.space.knobs):
            return []
        here = [point for point in scene.tried if restart_part(grid, point) == part]
        once = {p for point in here for p in list_neighbours(grid, point)}
        found = {p for p in once if restart_part(grid, p) == part}
        twice = {p for point in found for p in list_neighbours(grid, point)}
        return sorted(found | {p for p in twice if restart_part(grid, p) == part})

    def _try_offer(self, scene: Scene, offer: Offer) -> Step:
        is_early = len({row.point for row in self.before.rows}) <= len(scene.grid.space.knobs) // 2
        purpose = Purpose.SCREENING if is_early else Purpose.PROPOSAL
        return self._make(
            offer.point, purpose, _say_offer(scene, offer), _give_up(scene, self.before)
        )

    def _make(self, point: Point, purpose: Purpose, reason: str, give_up_below: float = 0.0) -> Try:
        return Try(
            configuration=to_configuration(self.before.grid, point),
            purpose=purpose,
            reason=reason,
            restarts=self.history.would_restart(point),
            short_share=SHORT_SHARE if give_up_below else 0.0,
            give_up_below=give_up_below,
            incumbent=to_configuration(self.before.grid, self.scene.best),
        )

    def confirm(self) -> Step:
        """The next measurement of a finalist, or the end."""
        grid = self.before.grid
        finalists = self._list_finalists()
        trials = [trial for trial in self.history.trials if is_confirmation(trial)]
        told: Round | None = None
        for finalist, level in zip(finalists, LEVELS, strict=False):
            last = follow(grid, trials, finalist, level)
            if last.wanted is not None:
                return self._continue(last, told)
            if last.is_improved:
                return self._end(last)
            told = told or last
        return self._end(told)

    def _continue(self, round_: Round, earlier: Round | None) -> Step:
        """Measure on; where nothing is left for it, the finalist that was measured is told of."""
        point, pair = round_.wanted or (self.before.grid.baseline, 0)
        restarts = self.history.would_restart(point)
        if not self.limit.allows(int(restarts)):
            ended = Round(finalist=round_.finalist, wanted=None, ratio=round_.ratio)
            return self._end(earlier if ended.ratio is None and earlier is not None else ended)
        side = "the baseline" if point == self.before.grid.baseline else "the finalist"
        reason = (
            f"The search believes {render_gain(round_.finalist.gain)}; fresh measurements beside "
            f"the baseline tell whether it is so: {side} of pair {pair}."
        )
        return Try(
            configuration=to_configuration(self.before.grid, point),
            purpose=Purpose.CONFIRMATION,
            reason=reason,
            restarts=restarts,
            pair=pair,
            incumbent=to_configuration(self.before.grid, self.scene.best),
        )

    def _list_finalists(self) -> list[Finalist]:
        """The points that are believed best, better than the baseline, and could be confirmed."""
        belief = self.scene.belief
        level = belief.guess(self.before.grid.baseline).mean
        ranked = rank(self.before, belief)
        noise = belief.strengths.noise
        found = []
        for point, bound in zip(ranked, LEVELS, strict=False):
            gain = belief.guess(point).mean - level
            if point == self.before.grid.baseline or gain < _LEAST_GAIN:
                break
            most = self._most_pairs()
            if find_width(noise, max(most, 2), bound) > 2 * gain:
                break
            pairs = count_pairs(gain, noise, most, bound)
            found.append(Finalist(point=point, pairs=pairs, gain=gain))
        return found

    def _most_pairs(self) -> int:
        spent = self.before.restarts
        return max(min(self.limit.total - spent, MOST_PAIRS), 1)

    def _end(self, round_: Round | None) -> Finish:
        grid = self.before.grid
        baseline = to_configuration(grid, grid.baseline)
        incumbent = to_configuration(grid, self.scene.best)
        if round_ is None:
            reason = "Nothing that was tried is distinguishable from the deployment as it is."
            return Finish(
                configuration=baseline, is_improved=False, reason=reason, incumbent=incumbent
            )
        if round_.is_improved and round_.ratio is not None:
            return Finish(
                configuration=to_configuration(grid, round_.finalist.point),
                is_improved=True,
                ratio=round_.ratio,
                incumbent=incumbent,
                reason=f"Confirmed against the baseline: {render_ratio(round_.ratio)}.",
            )
        told = "no whole pair was measured" if round_.ratio is None else render_ratio(round_.ratio)
        return Finish(
            configuration=baseline,
            is_improved=False,
            ratio=round_.ratio,
            incumbent=incumbent,
            reason=f"The finalist is not distinguishable from the deployment as it is: {told}.",
        )


def _make_scene(history: History, chance: Chance | None) -> Scene:
    belief = Belief(history.grid, history.rows, chance)
    return Scene(
        grid=history.grid,
        belief=belief,
        faults=history.faults,
        tried=history.tried,
        best=rank(history, belief)[0],
    )


def rank(history: History, belief: Belief) -> list[Point]:
    """The points that were measured and may run, the one that is believed best first."""
    points = {row.point for row in history.rows}
    good = [each for each in points if each not in history.faults.broken] or [history.grid.baseline]
    return sorted(good, key=lambda each: (-belief.guess(each).mean, each))


def _give_up(scene: Scene, history: History) -> float:
    """The objective's value below which a trial is given up after a short workload; 0 for never,
    while little is known."""
    if len({row.point for row in history.rows}) < 3:
        return 0.0
    noise = scene.belief.strengths.noise / SHORT_SHARE**0.5
    margin = max(_GIVE_UP, _GIVE_UP_DEVIATIONS * noise)
    return exp(history.level + scene.belief.guess(scene.best).mean - margin)


def _say_offer(scene: Scene, offer: Offer) -> str:
    changes = _name_changes(scene.grid, offer.point)
    level = scene.belief.guess(scene.grid.baseline).mean
    believed = (
        f"{render_gain(offer.mean - level)} believed, give or take {100 * offer.deviation:.0f} %"
    )
    risk = f"; {100 * offer.risk:.0f} % that it does not run" if offer.risk > 0.01 else ""
    return f"{changes}: {believed}{risk}."


def _name_changes(grid: Grid, point: Point) -> str:
    changes = [
        f"{knob.id} {knob.choices[number].id}"
        for knob, number, default in zip(grid.space.knobs, point, grid.baseline, strict=True)
        if number != default
    ]
    return ", ".join(changes) or "the deployment as it is"


def _say_drift(history: History) -> str:
    return f"The baseline again, {history.since_baseline} restarts after the last, for the drift."
