"""Settings of an engine: from Stoker and from the deployment, merged into one command line.

Called by the adapters. Two spellings of one option are one setting (``-c``, ``--ctx-size`` and
the variable that the engine reads in its stead), which the engine's flag catalogue tells. A flag
that the catalogue does not know is kept as it is written: a rule speaks about it, not this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from stoker.errors import DataError
from stoker.model.deployment import Deployment, Engine, Scalar
from stoker.model.engine_table import EngineTable, FlagCatalogue, SettingRow
from stoker.model.launch import Origin, Setting

#: Settings by what they are about. An empty group says that the flag is left out on purpose.
Layer: TypeAlias = Mapping[str, tuple[Setting, ...]]

_PRECEDENCE = {origin: rank for rank, origin in enumerate(Origin)}
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
        _identify(row.flag, row.kind, table.catalogue): (_apply_row(row, choices[row.id]),)
        for row in rows
    }


def layer_env(engine: Engine, catalogue: FlagCatalogue) -> Layer:
    """The deployment's own variables."""
    return {
        _identify(name, "env", catalogue): (
            Setting(name=name, value=value, origin=Origin.USER, reason=_ENV_REASON, kind="env"),
        )
        for name, value in engine.env.items()
    }


def layer_settings(engine: Engine, catalogue: FlagCatalogue) -> Layer:
    """The deployment's own flags, spelled as it spells them."""
    layer: dict[str, tuple[Setting, ...]] = {}
    for name, value in engine.settings.items():
        flag = spell_flag(name, catalogue)
        items = value if isinstance(value, list) else [value]
        made = tuple(
            Setting(name=flag, value=_word(item), origin=Origin.USER, reason=_SET_REASON)
            for item in items
            if item is not False
        )
        identity = _identify(flag, "flag", catalogue)
        layer[identity] = layer.get(identity, ()) + made
    return layer


def merge_layers(layers: Sequence[Layer]) -> tuple[Setting, ...]:
    """One group for each option: that of the higher origin, the later layer where they are equal.

    A group keeps the place of the first one about the same option.
    """
    merged: dict[str, tuple[Setting, ...]] = {}
    for layer in layers:
        for identity, group in layer.items():
            if identity not in merged or _rank(group) <= _rank(merged[identity]):
                merged[identity] = group
    return tuple(setting for group in merged.values() for setting in group)


def render_argv(
    command: str, settings: Sequence[Setting], arguments: Sequence[str] = ()
) -> tuple[str, ...]:
    """The argument vector: the command with its own words, then every flag with its value."""
    flags = (word for setting in settings for word in render_setting(setting))
    return (command, *arguments, *flags)


def render_setting(setting: Setting) -> tuple[str, ...]:
    """The words on the command line that come from one setting; none for a variable."""
    if setting.kind != "flag":
        return ()
    return (setting.name,) if setting.value is None else (setting.name, setting.value)


def render_env(settings: Sequence[Setting]) -> dict[str, str]:
    """The variables that the settings give to the engine."""
    return {setting.name: setting.value or "" for setting in settings if setting.kind == "env"}


def spell_flag(name: str, catalogue: FlagCatalogue) -> str:
    """The flag as it stands on the command line; an unknown one gets two dashes."""
    option = catalogue.find(name)
    spellings = {name, name.replace("_", "-")}
    names = option.names if option else ()
    return next((known for known in names if known.lstrip("-") in spellings), f"--{name}")


def _identify(name: str, kind: str, catalogue: FlagCatalogue) -> str:
    """What a flag or variable is about: the option's first name, else the name itself."""
    if kind == "env":
        stands_for = next((each for each in catalogue.options if each.env == name), None)
        return stands_for.names[0] if stands_for else f"env {name}"
    option = catalogue.find(name)
    return option.names[0] if option else name


def _apply_row(row: SettingRow, choice: Choice) -> Setting:
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


def _word(value: Scalar | None) -> str | None:
    """A value as the engine's parser reads it; None for a bare flag."""
    if value is None or value is True:
        return None
    if isinstance(value, float):
        return _float_word(value)
    return str(value)


def _float_word(value: float) -> str:
    """The shortest digits that mean this number, without an exponent: ``0.00001``, ``4096``."""
    return format(Decimal(repr(value)), "f").removesuffix(".0")
