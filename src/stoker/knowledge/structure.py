"""Turning JSON-shaped data of our own files into frozen values, strictly.

Called by every loader of :mod:`stoker.knowledge`. A misspelt key, a missing one or a value of
another type is a :class:`DataError` that says where; nothing is converted silently, and nothing
is ever guessed.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from stoker.errors import DataError
from stoker.model.facts import Plain

Value = TypeVar("Value")

_PLAIN_TYPES = (str, int, bool, float)


def structure(kind: type[Value], data: Plain, *, where: str) -> Value:
    """``data`` as a value of ``kind`` (a dataclass, or a tuple or mapping of them).

    ``where`` names the place in messages.

    A field whose data is such a value already is taken as it is, so that a caller can prepare
    the parts that are not plain. Raises DataError.
    """
    made: Value = _structure(kind, data, where)
    return made


def _structure(kind: Any, data: Plain, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return data
    if origin in (Union, types.UnionType):
        return _structure_union(kind, data, where)
    if origin is tuple:
        return _structure_list(get_args(kind)[0], data, where)
    if origin is not None and issubclass(origin, Mapping):
        return _structure_mapping(get_args(kind)[1], data, where)
    if kind in _PLAIN_TYPES:
        return _check_type(kind, data, where)
    return _structure_class(kind, data, where)


def _structure_union(kind: Any, data: Plain, where: str) -> Any:
    members = get_args(kind)
    if data is None and type(None) in members:
        return None
    classes = tuple(member for member in members if isinstance(member, type))
    if dataclasses.is_dataclass(data) and isinstance(data, classes):
        return data
    first = next(member for member in members if member is not type(None))
    return _structure(first, data, where)


def _structure_list(item_kind: Any, data: Plain, where: str) -> tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise DataError(f"{where}: expected a list, found {data!r}")
    if all(type(item) is item_kind for item in data):
        return tuple(data)
    return tuple(_structure(item_kind, item, f"{where}[{n}]") for n, item in enumerate(data))


def _structure_mapping(item_kind: Any, data: Plain, where: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise DataError(f"{where}: expected a table, found {data!r}")
    return {key: _structure(item_kind, item, f"{where}.{key}") for key, item in data.items()}


def _check_type(kind: type, data: Plain, where: str) -> Plain:
    # A bool is an int for Python, and never for us.
    if type(data) is not kind:
        raise DataError(f"{where}: expected {kind.__name__}, found {data!r}")
    return data


def _structure_class(kind: Any, data: Plain, where: str) -> Any:
    if isinstance(data, kind):
        return data
    if issubclass(kind, StrEnum):
        return _structure_word(kind, data, where)
    if not isinstance(data, Mapping):
        raise DataError(f"{where}: expected a table, found {data!r}")
    fields, required = _fields_of(kind)
    if unknown := sorted(set(data) - set(fields)):
        raise DataError(f"{where}: unknown key {', '.join(unknown)}")
    if missing := sorted(required - set(data)):
        raise DataError(f"{where}: missing key {', '.join(missing)}")
    # Most values are right as they are, and a large catalogue shall load within milliseconds.
    ready = _plain_fields_of(kind)
    return kind(
        **{
            key: value
            if type(value) in ready[key]
            else _structure(fields[key], value, f"{where}.{key}")
            for key, value in data.items()
        }
    )


def _structure_word(kind: type[StrEnum], data: Plain, where: str) -> StrEnum:
    try:
        return kind(data)
    except ValueError:
        words = ", ".join(kind)
        raise DataError(f"{where}: expected one of {words}, found {data!r}") from None


@cache
def _fields_of(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of a dataclass's fields by name, and the names that have no default."""
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    required = frozenset(
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    return {field.name: hints[field.name] for field in fields}, required


@cache
def _plain_fields_of(kind: Any) -> dict[str, tuple[type, ...]]:
    """For each field of a dataclass the types whose values need no structure: ``str | None``."""
    fields, _ = _fields_of(kind)
    return {name: tuple(_plain_types(field)) for name, field in fields.items()}


def _plain_types(kind: Any) -> Iterator[type]:
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    first = next((member for member in members if member is not type(None)), None)
    if first in _PLAIN_TYPES:
        yield first
    if type(None) in members:
        yield type(None)
