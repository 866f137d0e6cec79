"""The words of a server's command as uses of flags, each with the words that belong to it.

Called by :mod:`stoker.recipes.notes.judge`. The engine's own catalogues say how many words a flag
takes: those of the release at hand, and of the last one that had the flag.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.servers import Grammar, find_grammar
from stoker.recipes.notes.flag_names import FlagBook, Named
from stoker.recipes.notes.text import has_mark, mark

_FLAG = re.compile(r"--?[A-Za-z]")
_JOINED = re.compile(r"(-[A-Za-z])(\S+)")
_MANY = ("*", "+")
#: No engine has so many flags.
MAX_UNITS = 1000
_TOO_MANY = f"the command has more than {MAX_UNITS} flags and words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One use of a flag; of a word that belongs to none, ``named`` is None and it is the value.

    ``text`` are the words as they were, with a blank between.
    """

    named: Named | None
    values: tuple[str, ...] = ()
    text: str = ""


def split_units(words: Sequence[str], book: FlagBook) -> Iterator[Unit]:
    """All uses in their order. A word that stands for a flag (a model) becomes its value.

    Behind :data:`MAX_UNITS` of them one unknown word stands for the rest.
    """
    grammar = find_grammar(book.kind)
    positional = grammar.positional
    place = count_units = 0
    while place < len(words):
        word = words[place]
        if count_units == MAX_UNITS:
            rest = mark("...", _TOO_MANY)
            yield Unit(named=None, values=(rest,), text=rest)
            return
        count_units += 1
        if _looks_like_flag(word):
            unit, count = _read_unit(words, place, book, grammar)
        elif positional:
            unit, count = Unit(named=book.resolve(positional), values=(word,), text=word), 1
            positional = ""
        else:
            unit, count = Unit(named=None, values=(word,), text=word), 1
        yield unit
        place += count


def _looks_like_flag(word: str) -> bool:
    name = word.partition("=")[0]
    return _FLAG.match(word) is not None and not has_mark(name)


def _read_unit(
    words: Sequence[str], place: int, book: FlagBook, grammar: Grammar
) -> tuple[Unit, int]:
    word = words[place]
    for row in load_note_forms().shorthand:
        short = re.fullmatch(row.pattern, word) if row.kind == book.kind else None
        if short and (meant := book.resolve(row.flag)).option is not None:
            return Unit(named=meant, values=(short[1],), text=word), 1
    name, is_pair, value = word.partition("=")
    named = book.resolve(name)
    joined = _JOINED.fullmatch(name) if named.flag is None and not name.startswith("--") else None
    if joined and not is_pair and (head := book.resolve(joined[1])).option is not None:
        return Unit(named=head, values=(joined[2],), text=word), 1
    if is_pair:
        return Unit(named=named, values=(value,), text=word), 1
    left = len(words) - place - 1
    room = min(_room_of(named, book, grammar), left)
    if not _takes_anything(named, book, grammar):
        room = next(
            (n for n in range(room) if _looks_like_flag(words[place + 1 + n])),
            room,
        )
    values = tuple(words[place + 1 : place + 1 + room])
    return Unit(named=named, values=values, text=" ".join((name, *values))), 1 + room


def _room_of(named: Named, book: FlagBook, grammar: Grammar) -> int:
    """How many words a flag may take."""
    option = named.option or book.option_of_old(named.written)
    if option is not None and option.argument is None and "." not in named.written:
        return 0
    if grammar.words == "one" and option is not None:
        return 2 if set(option.names) & set(grammar.two) else 1
    nargs = option.nargs if option is not None else ""
    return sys.maxsize if nargs in _MANY else int(nargs) if nargs.isdecimal() else 1


def _takes_anything(named: Named, book: FlagBook, grammar: Grammar) -> bool:
    """Whether the parser takes the next word even where that looks like a flag."""
    option = named.option or book.option_of_old(named.written)
    return grammar.words == "one" and option is not None
