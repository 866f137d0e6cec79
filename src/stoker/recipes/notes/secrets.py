"""Secrets in notes: told by their names and their looks, never kept and never shown.

Called by everything in :mod:`stoker.recipes.notes` that puts text of a note into a value. In doubt
something is a secret: a note loses little by it.
"""

from __future__ import annotations

import re
from itertools import pairwise

from stoker.knowledge.variables import load_variables
from stoker.model.addresses import has_login, hide_login
from stoker.recipes.notes.text import show

HIDDEN = "***"
_QUOTE = r"\\?[\"']"
_JSON_PAIR = re.compile(rf"({_QUOTE}([\w.-]{{1,80}}){_QUOTE}\s*:\s*{_QUOTE})([^\"'\\]+)")
_EQUAL_PAIR = re.compile(r"([A-Za-z_][\w.-]{0,80})=((?:\\?[\"'])?)([^\s'\"&]+)")
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"-{0,2}([A-Za-z_][\w.-]{0,80})")
_AROUND = "\"'`*,;(){}[]"
#: A word of this many characters with a digit in it is no word of a sentence.
_RANDOM_CHARACTERS = 8
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a flag (without dashes) or variable must not be kept.

    Its name tells, or its looks, or a name within it (``{"api_key": ...}``, ``?sig=...``), or a
    login in an address.
    """
    inner = [(each, text) for _, each, text in _JSON_PAIR.findall(value)]
    inner += [(each, text) for each, _, text in _EQUAL_PAIR.findall(value)]
    return (
        _names_secret(name, value or HIDDEN)
        or has_login(value)
        or any(_names_secret(each, text) for each, text in inner)
    )


def hide_secrets(text: str) -> str:
    """The text for a person: marks as they were written, and no secret in it."""
    shown = hide_login(show(text), f"{HIDDEN}@")
    shown = _EQUAL_PAIR.sub(_hide_equal_pair, shown)
    shown = _JSON_PAIR.sub(_hide_json_pair, shown)
    shown = _hide_neighbours(shown)
    for row in load_variables().secrets.pattern:
        shown = re.sub(row.pattern, HIDDEN, shown)
    return shown


def _names_secret(name: str, value: str) -> bool:
    """Whether a name says that the value is a secret, also in camel case, or the value looks so."""
    known = load_variables()
    return known.is_secret(_CAMEL.sub("_", name), value) or known.ends_like_secret(name)


def _hide_equal_pair(found: re.Match[str]) -> str:
    name, quote, value = found.groups()
    return f"{name}={quote}{HIDDEN}" if _names_secret(name, value) else found[0]


def _hide_json_pair(found: re.Match[str]) -> str:
    head, name, value = found.groups()
    return f"{head}{HIDDEN}" if _names_secret(name, value) else found[0]


def _hide_neighbours(text: str) -> str:
    """A word behind another one that names it: ``--api-key abc``, ``token: abc``."""
    parts: list[str] = []
    end = 0
    for before, word in pairwise(_WORD.finditer(text)):
        if _is_named(before[0], word[0]):
            parts += (text[end : word.start()], HIDDEN)
            end = word.end()
    return "".join((*parts, text[end:]))


def _is_named(before: str, word: str) -> bool:
    bare = before.strip(_AROUND)
    found = _NAME.fullmatch(bare.rstrip(":"))
    value = word.strip(_AROUND)
    if found is None or word.startswith("-") or HIDDEN in word:
        return False
    is_sure = bare.startswith("-") or bare.endswith(":")
    is_random = len(value) >= _RANDOM_CHARACTERS and any(map(str.isdigit, value))
    return (is_sure or is_random) and _names_secret(found[1], HIDDEN)
