"""A tree of YAML nodes as plain values, by the core schema of YAML 1.2, with their places.

Called by the parser and the editor. What a person may have meant in two ways (``010``, a tag, a
key twice) is a problem here, not a guess. It never resolves more than the core schema names:
``yes`` and ``12:30`` are text.

Source of the patterns: https://yaml.org/spec/1.2.2/#1032-tag-resolution
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from stoker.errors import Problem
from stoker.model.facts import Plain
from stoker.spec.phrases import describe, may_be_secret
from stoker.spec.tree import BYTE_ORDER_MARK, MAX_DEPTH, MAX_NODES, Kind, Mark, Node, read_tree

Path = tuple[str | int, ...]

_CONSTANTS: Mapping[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{
        sign + word: float(f"{sign}inf")
        for sign in ("", "+", "-")
        for word in (".inf", ".Inf", ".INF")
    },
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: Numbers to one YAML reader, other numbers or text to the next.
_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|0b[01_]+)")
#: The longest decimal that fits in 64 bits has 20 characters; no shorter one is slow to read.
_MAX_NUMBER_CHARACTERS = 40
#: Keys are shown in messages; no flag and no variable has so long a name.
_MAX_KEY_CHARACTERS = 200
#: Control, format and surrogate characters and the Unicode line ends: nobody sees them.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry stands: its key (its own place, for a list item) and its value.

    ``written`` is the scalar as the person wrote it, without quotes.
    """

    key: Mark
    value: Mark
    written: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the text says. Entries with a problem are missing from ``value``."""

    tree: Node
    value: Plain
    places: Mapping[Path, Place]
    problems: tuple[Problem, ...]
    broken: frozenset[Path]


@dataclass(slots=True)
class _Notes:
    """What is collected on the way through the tree."""

    places: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)
    count: int = 0

    def refuse(self, mark: Mark, path: Path, message: str, *, hint: str = "") -> None:
        self.broken.add(path)
        self.problems.append(
            Problem(
                message=message,
                path=dotted(path),
                line=mark.line,
                column=mark.column,
                hint=hint,
            )
        )


class _Refused(Exception):
    """The value at hand has a problem, which is noted already."""


class _TooMuch(Exception):
    """The aliases stand for so much that reading ends here; it is noted already."""


def dotted(path: Path) -> str:
    """The path as a person writes it: ``goals.0.metric``."""
    return ".".join(str(part) for part in path)


def read_plain(text: str, origin: str) -> Reading:
    """What the text says, with the problems of its parts.

    Raises SpecError with one problem when the text as a whole is not YAML.
    """
    tree = read_tree(text.removeprefix(BYTE_ORDER_MARK), origin)
    notes = _Notes()
    try:
        value = _value(tree, tree.start, (), notes)
    except (_Refused, _TooMuch):
        value = None
    return Reading(
        tree=tree,
        value=value,
        places=notes.places,
        problems=tuple(notes.problems),
        broken=frozenset(notes.broken),
    )


def resolve(text: str) -> Plain:
    """The value of an unquoted scalar. Numbers out of bounds raise ValueError."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    is_integer = _INTEGER.fullmatch(text) is not None
    if not is_integer and not _FLOAT.fullmatch(text):
        return text
    if len(text) > _MAX_NUMBER_CHARACTERS:
        raise ValueError("the number is too large")
    if not is_integer:
        return float(text)
    number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError("the number is too large")
    return number


def is_ambiguous(text: str) -> bool:
    """Whether an unquoted scalar is a number to some readers and something else to others."""
    return _AMBIGUOUS.fullmatch(text) is not None


def _value(node: Node, mark: Mark, path: Path, notes: _Notes) -> Plain:
    """The plain value of a node that is used at ``mark``. Raises _Refused or _TooMuch."""
    notes.count += 1
    if notes.count > MAX_NODES or len(path) > MAX_DEPTH:
        notes.refuse(mark, path, "the aliases (`*`) of this value stand for far too much")
        notes.broken.add(())  # what was read until here says nothing
        raise _TooMuch
    if node.target is not None:
        return _value(node.target, mark, path, notes)
    if node.tag:
        hint = "write the value alone; text that begins with ! needs quotes"
        notes.refuse(mark, path, "tags (`!`) are not allowed, since values are plain", hint=hint)
        raise _Refused
    if node.kind is Kind.MAPPING:
        return _mapping(node, mark, path, notes)
    if node.kind is Kind.SEQUENCE:
        return _sequence(node, mark, path, notes)
    return _scalar(node, mark, path, notes)


def _sequence(node: Node, mark: Mark, path: Path, notes: _Notes) -> list[Plain]:
    values = []
    for index, child in enumerate(node.children):
        place = child.start if mark is node.start else mark
        here = (*path, index)
        notes.places[here] = Place(key=place, value=place, written=_written(child))
        # A list that lacks an item would be another list, so the whole of it is left out.
        with contextlib.suppress(_Refused):
            values.append(_value(child, place, here, notes))
    if len(values) < len(node.children):
        raise _Refused
    return values


def _mapping(node: Node, mark: Mark, path: Path, notes: _Notes) -> dict[str, Plain]:
    values: dict[str, Plain] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.entries:
        # What an alias stands for is wrong where the alias is.
        place = key_node.start if mark is node.start else mark
        try:
            key = _key(key_node, place, path, notes)
            here = (*path, key)
            if key in lines:
                first = f"the first `{key}` is in line {lines[key]}"
                notes.refuse(place, here, f"the key `{key}` stands here a second time", hint=first)
                continue
            lines[key] = place.line
            value_mark = value_node.start if mark is node.start else mark
            notes.places[here] = Place(key=place, value=value_mark, written=_written(value_node))
            values[key] = _value(value_node, value_mark, here, notes)
        except _Refused:
            continue
    return values


def _key(node: Node, mark: Mark, path: Path, notes: _Notes) -> str:
    if node.kind is not Kind.SCALAR:
        hint = "text that begins with { or [ needs quotes"
        notes.refuse(mark, (*path, "?"), "a key is one piece of text", hint=hint)
        raise _Refused
    if node.is_plain and node.text == "<<":
        hint = "write the keys out, or repeat a whole value with `*`"
        notes.refuse(mark, (*path, "<<"), "merging (`<<`) is not part of YAML 1.2", hint=hint)
        raise _Refused
    if len(node.text) > _MAX_KEY_CHARACTERS:
        notes.refuse(mark, path, f"a key here has {len(node.text)} characters")
        raise _Refused
    key = _scalar(node, mark, (*path, node.text), notes)
    if not isinstance(key, str):
        hint = f'put it in quotes: "{node.text}"' if node.text else "write a key before the colon"
        message = f"a key is text, not {describe(key)}"
        notes.refuse(mark, (*path, node.text), message, hint=hint)
        raise _Refused
    if any(unicodedata.category(character) == "Zs" and character != " " for character in key):
        message = "this key contains an unusual blank"
        notes.refuse(mark, (*path, key), message, hint="replace it by an ordinary one")
        raise _Refused
    return key


def _scalar(node: Node, mark: Mark, path: Path, notes: _Notes) -> Plain:
    if node.tag:
        notes.refuse(mark, path, "tags (`!`) are not allowed, since values are plain")
        raise _Refused
    for character in node.text:
        if unicodedata.category(character) in _INVISIBLE and character not in "\n\t":
            message = f"the text contains the invisible character U+{ord(character):04X}"
            notes.refuse(mark, path, message, hint="delete it and type the text around it again")
            raise _Refused
    if not node.is_plain:
        return node.text
    if is_ambiguous(node.text):
        _refuse_ambiguous(node.text, mark, path, notes)
    try:
        return resolve(node.text)
    except ValueError as error:
        notes.refuse(mark, path, str(error), hint="put it in quotes if it is text")
        raise _Refused from None


def _refuse_ambiguous(text: str, mark: Mark, path: Path, notes: _Notes) -> NoReturn:
    shown, hint = "this", "put it in quotes if it is text"
    if not may_be_secret(path):
        shown = f"`{text}`"
        hint = f'write {_without_ornament(text)} for the number, "{text}" for the text'
    message = f"{shown} is one number to some readers and another, or text, to others"
    notes.refuse(mark, path, message, hint=hint)
    raise _Refused


def _without_ornament(number: str) -> str:
    bare = number.replace("_", "").lower()
    if "0b" in bare:
        return str(int(bare, 2)) if len(bare) < _MAX_NUMBER_CHARACTERS else "it out"
    sign = bare[0] if bare[0] in "+-" else ""
    return sign + (bare.lstrip("+-").lstrip("0") or "0")


def _written(node: Node) -> str:
    return node.text if node.kind is Kind.SCALAR else ""
