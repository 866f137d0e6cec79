"""The words of a server's command as uses of flags, each with the words that belong to it.

Called by :mod:`stoker.recipes.notes.judge`. The engine's own catalogues say how many words a flag
takes: those of the release at hand, and of the last one that had the flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.knowledge.notes import load_note_forms
from stoker.knowledge.servers import Grammar, find_grammar
from stoker.recipes.notes.flag_names import FlagBook, Named
from stoker.recipes.notes.text import has_mark

_FLAG = re.compile(r"--?[A-Za-z]")
_JOINED = re.compile(r"(-[A-Za-z])(\S+)")
_MANY = ("*", "+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One use of a flag; of a word that belongs to none, ``named`` is None and it is the value.

    ``text`` are the words as they were, with a blank between.
    """

    named: Named | None
    values: tuple[str, ...] = ()
    text: str = ""


def split_units(words: Sequence[str], book: FlagBook) -> Iterator[Unit]:
    """All uses in their order. A word that stands for a flag (a model) becomes its value."""
    grammar = find_grammar(book.kind)
    positional = grammar.positional
    place = 0
    while place < len(words):
        word = words[place]
        if _looks_like_flag(word):
            unit, count = _read_unit(words[place:], book, grammar)
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


def _read_unit(words: Sequence[str], book: FlagBook, grammar: Grammar) -> tuple[Unit, int]:
    for row in load_note_forms().shorthand:
        short = re.fullmatch(row.pattern, words[0]) if row.kind == book.kind else None
        if short and (meant := book.resolve(row.flag)).option is not None:
            return Unit(named=meant, values=(short[1],), text=words[0]), 1
    name, is_pair, value = words[0].partition("=")
    named = book.resolve(name)
    joined = _JOINED.fullmatch(name) if named.flag is None and not name.startswith("--") else None
    if joined and not is_pair and (head := book.resolve(joined[1])).option is not None:
        return Unit(named=head, values=(joined[2],), text=words[0]), 1
    if is_pair:
        return Unit(named=named, values=(value,), text=words[0]), 1
    count = _count_values(words[1:], named, book, grammar)
    values = tuple(words[1 : 1 + count])
    return Unit(named=named, values=values, text=" ".join((name, *values))), 1 + count


def _count_values(words: Sequence[str], named: Named, book: FlagBook, grammar: Grammar) -> int:
    option = named.option or book.option_of_old(named.written)
    if option is not None and option.argument is None and "." not in named.written:
        return 0
    if grammar.words == "one" and option is not None:
        wanted = 2 if set(option.names) & set(grammar.two) else 1
        return min(wanted, len(words))
    nargs = option.nargs if option is not None else ""
    room = len(words) if nargs in _MANY else int(nargs) if nargs.isdecimal() else 1
    free = next((n for n, word in enumerate(words) if _looks_like_flag(word)), len(words))
    return min(room, free)
