"""The condition language of rules: closed, and three-valued.

A condition is ``all``, ``any`` or ``not`` of conditions, or a test of one path: ``eq ne lt le gt
ge in matches version exists``, with ``any-`` or ``all-`` before it where the path has a ``*``.
There is no arithmetic and no comparison of two facts; what needs more is a derived fact
(:mod:`stoker.knowledge.derive`). A value nobody could read makes a test unknown, never false, and
the answer names it. So learning one more fact may settle an unknown and never turns a yes into a
no. Called by :mod:`stoker.knowledge.rules`; it reads nothing but the tree that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stoker.errors import DataError
from stoker.knowledge.versions import parse_version, parse_version_range, version_is_in
from stoker.model.facts import Plain, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """True when every part is."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """True when one part is."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """True when the part is false."""

    part: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison of the value at ``path``; ``quantifier`` is any, all or empty."""

    path: str
    operator: str
    wanted: Plain
    quantifier: str = ""


Condition: TypeAlias = AllOf | AnyOf | Not | Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a condition says about a tree.

    ``truth`` None means unknown; ``missing`` then maps each path that would settle it to the
    reason why it is not known. ``evidence`` holds the values that were read, by path.
    """

    truth: bool | None
    missing: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, Plain] = field(default_factory=dict)


def parse_condition(data: Plain, *, where: str) -> Condition:
    """A condition from its TOML form. Raises DataError for anything outside the language."""
    if not isinstance(data, Mapping):
        raise DataError(f"{where}: a condition is a table, found {data!r}")
    if "path" in data:
        return _parse_test(data, where)
    if len(data) != 1:
        raise DataError(f"{where}: expected exactly one of all, any, not; or path and a test")
    ((word, inner),) = data.items()
    if word == "not":
        return Not(part=parse_condition(inner, where=f"{where}.not"))
    if word not in ("all", "any") or not isinstance(inner, list) or not inner:
        raise DataError(f"{where}: expected all or any with a list of conditions, found {word}")
    parts = tuple(
        parse_condition(item, where=f"{where}.{word}[{n}]") for n, item in enumerate(inner)
    )
    return AllOf(parts=parts) if word == "all" else AnyOf(parts=parts)


def evaluate_condition(condition: Condition, tree: Mapping[str, Plain]) -> Answer:
    """Whether the condition holds over JSON-shaped data with Unknown leaves."""
    match condition:
        case AllOf():
            return _combine(condition.parts, tree, decisive=False)
        case AnyOf():
            return _combine(condition.parts, tree, decisive=True)
        case Not():
            inner = evaluate_condition(condition.part, tree)
            turned = None if inner.truth is None else not inner.truth
            return Answer(truth=turned, missing=inner.missing, evidence=inner.evidence)
        case Comparison():
            return _evaluate_test(condition, tree)


def list_paths(condition: Condition) -> tuple[str, ...]:
    """Every path that the condition may read, in order."""
    match condition:
        case AllOf() | AnyOf():
            return tuple(path for part in condition.parts for path in list_paths(part))
        case Not():
            return list_paths(condition.part)
        case Comparison():
            return (condition.path,)


def _parse_test(data: Mapping[str, Plain], where: str) -> Comparison:
    path = data["path"]
    words = [word for word in data if word != "path"]
    if not isinstance(path, str) or not path or len(words) != 1:
        raise DataError(f"{where}: a test has a path and exactly one comparison")
    quantifier, _, operator = words[0].rpartition("-")
    if operator not in _COMPARISONS or quantifier not in ("", "any", "all"):
        raise DataError(f"{where}: there is no comparison named {words[0]}")
    if ("*" in path.split(".")) != bool(quantifier):
        raise DataError(f"{where}: any- and all- belong to paths with a *, and only to them")
    wanted = data[words[0]]
    if not _WANTED_IS_RIGHT[operator](wanted):
        raise DataError(f"{where}: {words[0]} cannot be tested against {wanted!r}")
    return Comparison(path=path, operator=operator, wanted=wanted, quantifier=quantifier)


def _combine(parts: Sequence[Condition], tree: Mapping[str, Plain], *, decisive: bool) -> Answer:
    answers = [evaluate_condition(part, tree) for part in parts]
    truth = _combine_truths([answer.truth for answer in answers], decisive=decisive)
    unknown = [answer for answer in answers if truth is None and answer.truth is None]
    return Answer(
        truth=truth,
        missing={path: reason for each in unknown for path, reason in each.missing.items()},
        evidence={path: value for each in answers for path, value in each.evidence.items()},
    )


def _combine_truths(truths: Sequence[bool | None], *, decisive: bool) -> bool | None:
    """Kleene: one decisive answer settles it; otherwise one unknown leaves it open."""
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def _evaluate_test(test: Comparison, tree: Mapping[str, Plain]) -> Answer:
    leaves = dict(_walk(tree, test.path.split("."), ()))
    truths = {path: _compare(test, value) for path, value in leaves.items()}
    truth = _combine_truths(list(truths.values()), decisive=test.quantifier == "any")
    unknown = [path for path in leaves if truth is None and truths[path] is None]
    return Answer(
        truth=truth,
        missing={path: _reason_of(leaves[path]) for path in unknown},
        evidence={path: leaf for path, leaf in leaves.items() if not isinstance(leaf, Unknown)},
    )


def _walk(
    value: Plain, parts: Sequence[str], walked: tuple[str, ...]
) -> Iterator[tuple[str, Plain | Unknown]]:
    """The leaves at a path, with their own paths; a ``*`` gives one for each item."""
    if isinstance(value, Unknown):
        yield ".".join((*walked, *parts)), value
    elif not parts:
        yield ".".join(walked), value
    elif parts[0] == "*":
        yield from _walk_items(value, parts, walked)
    elif isinstance(value, Mapping) and parts[0] in value:
        yield from _walk(value[parts[0]], parts[1:], (*walked, parts[0]))
    elif isinstance(value, (list, tuple)) and parts[0].isdigit() and int(parts[0]) < len(value):
        yield from _walk(value[int(parts[0])], parts[1:], (*walked, parts[0]))
    else:
        yield ".".join((*walked, *parts)), Unknown(reason="nothing was read there")


def _walk_items(
    value: Plain, parts: Sequence[str], walked: tuple[str, ...]
) -> Iterator[tuple[str, Plain | Unknown]]:
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield ".".join((*walked, *parts)), Unknown(reason="this is not a list")
        return
    for key, item in items:
        yield from _walk(item, parts[1:], (*walked, key))


def _reason_of(leaf: Plain | Unknown) -> str:
    return leaf.reason if isinstance(leaf, Unknown) else f"{leaf!r} cannot be compared"


def _compare(test: Comparison, value: Plain | Unknown) -> bool | None:
    if isinstance(value, Unknown):
        return None
    return _COMPARISONS[test.operator](value, test.wanted)


def _is_number(value: Plain) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_version_range(value: Plain) -> bool:
    return isinstance(value, str) and parse_version_range(value) is not None


def _is_pattern(value: Plain) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:
        return False


def _is_same(value: Plain, wanted: Plain) -> bool:
    # For Python True == 1; for a person who writes a rule they differ.
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _ordering(holds: Callable[[float, float], bool]) -> Callable[[Plain, Plain], bool | None]:
    """An order is only known between numbers; anything else leaves the test unknown."""
    return lambda value, wanted: holds(value, wanted) if _is_number(value) else None


def _is_in(value: Plain, wanted: Plain) -> bool:
    return any(_is_same(value, item) for item in wanted)


def _matches(value: Plain, wanted: Plain) -> bool | None:
    return re.search(wanted, value) is not None if isinstance(value, str) else None


def _is_in_versions(value: Plain, wanted: Plain) -> bool | None:
    version = parse_version(value) if isinstance(value, str) else None
    version_range = parse_version_range(wanted)
    if version is None or version_range is None:
        return None
    return version_is_in(version, version_range)


def _exists(value: Plain, wanted: Plain) -> bool:
    return (value is not None) is bool(wanted)


_COMPARISONS: Mapping[str, Callable[[Plain, Plain], bool | None]] = {
    "eq": _is_same,
    "ne": lambda value, wanted: not _is_same(value, wanted),
    "lt": _ordering(lambda value, wanted: value < wanted),
    "le": _ordering(lambda value, wanted: value <= wanted),
    "gt": _ordering(lambda value, wanted: value > wanted),
    "ge": _ordering(lambda value, wanted: value >= wanted),
    "in": _is_in,
    "matches": _matches,
    "version": _is_in_versions,
    "exists": _exists,
}

_WANTED_IS_RIGHT: Mapping[str, Callable[[Plain], bool]] = {
    "eq": lambda wanted: True,
    "ne": lambda wanted: True,
    "lt": _is_number,
    "le": _is_number,
    "gt": _is_number,
    "ge": _is_number,
    "in": lambda wanted: isinstance(wanted, list),
    "matches": _is_pattern,
    "version": _is_version_range,
    "exists": lambda wanted: isinstance(wanted, bool),
}
