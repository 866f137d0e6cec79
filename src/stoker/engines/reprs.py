"""Arguments as Python prints them, ``Name(a=1, b='x')`` or ``{'a': 1}``, read safely.

Called by :mod:`stoker.engines.resolved` for lines of an engine's log, which anybody may have
written. Nothing is evaluated: text is cut at commas and equals signs outside of brackets and
quotes, and a piece counts as a number or a word only where it is a literal. Length and depth are
bounded; what goes beyond them, or is cut off, is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from stoker.model.facts import Plain

#: The longest line of arguments that is read.
LIMIT_CHARACTERS = 256 << 10
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "'\""
_MOST_DEPTH = 24
_MOST_ARGUMENTS = 4096
#: A literal is short; the rest stays text.
_LITERAL_CHARACTERS = 4096
#: A member of an enumeration, ``<Mode.FULL: 2>``, and a type of torch.
_NAMED = re.compile(r"<\w+\.(?P<member>\w+): .*>|torch\.(?P<type>\w+)", re.DOTALL)


def parse_arguments(text: str) -> Mapping[str, Plain]:
    """The arguments by name, nested ones with dots between (``kv_transfer_config.role``).

    Numbers, words, yes, no and None become what they are; anything else stays the text that it
    is. Empty for a text that does not look like arguments.
    """
    found: dict[str, Plain] = {}
    for name, value in _flatten(text[:LIMIT_CHARACTERS].strip(), "", 0):
        if len(found) >= _MOST_ARGUMENTS:
            break
        found.setdefault(name, value)
    return found


def _flatten(text: str, prefix: str, depth: int) -> Iterator[tuple[str, Plain]]:
    for piece in _split(_strip_call(text), ","):
        name, value = _split_name(piece)
        if not name:
            continue
        yield f"{prefix}{name}", _literal(value)
        if depth < _MOST_DEPTH and _is_nested(value):
            yield from _flatten(value, f"{prefix}{name}.", depth + 1)


def _strip_call(text: str) -> str:
    """The inside of ``Name(...)`` or ``{...}``; other text as it is (bare ``a=1, b=2``)."""
    head, bracket, _ = text.partition("(")
    if bracket and head.strip().replace(".", "_").isidentifier():
        return text[len(head) + 1 :].rstrip().removesuffix(")")
    if text.startswith("{"):
        return text[1:].rstrip().removesuffix("}")
    return text


def _is_nested(value: str) -> bool:
    head, bracket, _ = value.partition("(")
    is_call = bool(bracket) and value.endswith(")") and head.replace(".", "_").isidentifier()
    return is_call or (value.startswith("{") and value.endswith("}"))


def _split(text: str, separator: str) -> Iterator[str]:
    """The pieces between separators outside of brackets and quotes; a piece cut off is dropped."""
    begin, depth, quote, is_escaped = 0, 0, "", False
    for place, character in enumerate(text):
        if quote:
            is_end = character == quote and not is_escaped
            is_escaped = character == "\\" and not is_escaped
            quote = "" if is_end else quote
        elif character in _QUOTES:
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == separator and depth <= 0:
            yield text[begin:place].strip()
            begin = place + 1
    if not quote and depth <= 0:
        yield text[begin:].strip()


def _split_name(piece: str) -> tuple[str, str]:
    """``a=1`` and ``'a': 1`` as name and value; no name for anything else."""
    if piece.startswith(tuple(_QUOTES)):
        name, colon, value = piece[1:].partition(f"{piece[0]}:")
        return (name, value.strip()) if colon else ("", "")
    name, equals, value = piece.partition("=")
    return (name.strip(), value.strip()) if equals and name.strip().isidentifier() else ("", "")


def _literal(value: str) -> Plain:
    """A number, a word, yes, no, None or a list of such; other text as it is."""
    if named := _NAMED.fullmatch(value[:_LITERAL_CHARACTERS]):
        return named["member"] or named["type"]
    if len(value) > _LITERAL_CHARACTERS or value.count("[") + value.count("(") > _MOST_DEPTH:
        return value
    try:
        found = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    if isinstance(found, (tuple, list)):
        return list(found) if all(_is_plain(item) for item in found) else value
    return found if found is None or _is_plain(found) else value


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))
