"""What a search of `stoker tune` knows beside its space, and its mark in the file."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.commands.tune_words import describe_gain
from stoker.knowledge.causes import load_causes
from stoker.knowledge.spaces import list_names
from stoker.model.campaign import Campaign
from stoker.model.facts import Plain
from stoker.model.tuning import Aim, Space
from stoker.spec.plain import read_plain
from stoker.tuning.search import Rules
from stoker.tuning.steps import Finish

_SETTINGS, _ENV = "engine.settings.", "engine.env."


def make_rules(space: Space, aim: Aim) -> Rules:
    """Which knobs a diagnosed cause blames: those that its repairs would change."""
    knobs = {name: knob.id for knob in space.knobs for name in list_names(knob)}
    blamed: dict[str, tuple[str, ...]] = {}
    for cause in load_causes().values():
        names = [
            key.removeprefix(_SETTINGS).removeprefix(_ENV)
            for repair in cause.repair
            for key in repair.changes
        ]
        found = tuple(dict.fromkeys(knobs[name] for name in names if name in knobs))
        if found:
            blamed[cause.kind] = found
    return Rules(blamed=blamed, metric=aim.metric)


def mark_tuned(campaign: Campaign, finish: Finish, changes: Mapping[str, Plain]) -> Plain:
    """What says in the deployment file which settings were found, and how."""
    values = read_plain(campaign.source, campaign.file).value
    engine = values.get("engine") if isinstance(values, dict) else None
    before = engine.get("tuned") if isinstance(engine, dict) else None
    before = before if isinstance(before, dict) else {}
    return {
        "evidence": campaign.id,
        "says": describe_gain(campaign.aim, finish),
        "settings": _found(before.get("settings"), changes, _SETTINGS),
        "env": _found(before.get("env"), changes, _ENV),
    }


def _found(before: object, changes: Mapping[str, Plain], prefix: str) -> dict[str, Plain]:
    """What an earlier search found and this one left alone, and what this one found."""
    kept = dict(before) if isinstance(before, dict) else {}
    for key, value in changes.items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            kept.pop(name, None)
            if value is not None:
                kept[name] = value
    return kept
