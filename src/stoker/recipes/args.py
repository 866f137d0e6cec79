"""Lists of arguments, as collections write them, become settings.

Called by the importers. The engine's flag catalogues say which words belong to which flag; a flag
that none of them knows takes one word that does not look like a flag. Words are data: nothing is
expanded, and what cannot be placed is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stoker.model.engine_table import FlagCatalogue, Option
from stoker.model.facts import Plain
from stoker.model.launch import Setting

#: Longer than any list of arguments or any word of one that a person writes.
MAX_WORDS = 400
MAX_CHARACTERS = 20_000

_SEVERAL = ("*", "+")
_SHORTEST_BEGINNING = 4
_FLAG = re.compile(r"^--?[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """What is known of an engine's flags, from catalogues of some of its releases.

    ``options`` by every spelling without dashes, of the newest release that has it; made by
    :func:`make_grammar`.
    """

    options: Mapping[str, Option]

    def find(self, name: str) -> Option | None:
        """The option of a flag, with or without dashes.

        A beginning that only one option has stands for it, as the engines' parser takes it.
        """
        bare = name.lstrip("-")
        known = self.options.get(bare) or self.options.get(bare.replace("_", "-"))
        return known or self._find_beginning(bare.replace("_", "-"))

    def spell(self, name: str) -> str:
        """The flag with its dashes, as the newest catalogue that has it spells it; else as it is
        written."""
        bare, option = name.lstrip("-"), self.find(name)
        if option is None:
            return name
        spellings = (bare, bare.replace("_", "-"))
        named = (each for each in option.names if each.lstrip("-") in spellings)
        return next(named, option.names[0])

    def identify(self, setting: Setting) -> str:
        """What a setting is about, the same for all spellings of one flag."""
        if setting.kind == "env":
            return f"env {setting.name}"
        option = self.find(setting.name)
        return option.names[0] if option else setting.name

    def _find_beginning(self, bare: str) -> Option | None:
        if len(bare) < _SHORTEST_BEGINNING:
            return None
        begun = {
            option.names[0]: option
            for name, option in self.options.items()
            if name.startswith(bare)
        }
        return next(iter(begun.values())) if len(begun) == 1 else None


def make_grammar(catalogues: Sequence[FlagCatalogue]) -> Grammar:
    """What several catalogues know together, the first going before the others."""
    options: dict[str, Option] = {}
    for catalogue in catalogues:
        for option in catalogue.options:
            for name in option.names:
                options.setdefault(name.lstrip("-"), option)
    return Grammar(options=options)


def parse_arguments(
    words: object, grammar: Grammar, *, like: Setting
) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """The settings of a list of arguments, and sentences about what of it has no place.

    ``like`` gives every setting its origin, reason, source and rule. Of a flag that is given
    twice the last one counts, unless the engine counts every use. ``--a.b 1`` is put into the
    JSON of ``--a``, as the engine itself does.
    """
    if words is None:
        return (), ()
    if not isinstance(words, list):
        return (), ("a list of arguments is none",)
    texts, complaints = _texts(words)
    units, lost = _split(texts, grammar)
    nested, found = _gather_nested(units, grammar)
    settings = [_make(unit, grammar, like) for unit in found]
    merged = merge_settings([*settings, *(_nest(*each, like=like) for each in nested)], grammar)
    return merged, (*complaints, *lost)


def parse_variables(data: object, *, like: Setting) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Environment variables from a mapping; ``like`` as above."""
    if data is None:
        return (), ()
    if not isinstance(data, Mapping):
        return (), ("a mapping of variables is none",)
    fit = {name: value for name, value in data.items() if _is_variable(name, value)}
    settings = tuple(
        replace(like, name=name, value=_text(value), kind="env") for name, value in fit.items()
    )
    unfit = (name for name in data if name not in fit)
    return settings, tuple(f"the variable {name[:60]!r} has no value" for name in unfit)


def merge_settings(settings: Iterable[Setting], grammar: Grammar) -> tuple[Setting, ...]:
    """One of each, the later one at the place of the first; JSON for one flag is put together."""
    merged: dict[str, list[Setting]] = {}
    for setting in settings:
        identity = grammar.identify(setting)
        found = grammar.find(setting.name) if setting.kind == "flag" else None
        if identity not in merged:
            merged[identity] = [setting]
        elif found and found.repeatable:
            merged[identity].append(setting)
        else:
            merged[identity] = [_join(merged[identity][0], setting)]
    return tuple(_whole(setting) for group in merged.values() for setting in group)


def _whole(setting: Setting) -> Setting:
    return replace(setting, more=()) if setting.more == (_PART,) else setting


def _join(former: Setting, later: Setting) -> Setting:
    """The later one, or both where they came apart as parts of one JSON value."""
    if later.more != (_PART,):
        return later
    ours, theirs = _json(former.value), _json(later.value)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return replace(later, more=())
    return replace(later, value=_write_json(_merge(ours, theirs)), more=())


#: Marks a setting that is a part of a JSON value, until it is merged.
_PART = "\0part"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """One use of a flag, as it is written, with the words that belong to it."""

    flag: str
    words: tuple[str, ...] = ()


def _texts(words: Sequence[object]) -> tuple[list[str], list[str]]:
    texts, complaints = [], []
    for word in words[:MAX_WORDS]:
        text = _text(word)
        if isinstance(word, (dict, list)) or len(text) > MAX_CHARACTERS or "\0" in text:
            complaints.append("an argument is no text, or too long")
        elif _FLAG.match(text) and " " in text and "=" not in text.split(" ", 1)[0]:
            texts += text.split(None, 1)
        else:
            texts.append(text)
    if len(words) > MAX_WORDS:
        complaints.append(f"only the first {MAX_WORDS} arguments are read")
    return texts, complaints


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _is_variable(name: str, value: object) -> bool:
    is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,100}", name) is not None
    is_text = isinstance(value, (str, int)) and "\0" not in str(value)
    return is_name and is_text and len(str(value)) <= MAX_CHARACTERS


def _split(texts: Sequence[str], grammar: Grammar) -> tuple[list[_Unit], list[str]]:
    """The words in units of a flag and what belongs to it."""
    units: list[_Unit] = []
    lost: list[str] = []
    position = 0
    while position < len(texts):
        text = texts[position]
        position += 1
        if not _FLAG.match(text):
            lost.append(f"{text[:60]!r} belongs to no flag")
            continue
        flag, is_pair, value = text.partition("=")
        words = [value] if is_pair else _take(texts[position:], _room(flag, grammar))
        position += 0 if is_pair else len(words)
        units.append(_Unit(flag=flag, words=tuple(words)))
    return units, lost


def _room(flag: str, grammar: Grammar) -> int:
    """How many words may follow one use of a flag."""
    base = flag.partition(".")[0]
    found = grammar.find(base)
    if found is None or base != flag:
        return 1
    if found.argument is None:
        return 0
    return MAX_WORDS if found.nargs in _SEVERAL else 1


def _take(texts: Sequence[str], room: int) -> list[str]:
    taken: list[str] = []
    for text in texts[:room]:
        if _FLAG.match(text):
            break
        taken.append(text)
    return taken


def _gather_nested(
    units: Sequence[_Unit], grammar: Grammar
) -> tuple[list[tuple[str, Plain]], list[_Unit]]:
    """Uses like ``--a.b 1`` by their flag, and all other units."""
    nested: list[tuple[str, Plain]] = []
    others: list[_Unit] = []
    for unit in units:
        base, is_nested, path = unit.flag.partition(".")
        if not is_nested or grammar.find(base) is None:
            others.append(unit)
            continue
        value: Plain = _json(unit.words[0]) if unit.words else True
        for key in reversed(path.split(".")):
            value = {key: value}
        nested.append((grammar.spell(base), value))
    return nested, others


def _nest(flag: str, value: Plain, *, like: Setting) -> Setting:
    return replace(like, name=flag, value=_write_json(value), more=(_PART,))


def _make(unit: _Unit, grammar: Grammar, like: Setting) -> Setting:
    value, *more = unit.words or (None,)
    return replace(like, name=grammar.spell(unit.flag), value=value, more=tuple(filter(None, more)))


def _json(text: str | None) -> Plain:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return text


def _write_json(value: Plain) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _merge(ours: dict[str, Plain], theirs: dict[str, Plain]) -> dict[str, Plain]:
    merged = dict(ours)
    for key, value in theirs.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _merge(known, value)
        else:
            merged[key] = value
    return merged
