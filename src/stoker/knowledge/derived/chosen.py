"""The engine's settings as rules read them: every flag of the catalogue, set or by default.

Called by :mod:`stoker.knowledge.describe`. A rule may name a flag by any of its spellings
(``settings.tp-size``), and a flag that this release does not have is None rather than unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from stoker.knowledge.conditions import list_paths
from stoker.knowledge.derived.subject import Subject
from stoker.knowledge.rules import load_rules
from stoker.model.engine_table import Option
from stoker.model.facts import Plain
from stoker.model.launch import Setting

_NUMBERS = {"int": int, "float": float}
_SWITCHES = {"true": True, "false": False}


def derive_settings(subject: Subject) -> dict[str, Plain]:
    """The value in force of each flag, by each spelling without its dashes.

    A bare flag is true or false, a number a number, several words a list; None is a flag that is
    not set and has no default, or that the release does not have. Of a switch with a spelling for
    each way (``--no-x`` beside ``--x``) one is what the other is not.
    """
    catalogue = subject.table.catalogue
    groups: dict[str, list[Setting]] = {}
    for setting in subject.settings:
        groups.setdefault(catalogue.identify(setting.name, setting.kind), []).append(setting)
    values: dict[str, Plain] = dict.fromkeys(_asked("settings"))
    for option in catalogue.options:
        value = _value_of(option, groups.get(option.names[0], ()))
        for name in option.names:
            turned = isinstance(value, bool) and _turns_off(name, option)
            values[name.lstrip("-")] = not value if turned else value
    for identity, group in groups.items():
        if catalogue.find(identity) is None and group[-1].kind == "flag":
            values[identity.lstrip("-")] = True if group[-1].value is None else group[-1].value
    return values


def derive_env(subject: Subject) -> dict[str, Plain]:
    """The value of each variable that the launch sets; None for one that a rule asks about."""
    chosen = {each.name: each.value for each in subject.settings if each.kind == "env"}
    return {**dict.fromkeys(_asked("env")), **chosen}


def _value_of(option: Option, group: Iterable[Setting]) -> Plain:
    told = list(group)
    if not told:
        return None if option.default is None else _typed(option.default, option)
    last = told[-1]
    if option.argument is None:
        return not _turns_off(last.name, option)
    words = [setting.value for setting in told] if option.repeatable else [last.value, *last.more]
    typed = [_typed(word, option) for word in words if word is not None]
    if option.nargs in ("*", "+") or option.repeatable:
        return typed
    return typed[-1] if typed else True


def _turns_off(name: str, option: Option) -> bool:
    """Whether a spelling of a switch means the other way than its first one."""
    if option.argument is not None or len(option.names) == 1:
        return False
    names = [each.lstrip("-") for each in option.names]
    bare = name.lstrip("-").replace("_", "-")
    return _is_negative(bare, names) is not _is_negative(names[0], names)


def _is_negative(bare: str, names: Iterable[str]) -> bool:
    """``no-x``, ``disable-x`` beside ``enable-x``, ``no-disable-x`` neither, and ``nkvo``."""
    known = set(names)
    is_turned = False
    if bare.startswith("no-") and any(not name.startswith("no-") for name in known):
        bare, is_turned = bare[3:], True
    elif any(bare == f"{no}{name}" for no in ("no", "n") for name in known):
        return True
    if bare.startswith("disable-") and f"enable-{bare[8:]}" in known:
        is_turned = not is_turned
    return is_turned


def _typed(word: str, option: Option) -> Plain:
    if option.argument is None:
        return _SWITCHES.get(word, False)
    try:
        return _NUMBERS[option.type](word) if option.type in _NUMBERS else word
    except ValueError:
        return word


@cache
def _asked(part: str) -> frozenset[str]:
    """The names below one part of the tree that some rule asks about."""
    paths = (path for rule in load_rules() for path in list_paths(rule.when))
    heads: Mapping[str, None] = dict.fromkeys(
        path.split(".", 1)[1] for path in paths if path.startswith(f"{part}.")
    )
    return frozenset(heads)
