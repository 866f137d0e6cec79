"""Which choice, or which two together, are to blame for trials that failed.

A suspect is a choice or a pair that every failed trial it shall explain contains and no trial that
was served. What a cut that is already known explains teaches nothing. What is shown is never tried
again; what is only suspected makes a configuration less attractive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from stoker.model.tuning import Cut, Outcome, Trial
from stoker.tuning.grid import Grid, Group, Point, to_group, to_point

#: Outcomes of a server that could run.
SERVED = frozenset({Outcome.MEASURED, Outcome.STOPPED})
#: Outcomes that a choice may be to blame for.
BROKEN = frozenset({Outcome.REFUSED, Outcome.FAILED, Outcome.LIAR})
#: A suspect this sure is taken for shown. Two failures that have nothing else in common reach it,
#: two that share a second changed choice do not.
_SHOWN = 0.85
#: How readily two choices together are blamed, against one alone.
_CHANGED_PAIR, _OTHER_PAIR = 0.5, 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What is known not to run. ``broken``: points that failed themselves. ``shown``: groups that
    are to blame, with the trial that showed it. ``suspects``: for each failure that is not
    explained, the groups that may be to blame, with their probabilities."""

    broken: frozenset[Point] = frozenset()
    shown: tuple[tuple[Group, Trial], ...] = ()
    suspects: tuple[tuple[tuple[Group, float], ...], ...] = ()

    def forbids(self, point: Point, group: Group) -> bool:
        """Whether the point failed or contains what is to blame."""
        return point in self.broken or any(shown <= group for shown, _ in self.shown)

    def risk(self, group: Group) -> float:
        """The probability that the group's server fails for a suspect that is in it. Failures
        mostly share what is to blame, so the worst one counts and not all together."""
        return max(
            (
                min(sum(share for suspect, share in suspects if suspect <= group), 1.0)
                for suspects in self.suspects
            ),
            default=0.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    trial: Trial
    group: Group


def find_faults(
    grid: Grid, trials: Sequence[Trial], blamed: Mapping[str, tuple[str, ...]]
) -> Faults:
    """What the trials teach. ``blamed``: the knobs that each kind of cause blames."""
    placed = [(trial, to_point(grid, trial.configuration)) for trial in trials]
    known = [(trial, point) for trial, point in placed if point is not None]
    served = {to_group(grid, point) for trial, point in known if trial.outcome in SERVED}
    failures = [
        _Failure(trial=trial, group=to_group(grid, point))
        for trial, point in known
        if trial.outcome in BROKEN
    ]
    shown = [
        (group, failure.trial)
        for failure in failures
        if (group := _find_named(grid, failure, blamed)) and not _is_contained(group, served)
    ]
    shown, suspects = _explain(grid, failures, served, shown)
    return Faults(
        broken=frozenset(point for trial, point in known if trial.outcome in BROKEN),
        shown=tuple(shown),
        suspects=tuple(tuple(each.items()) for each in suspects),
    )


def to_cut(grid: Grid, group: Group, trial: Trial) -> Cut:
    """What was shown to fail, as a cut with its evidence."""
    knobs = grid.space.knobs
    where = {knobs[place].id: (knobs[place].choices[number].id,) for place, number in sorted(group)}
    told = ", ".join(trial.causes) or trial.said or trial.outcome.value
    words = " with ".join(f"{knob} {choices[0]}" for knob, choices in where.items())
    return Cut(where=where, because=f"{words}: {told}", source=f"trial {trial.number}")


def _find_named(
    grid: Grid, failure: _Failure, blamed: Mapping[str, tuple[str, ...]]
) -> Group | None:
    """The choices of the knobs that the diagnosis blames, the defaults left out."""
    names = {knob for cause in failure.trial.causes for knob in blamed.get(cause, ())}
    found = frozenset(
        (place, number)
        for place, number in failure.group
        if grid.space.knobs[place].id in names and number != grid.baseline[place]
    )
    return found or None


def _is_contained(group: Group, served: set[Group]) -> bool:
    return any(group <= each for each in served)


def _explain(
    grid: Grid,
    failures: Sequence[_Failure],
    served: set[Group],
    shown: list[tuple[Group, Trial]],
) -> tuple[list[tuple[Group, Trial]], list[dict[Group, float]]]:
    """Take for shown what is sure, until nothing more is; then the suspects of the rest."""
    shown = list(shown)
    while True:
        left = [each for each in failures if not any(group <= each.group for group, _ in shown)]
        suspects = [_weigh(grid, each, left, served) for each in left]
        sure = next(
            (
                (group, failure.trial)
                for failure, shares in zip(left, suspects, strict=True)
                if (group := _find_sure(shares)) is not None
            ),
            None,
        )
        if sure is None:
            return shown, suspects
        shown.append(sure)


def _find_sure(shares: Mapping[Group, float]) -> Group | None:
    """The group that surely fails: a choice that is to blame alone, else the likeliest pair, which
    fails as well where one of its two is to blame."""
    sums = {
        group: sum(share for other, share in shares.items() if other <= group)
        for group, share in shares.items()
    }
    sure = [group for group, total in sums.items() if total >= _SHOWN]
    return min(sure, key=lambda group: (len(group), -sums[group], sorted(group)), default=None)


def _weigh(
    grid: Grid, failure: _Failure, failures: Sequence[_Failure], served: set[Group]
) -> dict[Group, float]:
    """The groups that may be to blame, with their probabilities. What explains more failures is
    likelier by far, so a choice is shown once it failed beside different others."""
    weights: dict[Group, float] = {}
    for group, weight in _list_suspects(grid, failure.group, served):
        count = sum(group <= each.group for each in failures)
        weights[group] = weight * float(count**3)
    total = sum(weights.values())
    return {group: weight / total for group, weight in weights.items()}


def _list_suspects(grid: Grid, group: Group, served: set[Group]) -> Iterator[tuple[Group, float]]:
    """Choices and pairs that no served trial had. Two choices that were both changed are blamed
    half as readily as one alone, and a changed one beside a default seldom: engines refuse most
    often what nobody runs together."""
    for item in sorted(group):
        alone = frozenset({item})
        if not _is_contained(alone, served):
            yield alone, 1.0
    for one, other in combinations(sorted(group), 2):
        pair = frozenset({one, other})
        if not _is_contained(pair, served):
            changed = sum(grid.baseline[place] != number for place, number in pair)
            yield pair, _CHANGED_PAIR if changed == 2 else _OTHER_PAIR
