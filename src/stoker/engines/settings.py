"""Settings of an engine: from Stoker and from the deployment, merged into one command line.

Called by the adapters. Two spellings of one option are one setting (``-c``, ``--ctx-size`` and
the variable that the engine reads in its stead), which the engine's flag catalogue tells. A flag
that the catalogue does not know is kept as it is written: a rule speaks about it, not this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from stoker.errors import DataError
from stoker.model.deployment import Deployment, Engine
from stoker.model.deployment_fields import Scalar
from stoker.model.engine_table import EngineTable, FlagCatalogue, SettingRow
from stoker.model.finding import Source
from stoker.model.launch import Origin, Setting
from stoker.model.units import write_word

#: Settings by what they are about. An empty group says that the flag is left out on purpose.
Layer: TypeAlias = Mapping[str, tuple[Setting, ...]]

_PRECEDENCE = {origin: rank for rank, origin in enumerate(Origin)}
#: argparse's words for a flag that takes any number of values in one use.
_SEVERAL = ("*", "+")
_SET_REASON = "set under engine.settings"
_ENV_REASON = "set under engine.env"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A value for one row of the engine's table; None takes the row's own value."""

    value: str | None = None
    origin: Origin = Origin.STOKER


def choose_serving(deployment: Deployment) -> dict[str, Choice]:
    """Where and under which name any engine serves."""
    serve = deployment.serve
    values = {"host": serve.host, "port": serve.port, "published_name": deployment.published_name}
    return {
        name: Choice(
            value=str(value),
            origin=Origin.USER if name in serve.model_fields_set else Origin.STOKER,
        )
        for name, value in values.items()
    }


def layer_choices(choices: Mapping[str, Choice], table: EngineTable) -> Layer:
    """What the adapter chose, in the order of the table. ``choices`` is by row id.

    Raises DataError for an id that the table does not have.
    """
    if unknown := sorted(set(choices) - set(table.settings)):
        raise DataError(f"the table of {table.kind} has no setting {', '.join(unknown)}")
    rows = [row for row in table.settings.values() if row.id in choices]
    return {
        table.catalogue.identify(row.flag, row.kind): (apply_row(row, choices[row.id]),)
        for row in rows
    }


def layer_env(engine: Engine, catalogue: FlagCatalogue) -> Layer:
    """The deployment's own variables, those among them that a search found."""
    tuned = engine.tuned.env if engine.tuned else {}
    return {
        catalogue.identify(name, "env"): _marked(
            (Setting(name=name, value=value, origin=Origin.USER, reason=_ENV_REASON, kind="env"),),
            engine,
            is_tuned=tuned.get(name) == value,
        )
        for name, value in engine.env.items()
    }


def layer_settings(engine: Engine, catalogue: FlagCatalogue) -> Layer:
    """The deployment's own flags as it spells them, those among them that a search found."""
    tuned = engine.tuned.settings if engine.tuned else {}
    layer: dict[str, tuple[Setting, ...]] = {}
    for name, value in engine.settings.items():
        items = value if isinstance(value, list) else [value]
        made = make_flags(name, items, catalogue, origin=Origin.USER, reason=_SET_REASON)
        identity = catalogue.identify(catalogue.spell(name))
        made = _marked(made, engine, is_tuned=name in tuned and tuned[name] == value)
        layer[identity] = layer.get(identity, ()) + made
    return layer


def _marked(made: tuple[Setting, ...], engine: Engine, *, is_tuned: bool) -> tuple[Setting, ...]:
    """The settings as found by a search, while they are what it found."""
    tuned = engine.tuned
    if not is_tuned or tuned is None:
        return made
    source = Source(kind="observed", where=f"the search {tuned.evidence}")
    return tuple(
        replace(
            each,
            origin=Origin.TUNED,
            reason=tuned.says or "the best that was found",
            source=source,
            rule=tuned.evidence,
        )
        for each in made
    )


def make_flags(
    name: str,
    items: Sequence[Scalar | None],
    catalogue: FlagCatalogue,
    *,
    origin: Origin,
    reason: str,
) -> tuple[Setting, ...]:
    """The settings of one flag: one of all words where it takes several, else one for each.

    ``False`` leaves the flag out.
    """
    flag = catalogue.spell(name)
    option = catalogue.find(flag)
    words = [write_word(item) for item in items if item is not False]
    if option is not None and option.nargs in _SEVERAL and len(words) > 1 and all(words):
        first, *more = (word or "" for word in words)
        return (Setting(name=flag, value=first, more=tuple(more), origin=origin, reason=reason),)
    return tuple(Setting(name=flag, value=word, origin=origin, reason=reason) for word in words)


def layer_proposed(proposed: Sequence[Setting], catalogue: FlagCatalogue) -> Layer:
    """What rules, recipes, evidence and trials would choose; the first of the highest origin."""
    layer: dict[str, tuple[Setting, ...]] = {}
    for setting in sorted(proposed, key=lambda each: _PRECEDENCE[each.origin]):
        identity = catalogue.identify(setting.name, setting.kind)
        if identity in layer:
            kept, *rest = layer[identity]
            layer[identity] = (_noting(kept, (setting,)), *rest)
        else:
            layer[identity] = (setting,)
    return layer


def merge_layers(layers: Sequence[Layer]) -> tuple[Setting, ...]:
    """One group for each option: that of the higher origin, the later layer where they are equal.

    A group keeps the place of the first one about the same option, and its first setting knows
    what else would have been chosen. A default of ours that is overridden is not worth a word.
    """
    merged: dict[str, tuple[Setting, ...]] = {}
    for layer in layers:
        for identity, group in layer.items():
            if identity not in merged:
                merged[identity] = group
                continue
            present = merged[identity]
            won, lost = (group, present) if _rank(group) <= _rank(present) else (present, group)
            merged[identity] = (_noting(won[0], lost), *won[1:]) if won else won
    return tuple(setting for group in merged.values() for setting in group)


def _noting(setting: Setting, lost: Sequence[Setting]) -> Setting:
    """The same, knowing which other values were proposed, the highest origin first."""
    flat = [*setting.instead_of]
    for each in lost:
        flat += [replace(each, instead_of=()), *each.instead_of]
    told = [each for each in flat if each.origin is not Origin.STOKER]
    told.sort(key=lambda each: _PRECEDENCE[each.origin])
    return replace(setting, instead_of=tuple(told))


def render_argv(
    command: str, settings: Sequence[Setting], arguments: Sequence[str] = ()
) -> tuple[str, ...]:
    """The argument vector: the command with its own words, then every flag with its value."""
    flags = (word for setting in settings for word in render_setting(setting))
    return (command, *arguments, *flags)


def render_setting(setting: Setting) -> tuple[str, ...]:
    """The words on the command line that come from one setting; none for a variable."""
    if setting.kind == "positional":
        return (setting.value,) if setting.value is not None else ()
    if setting.kind != "flag":
        return ()
    if setting.value is None:
        return (setting.name,)
    return (setting.name, setting.value, *setting.more)


def render_env(settings: Sequence[Setting]) -> dict[str, str]:
    """The variables that the settings give to the engine."""
    return {setting.name: setting.value or "" for setting in settings if setting.kind == "env"}


def apply_row(row: SettingRow, choice: Choice) -> Setting:
    """The setting that a choice for a row becomes."""
    value = choice.value if choice.value is not None else row.default
    return Setting(
        name=row.flag,
        value=value if row.argument else None,
        origin=choice.origin,
        reason=row.reason,
        kind=row.kind,
        source=row.source,
    )


def _rank(group: Sequence[Setting]) -> int:
    return min((_PRECEDENCE[setting.origin] for setting in group), default=0)
