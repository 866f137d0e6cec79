"""The flags of a recorded start-up, as people and logs write them, by the engine's own names.

Called by :mod:`stoker.evaluate.capacity_cases`. Reads ``--x y``, ``--x=y``, ``x=y`` (as an engine
prints its arguments), short forms, underscores, JSON and sizes such as ``32k``; the catalogues of
the engine's releases say which spellings are one flag. Free text between flags says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from stoker.knowledge.datafiles import list_data
from stoker.knowledge.engines import engine_kinds, load_catalogue
from stoker.knowledge.lifetimes import order_releases
from stoker.model.facts import Plain
from stoker.recipes.args import Grammar, make_grammar

#: Longer than any flag that a person writes.
_MOST_CHARACTERS = 20_000
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_BARE = re.compile(r"[A-Za-z][\w-]*(?==)")
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,9})?(?:e-?\d{1,2})?)([kmgKMG]?)")
#: Small letters count in thousands and capitals in 1024, as the engines read them.
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WORDS: Mapping[str, Plain] = {"true": True, "false": False, "none": None, "null": None}
_NO = "no-"
#: An engine's parser takes a beginning of a name, and people write ``--tp`` for ``--tp-size``.
_SIZE = "-size"


def read_flags(engine: str, entries: object) -> Mapping[str, Plain]:
    """The flags without dashes, each by all of its names; empty where nothing can be read."""
    if isinstance(entries, (str, Mapping)):
        entries = [entries]
    if not isinstance(entries, Sequence) or engine not in engine_kinds():
        return {}
    grammar = _load_grammar(engine)
    found: dict[str, Plain] = {}
    for entry in entries:
        for name, value in _split(entry, grammar):
            found |= _spell(name, value, grammar)
    return found


@cache
def _load_grammar(engine: str) -> Grammar:
    """What the newest and the oldest release know: flags that were renamed have both names."""
    builds = order_releases(list_data(f"flags/{engine}", ".json"))
    chosen = dict.fromkeys((builds[-1], builds[0])) if builds else {}
    return make_grammar([load_catalogue(engine, build) for build in chosen])


def _split(entry: object, grammar: Grammar) -> Iterator[tuple[str, Plain]]:
    """Names and values of one entry, which may hold several flags."""
    if isinstance(entry, Mapping):
        yield from ((str(name), value) for name, value in entry.items())
        return
    text = entry if isinstance(entry, str) else ""
    if len(text) > _MOST_CHARACTERS:
        return
    if "{" in text:
        yield from _split_table(text, grammar)
        return
    words = text.split()
    for place, word in enumerate(words):
        name, is_pair, value = word.partition("=")
        if _FLAG.fullmatch(name):
            follows = words[place + 1] if place + 1 < len(words) else ""
            is_switch = not follows or _FLAG.fullmatch(follows.partition("=")[0]) is not None
            yield name, _read(value) if is_pair else True if is_switch else _read(follows)
        elif is_pair and _BARE.match(word) and grammar.find(name) is not None:
            yield name, _read(value)


def _split_table(text: str, grammar: Grammar) -> Iterator[tuple[str, Plain]]:
    """One flag whose value is a table; what stands before it is read as other flags."""
    before, _, rest = text.partition("{")
    words = before.strip().rstrip("'\"= ").split()
    if words and (_FLAG.fullmatch(words[-1]) or grammar.find(words[-1]) is not None):
        yield from _split(" ".join(words[:-1]), grammar)
        end = rest.rfind("}")
        try:
            table: Plain = json.loads("{" + rest[: end + 1])
        except (ValueError, RecursionError):
            return
        yield words[-1], table
        yield from _split(rest[end + 1 :].replace("{", " "), grammar)


def _read(text: str) -> Plain:
    """A value as a number, a truth or a word."""
    plain = text.strip("'\",")
    if plain.lower() in _WORDS:
        return _WORDS[plain.lower()]
    found = _NUMBER.fullmatch(plain)
    if found is None:
        return plain
    number = float(found[1]) * _UNITS[found[2]]
    is_whole = number.is_integer() and "." not in found[1]
    return int(number) if is_whole else number


def _spell(name: str, value: Plain, grammar: Grammar) -> Mapping[str, Plain]:
    """The flag by all of its names; of a switch with an opposite, both."""
    bare = name.lstrip("-").replace("_", "-")
    option = grammar.find(name) or grammar.find(f"{bare}{_SIZE}")
    if option is None or option.argument is not None:
        known = option.names if option is not None else ()
        return dict.fromkeys([bare, *(each.lstrip("-") for each in known)], value)
    # A word after a switch belongs to somebody's free text.
    is_on = (value is not False) != bare.startswith(_NO)
    names = [bare, *(each.lstrip("-") for each in option.names)]
    return {each: is_on != each.startswith(_NO) for each in names}
