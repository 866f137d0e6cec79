"""Broken YAML in plain words: what the YAML library says, for a person who never read its code.

Called by :mod:`stoker.spec.tree` alone. It must never repeat more of the file than a key, since
a value may be a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ruamel.yaml.error import MarkedYAMLError

from stoker.errors import Problem

#: `port:80`: the colon of a key, and a value right behind it.
_NO_BLANK = re.compile(r"^\s*(?:- )?(?P<key>[A-Za-z_][\w-]*):(?P<value>[^\s:/].*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """What to say when the library's complaint contains ``says``.

    ``at_context``: the place to show is where the thing began, not where the library gave up;
    with ``tells_end`` the hint names that other place.
    """

    says: str
    message: str
    hint: str = ""
    at_context: bool = False
    tells_end: bool = False


_QUOTE_HINT = "inside quotes write a double quote as \\\" and a single quote twice: ''"

_SENTENCES = (
    _Sentence(
        says="found character '\\t'",
        message="a tab stands where only blanks may stand",
        hint="replace the tabs of this line by blanks",
    ),
    _Sentence(
        says="that cannot start any token",
        message="a value cannot begin with this character",
        hint="put the value in quotes",
    ),
    _Sentence(
        says="mapping values are not allowed here",
        message="a colon stands where no key can be",
        hint="the line is indented too deep, the line above lacks something, or a value that "
        "contains a colon and a blank needs quotes",
    ),
    _Sentence(
        says="sequence entries are not allowed here",
        message="a list item stands where no list can begin",
        hint="begin the list on a line of its own, or write it as [a, b]",
    ),
    _Sentence(
        says="could not find expected ':'",
        message="this line is neither `key: value` nor a list item",
        hint="a key needs a colon and a blank behind it",
        at_context=True,
    ),
    _Sentence(
        says="expected <block end>, but found '<block mapping start>'",
        message="this line is indented differently from its neighbours",
        hint="the keys of one group begin in the same column",
    ),
    _Sentence(
        says="expected <block end>, but found '<block sequence start>'",
        message="this line is indented differently from its neighbours",
        hint="the items of one list begin in the same column",
    ),
    _Sentence(
        says="expected <block end>, but found '-'",
        message="a list item stands among keys",
        hint="indent the list deeper than the key it belongs to",
    ),
    _Sentence(
        says="expected <block end>, but found '?'",
        message="a key stands among list items",
        hint="begin it with a dash, or indent it differently",
    ),
    _Sentence(
        says="expected <block end>",
        message="something follows a value that has already ended",
        hint=f"does a quote or a bracket close too early? {_QUOTE_HINT}",
    ),
    _Sentence(
        says="found unexpected end of stream",
        message="the quote that opens here is never closed",
        at_context=True,
    ),
    _Sentence(
        says="found unexpected document separator",
        message="the quote that opens here is not closed before the line `---`",
        at_context=True,
    ),
    _Sentence(
        says="expected ',' or ']'",
        message="the list that opens here with [ lacks a comma or its closing ]",
        at_context=True,
        tells_end=True,
    ),
    _Sentence(
        says="expected ',' or '}'",
        message="the mapping that opens here with { lacks a comma or its closing }",
        at_context=True,
        tells_end=True,
    ),
    _Sentence(
        says="found unknown escape character",
        message="a backslash inside double quotes begins an escape that YAML does not know",
        hint="write the backslash twice, or use single quotes",
    ),
    _Sentence(
        says="hexdecimal numbers",
        message="the escape inside double quotes lacks hexadecimal digits",
        hint="write a backslash twice, or use single quotes",
    ),
    _Sentence(
        says="document end marker",
        message="something follows the end of the document",
        hint="remove the line `...`",
    ),
    _Sentence(
        says="expected '<document start>'",
        message="something follows the end of the document",
        hint="everything belongs into one mapping of keys and values",
    ),
    _Sentence(
        says="incompatible YAML document",
        message="deployment files are YAML 1.2",
        hint="remove the line `%YAML`",
    ),
    _Sentence(
        says="tag handle", message="tags are not allowed", hint="text with a ! first needs quotes"
    ),
)

#: By what the library was doing, where its complaint itself says too little.
_CONTEXTS = (
    _Sentence(says="scanning an anchor", message="`&` marks a value, and its name is missing"),
    _Sentence(says="scanning an alias", message="`*` repeats a value, and its name is missing"),
    _Sentence(says="tag", message="tags are not allowed", hint="text with a ! first needs quotes"),
    _Sentence(says="directive", message="a line that begins with % is not allowed here"),
    _Sentence(
        says="block scalar",
        message="after | or > only a line end, a comment or one of + - 1 to 9 may stand",
    ),
)


def explain_syntax(error: MarkedYAMLError, text: str) -> Problem:
    """The one problem of a text that is not YAML."""
    sentence = _find_sentence(str(error.problem), str(error.context))
    mark = error.context_mark if sentence.at_context else error.problem_mark
    mark = mark or error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    hint = _hint_for_missing_blank(text, line) or sentence.hint
    if sentence.tells_end and error.problem_mark:
        end = error.problem_mark
        hint = f"at the latest before line {end.line + 1}, column {end.column + 1}"
    return Problem(message=sentence.message, line=line, column=column, hint=hint)


def _find_sentence(problem: str, context: str) -> _Sentence:
    said = [sentence for sentence in _SENTENCES if sentence.says in problem]
    doing = [sentence for sentence in _CONTEXTS if sentence.says in context]
    unknown = _Sentence(
        says="",
        message="this is not YAML",
        hint="something that was opened above ([, {, a quote) may not be closed",
    )
    return next(iter(said + doing), unknown)


def _hint_for_missing_blank(text: str, line: int) -> str:
    """`port:80` is text to YAML, and it complains only about the line below."""
    lines = text.splitlines()
    for number in (line - 1, line):
        written = lines[number - 1] if 0 < number <= len(lines) else ""
        if match := _NO_BLANK.match(written):
            return f"line {number}: a blank is missing after `{match['key']}:`"
    return ""


def explain_character(text: str, position: int) -> Problem:
    """The problem of a character that no YAML text may contain."""
    before = text[:position]
    line = before.count("\n") + 1
    column = position - (before.rfind("\n") + 1) + 1
    return Problem(
        message=f"the file contains the character U+{ord(text[position]):04X}, which no text has",
        line=line,
        column=column,
        hint="is this a text file, saved as UTF-8?",
    )
