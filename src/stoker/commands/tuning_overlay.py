"""A configuration as changes of one deployment file.

Called where a configuration is judged and where it is tried or kept. Pure. What a configuration
leaves as it is writes nothing, so the baseline is the file itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stoker.commands.fitting_keys import fit_key
from stoker.knowledge.present import Present, split_entry
from stoker.knowledge.space_cutting import default_configuration, is_active
from stoker.knowledge.space_rows import DRAFT_KEY
from stoker.model.facts import Plain
from stoker.model.tuning import Choice, Configuration, Knob, Space
from stoker.model.units import canonical_json

_SETTINGS, _ENV = "engine.settings.", "engine.env."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writes:
    """What goes into a file, by name, and what of it belongs to knobs that mean something."""

    values: dict[str, Plain]
    owned: frozenset[str]


def overlay(space: Space, present: Present, configuration: Configuration) -> dict[str, Plain]:
    """The changes of the deployment file, as :func:`stoker.spec.edit_deployment` takes them.

    ``present`` is the deployment that the space was built for. None removes a key, false leaves a
    flag out that somebody else than the file would set. Raises KeyError for a choice that the
    space does not have.
    """
    writes = _collect(space, present, configuration)
    entries: dict[str, dict[str, Plain]] = {}
    changes: dict[str, Plain] = {}
    for name, value in writes.values.items():
        flag, entry = split_entry(name)
        if name == DRAFT_KEY:
            changes[DRAFT_KEY] = value
        elif entry:
            entries.setdefault(flag, {})[entry] = value
        elif name.isupper():
            changes[f"{_ENV}{name}"] = value
        else:
            changes |= _write_flag(name, value, present)
    keeps_draft = DRAFT_KEY not in changes
    for flag, values in entries.items():
        changes |= _write_entries(flag, values, present, keeps_draft=keeps_draft)
    return dict(_without_idle(changes, present))


def find_choice(knob: Knob, configuration: Configuration) -> Choice:
    """The choice that a configuration has of a knob. Raises KeyError where there is none."""
    wanted = configuration.get(knob.id, knob.default)
    for choice in knob.choices:
        if choice.id == wanted:
            return choice
    raise KeyError(f"{knob.id} has no choice {wanted}")


def _collect(space: Space, present: Present, configuration: Configuration) -> _Writes:
    """What each knob writes: nothing where it stays as it is, nor what others have not touched."""
    base = default_configuration(space)
    values: dict[str, Plain] = {}
    owned: set[str] = set()
    for knob in space.knobs:
        choice = find_choice(knob, configuration)
        if not is_active(knob, configuration):
            continue
        told = {**choice.settings, **choice.variables}
        owned |= {present.identify(name) for name in told}
        touched = {present.identify(name) for name in values}
        stays = choice.id == knob.default and is_active(knob, base)
        if stays and not any(present.identify(name) in touched for name in told):
            continue
        values |= told
    for name in _idle_names(space, present, configuration):
        if present.identify(name) not in owned:
            values.setdefault(name, None)
    return _Writes(values=values, owned=frozenset(owned))


def _idle_names(space: Space, present: Present, configuration: Configuration) -> Iterator[str]:
    """What knobs that mean nothing in a configuration have set now."""
    for knob in space.knobs:
        if not is_active(knob, configuration):
            for choice in knob.choices:
                names = (*choice.settings, *choice.variables)
                yield from (name for name in names if present.is_set(name))


def _write_flag(name: str, value: Plain, present: Present) -> dict[str, Plain]:
    """The keys of one flag: the file keeps its spelling of it, and has it once."""
    deployment, table = present.subject.deployment, present.subject.table
    identity = present.identify(name)
    own = [each for each in deployment.engine.settings if present.identify(each) == identity]
    option = table.catalogue.find_written(name)
    is_bare = option is not None and option.argument is None
    room = present.room_key(name)
    if room and not own:
        return {room: value}
    key = f"{_SETTINGS}{name}" if is_bare else fit_key(f"{_SETTINGS}{name}", deployment, table)
    others: dict[str, Plain] = {f"{_SETTINGS}{each}": None for each in own}
    if value is None and present.is_proposed(name):
        return {**others, key: False}
    return {**others, key: value}


def _write_entries(
    flag: str, values: Mapping[str, Plain], present: Present, *, keeps_draft: bool
) -> dict[str, Plain]:
    """The keys of a flag that takes a JSON object: the object that is there, with the entries.

    What comes from the deployment's own ``draft`` key stays out: it is filled in from there.
    """
    filled = {
        row.entry
        for row in present.subject.table.settings.values()
        if row.entry and present.identify(row.flag) == present.identify(flag)
        if row.id == "draft_path" or not keeps_draft
    }
    object_ = {key: each for key, each in present.entries_of(flag).items() if key not in filled}
    for entry, value in values.items():
        if value is None:
            object_.pop(entry, None)
        else:
            object_[entry] = value
    return _write_flag(flag, canonical_json(object_) if object_ else None, present)


def _without_idle(changes: Mapping[str, Plain], present: Present) -> Iterator[tuple[str, Plain]]:
    """Without removals of what the file does not have."""
    deployment = present.subject.deployment
    for key, value in changes.items():
        if value is None:
            name = key.removeprefix(_SETTINGS).removeprefix(_ENV).removeprefix("serve.")
            holder: Mapping[str, Plain] = {
                **deployment.engine.settings,
                **deployment.engine.env,
                **deployment.serve.model_dump(exclude_none=True),
                **({DRAFT_KEY: ""} if deployment.draft else {}),
            }
            if name not in holder:
                continue
        yield key, value
