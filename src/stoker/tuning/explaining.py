"""Answers to "and this choice?" from what is known, without a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from statistics import fmean

from stoker.model.tuning import Configuration, Cut, Space, Trial
from stoker.tuning.blame import SERVED, find_faults, to_cut
from stoker.tuning.confirming import render_gain
from stoker.tuning.grid import Grid, find_active, find_cut, make_grid, to_configuration, to_point


def explain_choice(
    space: Space,
    trials: Sequence[Trial],
    wish: Configuration,
    blamed: Mapping[str, tuple[str, ...]] | None = None,
) -> str:
    """One sentence, with its source, on the choices of ``wish`` beside the defaults of all other
    knobs: forbidden, shown to fail, measured, or open. ``blamed`` as in the search's rules."""
    grid = make_grid(space)
    named = ", ".join(f"{knob} {choice}" for knob, choice in wish.items())
    unknown = _find_unknown(space, wish)
    point = to_point(grid, wish)
    if unknown or point is None:
        return f"{named}: not known here; {unknown}."
    cut = _find_reason(grid, trials, wish, blamed or {})
    if cut is not None:
        return f"{named}: no; {cut.because}{_say_source(cut)}."
    wanted = [place for place, knob in enumerate(space.knobs) if knob.id in wish]
    idle = [space.knobs[each] for each in wanted if find_active(grid, point)[each] < 0]
    if idle:
        needs = " and ".join(
            f"{knob} {' or '.join(choices)}" for knob, choices in idle[0].only_with.items()
        )
        return f"{named}: {idle[0].id} means nothing without {needs}."
    return f"{named}: {_say_measured(grid, trials, to_configuration(grid, point))}."


def _find_unknown(space: Space, wish: Configuration) -> str:
    """What the space lacks of the wish; empty where it has everything."""
    choices = {knob.id: [choice.id for choice in knob.choices] for knob in space.knobs}
    for knob, choice in wish.items():
        if knob not in choices:
            return f"the knobs are {', '.join(choices)}"
        if choice not in choices[knob]:
            return f"{knob} has {', '.join(choices[knob])}"
    return ""


def _find_reason(
    grid: Grid, trials: Sequence[Trial], wish: Configuration, blamed: Mapping[str, tuple[str, ...]]
) -> Cut | None:
    """The cut that the wish breaks by itself, else one that it breaks beside the defaults."""
    learned = [to_cut(grid, *shown) for shown in find_faults(grid, trials, blamed).shown]
    cuts = [*(cut for cut, _ in grid.cuts), *learned]
    for cut in cuts:
        if all(wish.get(knob) in choices for knob, choices in cut.where.items()):
            return cut
    point = to_point(grid, wish)
    if point is None:
        return None
    whole = to_configuration(grid, point)
    beside = (
        cut
        for cut in learned
        if all(whole.get(knob) in choices for knob, choices in cut.where.items())
    )
    return find_cut(grid, point) or next(beside, None)


def _say_source(cut: Cut) -> str:
    return f" ({cut.source})" if cut.source else ""


def _say_measured(grid: Grid, trials: Sequence[Trial], configuration: Configuration) -> str:
    """What trials of this very configuration found."""
    baseline = to_configuration(grid, grid.baseline)
    values: dict[str, list[float]] = {"wish": [], "baseline": []}
    numbers = []
    for trial in trials:
        if trial.outcome not in SERVED or not trial.values or min(trial.values) <= 0:
            continue
        found = fmean(map(log, trial.values))
        if dict(trial.configuration) == configuration:
            values["wish"].append(found)
            numbers.append(str(trial.number))
        elif dict(trial.configuration) == baseline:
            values["baseline"].append(found)
    if not numbers:
        return "nothing speaks against it; a trial would tell"
    gain = fmean(values["wish"]) - fmean(values["baseline"] or values["wish"])
    word = "trial" if len(numbers) == 1 else "trials"
    return f"measured at {render_gain(gain)} against the baseline ({word} {', '.join(numbers)})"
