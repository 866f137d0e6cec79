"""Flags and variables that a note speaks of outside of its commands.

Called by :mod:`stoker.recipes.notes.read`. A sentence may advise against a flag, so nothing of this
is taken by itself: each is shown, and its owner names what he wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stoker.model.note import NotedSetting, Verdict
from stoker.recipes.notes.excerpt import Loose
from stoker.recipes.notes.flag_names import FlagBook, known_kinds, open_book
from stoker.recipes.notes.judge import Judging, judge_variables, judge_words
from stoker.recipes.notes.shell import Word
from stoker.recipes.notes.text import has_mark

EVERYTHING = "all"
_FIELD = re.compile(r"([a-z][a-z0-9_-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]{2,})=(.*)", re.DOTALL)
_NO_PROSE = re.compile(r"[\d._/]|^(auto|none|true|false|on|off)$")
_SEVERAL_KNOW = "it is a flag of"
_NO_VALUE = "the sentence does not say clearly what its value is"


def judge_loose(
    loose: Iterable[Loose], judging: Judging, takes: frozenset[str]
) -> tuple[NotedSetting, ...]:
    """A verdict for each; ``takes`` are the names (without dashes) that are wanted, or all."""
    judged: dict[tuple[str, tuple[str, ...]], NotedSetting] = {}
    for each in loose:
        for noted in _judge(each, replace(judging, line=each.line)):
            if noted.kind == "env" and noted.verdict is Verdict.FOREIGN:
                continue  # a variable of the text's own
            judged.setdefault((noted.name, noted.values), _settle(noted, takes))
    return tuple(judged.values())


def guess_kind(loose: Sequence[Loose]) -> str | None:
    """The engine that knows most of these flags; None for a draw, or where none knows any."""
    counts = {kind: _count_known(loose, open_book(kind)) for kind in known_kinds()}
    most = max(counts.values(), default=0)
    best = [kind for kind, count in counts.items() if count == most]
    return best[0] if most and len(best) == 1 else None


def _count_known(loose: Iterable[Loose], book: FlagBook) -> int:
    names = {name for each in loose for name in _flag_names(each)}
    return sum(book.resolve(name).flag is not None for name in names)


def _flag_names(loose: Loose) -> Iterator[str]:
    for word in loose.command.argv:
        if word.startswith("-") and not has_mark(word):
            yield word.partition("=")[0]
        elif field := _FIELD.fullmatch(word):
            yield f"--{field[1]}"


def _judge(loose: Loose, judging: Judging) -> Iterator[NotedSetting]:
    yield from judge_variables(loose.command.env, judging)
    argv = loose.command.argv
    if argv and argv[0].startswith("-"):
        yield from _judge_flags(loose, judging)
        return
    for word in argv:
        if variable := _VARIABLE.fullmatch(word):
            yield from judge_variables({variable[1]: Word(text=variable[2])}, judging)
        elif field := _FIELD.fullmatch(word):
            named = judging.book.resolve(f"--{field[1]}")
            if named.flag is not None:
                yield from judge_words([f"--{field[1]}={field[2]}"], judging)


def _judge_flags(loose: Loose, judging: Judging) -> Iterator[NotedSetting]:
    for noted in judge_words(loose.command.argv, judging):
        if noted.kind != "flag" or _is_talk(noted, loose):
            continue  # a word of the sentence around it
        if loose.is_code or _may_be_values(noted, judging.book):
            yield noted
        else:
            yield replace(noted, values=(), verdict=Verdict.UNKNOWN, reason=_NO_VALUE)


def _is_talk(noted: NotedSetting, loose: Loose) -> bool:
    """Whether it is no flag of an engine: another program's, or a hyphen of the sentence."""
    if noted.verdict is not Verdict.FOREIGN or noted.reason.startswith(_SEVERAL_KNOW):
        return False
    return not loose.is_code and not noted.written.startswith("--")


def _may_be_values(noted: NotedSetting, book: FlagBook) -> bool:
    """Whether what follows a flag in prose is its value, and not the next word of the sentence."""
    option = book.resolve(noted.name).option
    if option is None or option.argument is None:
        return True
    return bool(noted.values) and all(
        value in option.choices or _NO_PROSE.search(value) for value in noted.values
    )


def _settle(noted: NotedSetting, takes: frozenset[str]) -> NotedSetting:
    """Nothing loose is taken unasked."""
    if noted.verdict is not Verdict.TAKEN or noted.what in takes or EVERYTHING in takes:
        return noted
    return replace(noted, verdict=Verdict.LEFT, reason="it stands in no command")
