"""Spaces and whole campaigns for the tests of the search."""

from collections.abc import Callable
from random import Random

from stoker.model.tuning import Budget, Choice, Cut, Knob, Outcome, Space, Trial
from stoker.tuning.search import Rules, next_step
from stoker.tuning.steps import Finish, Step, Try

#: What a server answers: an outcome and a value.
Answer = tuple[Outcome, float]
Answering = Callable[[Try, int], Answer]


def knob(id_: str, choices: str, **others: object) -> Knob:
    """A knob with choices of one word each; the first is the default."""
    words = choices.split()
    made = tuple(Choice(id=each) for each in words)
    return Knob(id=id_, title=id_, choices=made, default=words[0], **others)  # type: ignore[arg-type]


SPACE = Space(
    engine="sglang",
    release="0.5",
    knobs=(
        knob("attention", "triton fa3 flashinfer"),
        knob("speculation", "off eagle"),
        knob("topk", "1 2 4", is_ordered=True, only_with={"speculation": ("eagle",)}),
        knob("policy", "fcfs lpm", restarts=False),
        knob("graphs", "16 64 256", is_ordered=True),
    ),
    cuts=(
        Cut(
            where={"topk": ("2", "4"), "attention": ("fa3",)},
            because="fa3 verifies one branch only",
            source="the engine's own check",
        ),
    ),
)


def step_of(trials: list[Trial], budget: Budget, space: Space = SPACE, **rules: object) -> Step:
    """The next step, with chance as a command makes it."""
    return next_step(
        space,
        trials,
        budget=budget,
        chance=Random(f"7/{len(trials)}"),
        rules=Rules(**rules),  # type: ignore[arg-type]
    )


def run(
    answer: Answering,
    budget: Budget,
    trials: list[Trial] | None = None,
    space: Space = SPACE,
    **rules: object,
) -> tuple[list[Trial], Finish]:
    """A campaign until it ends, from these trials on."""
    trials = list(trials or [])
    while True:
        step = step_of(trials, budget, space, **rules)
        if isinstance(step, Finish):
            return trials, step
        trials.append(answered(step, answer, len(trials)))


def answered(step: Try, answer: Answering, count: int) -> Trial:
    """The trial that a step became."""
    outcome, value = answer(step, count)
    has_value = outcome in (Outcome.MEASURED, Outcome.STOPPED)
    return Trial(
        number=count + 1,
        configuration=step.configuration,
        purpose=step.purpose,
        outcome=outcome,
        values=(value,) if has_value else (),
        restarted=step.restarts and outcome is not Outcome.REFUSED,
        seconds=60.0,
        pair=step.pair,
    )
