"""What is known of a choice without a trial: `stoker tune FILE --ask KNOB=CHOICE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.commands.tune_rules import make_rules
from stoker.commands.tuning_space import Prepared, judge_configuration
from stoker.commands.world import World
from stoker.errors import HostError, StateError, UsageError
from stoker.knowledge.space_cutting import default_configuration
from stoker.state.campaigns import list_campaigns, read_campaign
from stoker.tuning.explaining import explain_choice


def answer(world: World, prepared: Prepared, asked: Sequence[str]) -> tuple[str, ...]:
    """What is known of choices (``KNOB=CHOICE``) without a trial: a sentence each, with its source.

    Several are asked together, as one configuration, after each was asked alone. Raises UsageError
    for what is no choice.
    """
    wanted = dict(map(_parse_asked, asked))
    told = [_answer(world, prepared, {knob: choice}) for knob, choice in wanted.items()]
    if len(wanted) > 1:
        told.append(_answer(world, prepared, wanted))
    return tuple(told)


def _parse_asked(text: str) -> tuple[str, str]:
    knob, equals, choice = text.partition("=")
    if not (knob and equals and choice):
        raise UsageError(f"{text} is no choice of a knob", "write KNOB=CHOICE")
    return knob.lstrip("-"), choice


def _answer(world: World, prepared: Prepared, wanted: Mapping[str, str]) -> str:
    name = ", ".join(f"{knob} {choice}" for knob, choice in wanted.items())
    knobs = {knob.id: knob for knob in prepared.space.knobs}
    for knob, choice in wanted.items():
        if knob in knobs and any(each.id == choice for each in knobs[knob].choices):
            continue
        left = [
            each
            for each in prepared.left
            if each.knob == knob and (not each.choices or choice in each.choices)
        ]
        if left:
            source = f" ({left[0].source})" if left[0].source else ""
            return f"{name}: no; {left[0].because}{source}"
        known = (
            f"{knob} has: {', '.join(each.id for each in knobs[knob].choices)}"
            if knob in knobs
            else f"the knobs here are: {', '.join(knobs)}"
        )
        raise UsageError(f"{knob}={choice} is not known here", known)
    configuration = {**default_configuration(prepared.space), **wanted}
    refusal = judge_configuration(world, prepared, configuration)
    if refusal is not None:
        source = f" ({refusal.source})" if refusal.source else ""
        return f"{name}: no; {refusal.because}{source}"
    if told := _remember(world, prepared, wanted):
        return told
    chosen = [each for knob in wanted for each in knobs[knob].choices if each.id == wanted[knob]]
    because = "; ".join(each.because for each in chosen if each.because)
    return f"{name}: nothing speaks against it; a trial would tell" + (
        f" ({because})" if because else ""
    )


def _remember(world: World, prepared: Prepared, wanted: Mapping[str, str]) -> str:
    """What trials of a search for this very file found, the newest first; empty without any."""
    source = prepared.resolved.source
    for found in list_campaigns(world.host, world.folders):
        try:
            campaign = read_campaign(world.host, world.folders, found)
        except (StateError, HostError, UsageError):
            continue
        knobs = {knob.id for knob in campaign.space.knobs}
        if campaign.source != source or not campaign.trials or not wanted.keys() <= knobs:
            continue
        space, blamed = campaign.space, make_rules(campaign.space, campaign.aim).blamed
        told = explain_choice(space, campaign.trials, wanted, blamed)
        if told != explain_choice(space, (), wanted, blamed):
            return f"{told.removesuffix('.')}, search {found}"
    return ""
