"""What a campaign does, on servers whose truth is known."""

from math import exp
from random import Random

from stoker.model.tuning import Budget, Choice, Knob, Outcome, Purpose, Space, Trial
from stoker.tuning.grid import make_grid, restart_part, to_point
from stoker.tuning.steps import Finish, Try
from tests.tuning.campaigns import SPACE, Answer, answered, knob, run, step_of

EFFECTS = {"attention": {"fa3": 0.2}, "speculation": {"eagle": 0.3}, "policy": {"lpm": 0.1}}


def truth(step: Try) -> float:
    return sum(
        EFFECTS.get(knob, {}).get(choice, 0.0) for knob, choice in step.configuration.items()
    )


def measure(step: Try, count: int) -> Answer:
    noise = Random(count).gauss(0, 0.01)
    return Outcome.MEASURED, 100 * exp(truth(step) + noise)


def test_the_best_is_found_and_confirmed() -> None:
    trials, finish = run(measure, Budget(restarts=20))
    assert finish.is_improved
    chosen = finish.configuration
    assert (chosen["attention"], chosen["speculation"], chosen["policy"]) == ("fa3", "eagle", "lpm")
    assert finish.ratio is not None
    assert finish.ratio.low < exp(0.6) < finish.ratio.high * 1.02
    assert trials[0].purpose is Purpose.BASELINE
    assert finish.reason.startswith("Confirmed against the baseline: 1.8")


def test_pairs_are_interleaved_and_cost_one_restart_each() -> None:
    trials, _ = run(measure, Budget(restarts=20))
    pairs = [trial for trial in trials if trial.pair]
    baseline = make_grid(SPACE).baseline
    sides = [to_point(make_grid(SPACE), trial.configuration) == baseline for trial in pairs]
    for first, second in zip(sides[::2], sides[1::2], strict=True):
        assert first != second
    assert sides[1:-1:2] == sides[2::2]
    assert sum(trial.restarted for trial in pairs) <= len(pairs) // 2 + 1


def test_free_knobs_are_tried_without_a_restart() -> None:
    trials, _ = run(measure, Budget(restarts=8))
    free = [trial for trial in trials if not trial.restarted and not trial.pair]
    assert {trial.configuration["policy"] for trial in free} >= {"lpm"}


def test_early_trials_change_several_knobs_at_once() -> None:
    trials, _ = run(measure, Budget(restarts=12))
    defaults = {each.id: each.default for each in SPACE.knobs}
    early = next(
        trial for trial in trials if trial.purpose is Purpose.SCREENING and trial.restarted
    )
    assert sum(early.configuration[name] != choice for name, choice in defaults.items()) >= 2


def test_what_knowledge_expects_is_tried_first() -> None:
    choices = (Choice(id="off"), Choice(id="eagle", prior=0.4, because="a recipe"))
    likely = Knob(id="speculation", title="", choices=choices, default="off", spread=0.2)
    space = Space(engine="sglang", release="1", knobs=(likely, knob("graphs", "16 64")))
    first = step_of([], Budget(restarts=9), space)
    assert isinstance(first, Try)
    trial = answered(first, lambda step, count: (Outcome.MEASURED, 10.0), 0)
    second = step_of([trial], Budget(restarts=9), space)
    assert isinstance(second, Try)
    assert second.configuration["speculation"] == "eagle"


def test_a_pair_that_fails_is_learned() -> None:
    def answer(step: Try, count: int) -> Answer:
        chosen = step.configuration
        if chosen["attention"] == "flashinfer" and chosen["speculation"] == "eagle":
            return Outcome.FAILED, 0.0
        return measure(step, count)

    trials, finish = run(answer, Budget(restarts=25))
    failures = sum(trial.outcome is Outcome.FAILED for trial in trials)
    assert failures <= 3
    assert finish.is_improved


def test_a_diagnosis_teaches_at_once() -> None:
    def answer(step: Try, count: int) -> Answer:
        if step.configuration["graphs"] == "256":
            return Outcome.FAILED, 0.0
        return measure(step, count)

    first, _ = run(answer, Budget(restarts=4))
    failed = next((trial for trial in first if trial.outcome is Outcome.FAILED), None)
    kept = first[: failed.number] if failed else first
    if failed:
        told = [*kept[:-1], _with_causes(failed)]
        trials, _ = run(answer, Budget(restarts=25), told, blamed={"graphs_too_large": ("graphs",)})
        later = trials[len(told) :]
        assert all(trial.configuration["graphs"] != "256" for trial in later)


def _with_causes(trial: Trial) -> Trial:
    from dataclasses import replace

    return replace(trial, causes=("graphs_too_large",))


def test_a_poor_trial_may_be_given_up() -> None:
    trials, _ = run(measure, Budget(restarts=12))
    step = step_of(trials[:6], Budget(restarts=12))
    assert isinstance(step, Try)
    assert step.pair or 0 < step.give_up_below < 100 * exp(0.6)
    assert step.pair or step.short_share == 0.25


def test_a_finalist_that_fails_is_not_claimed() -> None:
    def answer(step: Try, count: int) -> Answer:
        if step.purpose is Purpose.CONFIRMATION and truth(step) > 0:
            return Outcome.LIAR, 0.0
        return measure(step, count)

    trials, finish = run(answer, Budget(restarts=20))
    assert not finish.is_improved
    assert sum(trial.outcome is Outcome.LIAR for trial in trials) <= 2


def test_the_baseline_comes_back_for_the_drift() -> None:
    wide = Space(
        engine="sglang",
        release="1",
        knobs=tuple(knob(f"knob{n}", "a b c d", is_ordered=n % 2 > 0) for n in range(7)),
    )

    def answer(step: Try, count: int) -> Answer:
        return Outcome.MEASURED, 100 * exp(Random(count).gauss(0, 0.1))

    trials, _ = run(answer, Budget(restarts=30), space=wide)
    assert sum(trial.purpose is Purpose.BASELINE for trial in trials) >= 2


def test_a_restart_is_expected_where_the_restart_part_differs() -> None:
    trials, _ = run(measure, Budget(restarts=12))
    grid, running = make_grid(SPACE), None
    for trial in trials:
        point = to_point(grid, trial.configuration)
        assert point is not None
        part = restart_part(grid, point)
        assert trial.restarted == (part != running)
        running = part


def test_no_budget_for_anything_is_said() -> None:
    finish = step_of([], Budget(restarts=1, minutes=0))
    assert isinstance(finish, Try | Finish)
