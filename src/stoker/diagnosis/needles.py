"""The texts that make a line of a large log worth keeping.

Called by :mod:`stoker.diagnosis.lines`. They come from knowledge: what signatures look for, what
tells how far a start has come; and words that any error has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from ahocorasick_rs import BytesAhoCorasick

from stoker.knowledge.engines import engine_kinds, load_engine_table
from stoker.knowledge.signatures import load_signatures

_ERROR_WORDS = (
    *("Traceback (most recent call last)", "Error: ", "Exception: ", "error: ", "Error:"),
    *("FATAL", "Fatal", "panic", "Segmentation fault", "core dumped"),
    *("direct cause of the following", "During handling of the above"),
)
_LEAST_LITERAL = 6
#: One part of a pattern, a class, an escape or a letter, and how often it may stand there.
_PART = re.compile(
    r"(?P<part>\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|.)(?P<often>(?:[*+?]|\{\d*,?\d*\})\??)?", re.DOTALL
)
_KINDS_OF_LETTERS = frozenset("AbBdDsSwWZz")
_SIGNS = frozenset(".^$")
_MAY_BE_MISSING = frozenset("*?{")
#: Stands for anything that is no certain text.
_GAP = "\0"


@cache
def load_needles() -> BytesAhoCorasick:
    """An automaton of all of them, over bytes. Raises DataError."""
    return BytesAhoCorasick(sorted(set(_list_needles())))


def _list_needles() -> Iterator[bytes]:
    for signature in load_signatures():
        yield from map(str.encode, _with_escapes(signature.needles))
    for kind in engine_kinds():
        for row in load_engine_table(kind).log.phases:
            yield from map(str.encode, list_literals(row.pattern))
    yield from map(str.encode, _ERROR_WORDS)


def _with_escapes(needles: Iterable[str]) -> Iterator[str]:
    """Each text, also as it stands inside a JSON string."""
    for needle in needles:
        yield needle
        if '"' in needle or "\\" in needle:
            yield needle.replace("\\", "\\\\").replace('"', '\\"')


def list_literals(pattern: str) -> tuple[str, ...]:
    """For each way in which a pattern can match, the longest text that must stand there as it is.

    Empty where one of the ways has none that is long enough: then it cannot be looked for.
    """
    found: list[str] = []
    for way in _split_ways(pattern):
        texts = _PART.sub(_keep_letter, _cut_groups(way)).split(_GAP)
        longest = max(texts, key=len, default="")
        if len(longest) < _LEAST_LITERAL:
            return ()
        found.append(longest)
    return tuple(found)


def _keep_letter(found: re.Match[str]) -> str:
    part, often = found["part"], found["often"] or ""
    is_kind = part[0] == "\\" and part[1:] in _KINDS_OF_LETTERS
    if often[:1] in _MAY_BE_MISSING or part[0] == "[" or is_kind or part in _SIGNS:
        return _GAP
    return part[-1] + (_GAP if often else "")


def _split_ways(pattern: str) -> list[str]:
    """The alternatives at the top of a pattern."""
    ways, depth, begin, at = [], 0, 0, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif letter == "[":
            at = _end_of_class(pattern, at)
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and depth == 0:
            ways.append(pattern[begin:at])
            begin = at + 1
        at += 1
    return [*ways, pattern[begin:]]


def _cut_groups(way: str) -> str:
    """Without groups: what stands in them may be one of several texts, or may be missing."""
    kept, depth, at = [], 0, 0
    while at < len(way):
        begin, letter = at, way[at]
        if letter == "\\":
            at += 1
        elif letter == "[":
            at = _end_of_class(way, at)
        depth += letter == "("
        if depth == 0:
            kept.append(way[begin : at + 1])
        elif letter == ")":
            depth -= 1
            kept.append(_GAP if depth == 0 else "")
        at += 1
    return "".join(kept)


def _end_of_class(pattern: str, at: int) -> int:
    end = pattern.find("]", at + 2)
    return len(pattern) - 1 if end < 0 else end
