"""Laws of the search, for any answers of the servers."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.model.tuning import Budget, Outcome, Trial
from stoker.tuning.blame import find_faults
from stoker.tuning.grid import find_cut, make_grid, to_group, to_point
from stoker.tuning.steps import Finish, Try
from tests.tuning.campaigns import SPACE, Answer, answered, run, step_of

GRID = make_grid(SPACE)
seeds = st.integers(0, 10**6)
budgets = st.integers(0, 14)
WEIGHTS = {
    "mostly good": (8, 1, 1, 1, 1, 1),
    "mostly bad": (1, 1, 3, 3, 1, 1),
    "interrupted": (2, 1, 0, 0, 0, 5),
}
OUTCOMES = (
    Outcome.MEASURED,
    Outcome.STOPPED,
    Outcome.REFUSED,
    Outcome.FAILED,
    Outcome.LIAR,
    Outcome.INTERRUPTED,
)


class Adversary:
    """Answers anything, the same for the same trial number."""

    def __init__(self, seed: int, weights: str) -> None:
        self.seed, self.weights = seed, WEIGHTS[weights]

    def __call__(self, step: Try, count: int) -> Answer:
        chance = Random(f"{self.seed}/{count}")
        outcome = chance.choices(OUTCOMES, self.weights)[0]
        return Outcome.MEASURED if count == 0 else outcome, chance.lognormvariate(4, 0.5)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, restarts=budgets, weights=st.sampled_from(sorted(WEIGHTS)))
def test_any_answers_end_within_the_budget(seed: int, restarts: int, weights: str) -> None:
    trials, finish = run(Adversary(seed, weights), Budget(restarts=restarts))
    if restarts:
        assert sum(trial.restarted for trial in trials) <= restarts
    assert finish.reason.endswith(".")
    if not finish.is_improved:
        assert to_point(GRID, finish.configuration) == GRID.baseline
    else:
        assert finish.ratio is not None
        assert finish.ratio.low > 1


@settings(max_examples=25, deadline=None)
@given(seed=seeds, restarts=budgets, weights=st.sampled_from(sorted(WEIGHTS)))
def test_nothing_forbidden_or_shown_to_fail_is_proposed(
    seed: int, restarts: int, weights: str
) -> None:
    trials, _ = run(Adversary(seed, weights), Budget(restarts=restarts))
    for number, trial in enumerate(trials):
        point = to_point(GRID, trial.configuration)
        assert point is not None
        assert find_cut(GRID, point) is None
        before = trials[:number]
        if point != GRID.baseline:
            faults = find_faults(GRID, before, {})
            assert not faults.forbids(point, to_group(GRID, point))


@settings(max_examples=15, deadline=None)
@given(seed=seeds, cut=st.integers(0, 30), weights=st.sampled_from(sorted(WEIGHTS)))
def test_a_killed_campaign_goes_on_as_if_nothing_was(seed: int, cut: int, weights: str) -> None:
    adversary, budget = Adversary(seed, weights), Budget(restarts=10)
    whole = run(adversary, budget)
    assert run(adversary, budget, whole[0][:cut]) == whole


@settings(max_examples=20, deadline=None)
@given(seed=seeds, count=st.integers(0, 12))
def test_the_same_trials_give_the_same_step(seed: int, count: int) -> None:
    trials, _ = run(Adversary(seed, "mostly good"), Budget(restarts=10))
    kept = trials[:count]
    assert step_of(kept, Budget(restarts=10)) == step_of(list(kept), Budget(restarts=10))


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_no_configuration_is_tried_twice_while_exploring(seed: int) -> None:
    trials, _ = run(Adversary(seed, "mostly good"), Budget(restarts=14))
    tried = [
        to_point(GRID, trial.configuration)
        for trial in trials
        if not trial.pair and trial.purpose != "baseline" and trial.outcome != "interrupted"
    ]
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(
    "answer",
    [
        (Outcome.FAILED, 0.0),
        (Outcome.INTERRUPTED, 0.0),
        (Outcome.REFUSED, 0.0),
        (Outcome.LIAR, 0.0),
    ],
)
def test_a_baseline_that_never_runs_ends_the_campaign(answer: Answer) -> None:
    trials, finish = run(lambda step, count: answer, Budget(restarts=20))
    assert len(trials) <= 3
    assert not finish.is_improved


def test_equal_values_claim_nothing() -> None:
    trials, finish = run(lambda step, count: (Outcome.MEASURED, 50.0), Budget(restarts=12))
    assert not finish.is_improved
    assert sum(trial.restarted for trial in trials) <= 12


def test_minutes_bound_a_campaign() -> None:
    def answer(step: Try, count: int) -> Answer:
        return Outcome.MEASURED, 50.0 + count

    trials, _ = run(answer, Budget(minutes=10))
    assert sum(trial.seconds for trial in trials) <= 600


@pytest.mark.parametrize("restarts", [1, 2, 3])
def test_a_small_budget_is_kept(restarts: int) -> None:
    trials, finish = run(lambda step, count: (Outcome.MEASURED, 50.0), Budget(restarts=restarts))
    assert sum(trial.restarted for trial in trials) <= restarts
    assert isinstance(finish, Finish)


def test_a_trial_is_a_trial() -> None:
    first = step_of([], Budget(restarts=5))
    assert isinstance(first, Try)
    trial = answered(first, lambda step, count: (Outcome.MEASURED, 1.0), 0)
    assert isinstance(trial, Trial)
